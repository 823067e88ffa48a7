//! The classes and functions of compaction in native_log._kernel; native_log.records.compaction documents them.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};
use roaring::RoaringTreemap;

use crate::bytes::{Bytes, Part, recycled};
use crate::convert::{
    DEFAULT_MAX_BATCH_BYTES, OpenOrder, OrderTuple, arrow_error, borrowed, bytes_of, io_error, written,
};
use crate::options::{InputOptions, RewriteOptions, selection};
use crate::results::{map_progress, rewritten};
use kafka_log_format::compaction::buckets::MOST_BUCKETS;
use kafka_log_format::compaction::key_map::KeyMap;
use kafka_log_format::compaction::keys::{Options, Unshadowed, feed};
use kafka_log_format::compaction::options::Options as FormatOptions;
use kafka_log_format::compaction::packs::{Kind, Merger};
use kafka_log_format::compaction::{buckets, rewrite, survivors};

/// The options of a call of `put_batches` or `mark`.
fn key_options<'a>(options: &InputOptions, base_position: i64, order: Option<&'a OpenOrder>) -> PyResult<Options<'a>> {
    Ok(Options {
        base_position,
        selection: selection(options.start_offset, options.end_offset, &options.aborted)?,
        order: order.map(OpenOrder::order),
        check_crcs: options.check_crcs,
        max_batch_bytes: options.max_batch_bytes,
    })
}

#[pyclass(module = "native_log._kernel")]
pub struct OffsetMap {
    map: KeyMap,
}

#[pymethods]
impl OffsetMap {
    #[new]
    fn new(max_bytes: usize) -> Self {
        OffsetMap { map: KeyMap::new(max_bytes) }
    }

    fn __len__(&self) -> usize {
        self.map.len()
    }

    #[getter]
    fn size_bytes(&self) -> usize {
        self.map.size_bytes()
    }

    fn get(&self, key: &[u8]) -> Option<i64> {
        self.map.get(key)
    }

    #[pyo3(signature = (buffer, options, *, base_position = 0, order = None))]
    fn put_batches<'py>(
        &mut self,
        py: Python<'py>,
        buffer: PyBuffer<u8>,
        options: InputOptions,
        base_position: i64,
        order: Option<OrderTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (bytes, order) = (bytes_of(&buffer)?, OpenOrder::of(order)?);
        let options = key_options(&options, base_position, order.as_ref())?;
        let map = &mut self.map;
        map_progress(py, py.detach(|| feed(bytes, &options, map)))
    }

    #[pyo3(signature = (buffer, survivors, options, *, base_position = 0, order = None))]
    fn mark<'py>(
        &self,
        py: Python<'py>,
        buffer: PyBuffer<u8>,
        mut survivors: PyRefMut<'_, Survivors>,
        options: InputOptions,
        base_position: i64,
        order: Option<OrderTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (bytes, order) = (bytes_of(&buffer)?, OpenOrder::of(order)?);
        let options = key_options(&options, base_position, order.as_ref())?;
        let (map, set) = (&self.map, &mut survivors.set);
        let progress = py.detach(|| {
            let mut unshadowed = Unshadowed::new(map, set);
            let progress = feed(bytes, &options, &mut unshadowed);
            unshadowed.finish();
            progress
        });
        map_progress(py, progress)
    }

    fn survivors(&self, py: Python<'_>) -> Survivors {
        let map = &self.map;
        let offsets = || map.entries().filter_map(|(_, offset)| u64::try_from(offset).ok()).collect();
        Survivors { set: py.detach(|| survivors::from_unsorted(offsets())) }
    }
}

fn check_count(count: usize) -> PyResult<()> {
    match count {
        1..=MOST_BUCKETS => Ok(()),
        _ => Err(PyValueError::new_err(format!("expected 1 to {MOST_BUCKETS} buckets, found {count}"))),
    }
}

#[pyclass(module = "native_log._kernel")]
pub struct KeyBuckets {
    buckets: buckets::KeyBuckets,
    /// The last packs taken, which Python may still read.
    taken: Option<Arc<Vec<Vec<u8>>>>,
}

impl KeyBuckets {
    /// Reuses the memory of packs that Python has dropped.
    fn reclaim(&mut self) {
        if let Some(packs) = self.taken.take().and_then(Arc::into_inner) {
            self.buckets.reuse(packs);
        }
    }
}

impl Drop for KeyBuckets {
    fn drop(&mut self) {
        self.reclaim();
    }
}

#[pymethods]
impl KeyBuckets {
    #[new]
    #[pyo3(signature = (count, max_bytes, *, dirty))]
    fn new(count: usize, max_bytes: usize, dirty: bool) -> PyResult<Self> {
        check_count(count)?;
        let kind = if dirty { Kind::Dirty } else { Kind::Clean };
        Ok(KeyBuckets { buckets: buckets::KeyBuckets::new(kind, count, max_bytes), taken: None })
    }

    fn __len__(&self) -> usize {
        self.buckets.len()
    }

    #[getter]
    fn size_bytes(&self) -> usize {
        self.buckets.size_bytes()
    }

    #[pyo3(signature = (buffer, options, *, base_position = 0, order = None))]
    fn put_batches<'py>(
        &mut self,
        py: Python<'py>,
        buffer: PyBuffer<u8>,
        options: InputOptions,
        base_position: i64,
        order: Option<OrderTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (bytes, order) = (bytes_of(&buffer)?, OpenOrder::of(order)?);
        let options = key_options(&options, base_position, order.as_ref())?;
        self.reclaim();
        let buckets = &mut self.buckets;
        map_progress(py, py.detach(|| feed(bytes, &options, buckets)))
    }

    fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyMemoryView>>> {
        let buckets = &mut self.buckets;
        let packs = Arc::new(py.detach(|| buckets.take()));
        self.taken = Some(Arc::clone(&packs));
        Part::each(&packs).into_iter().map(|pack| PyMemoryView::from(Bound::new(py, pack)?.as_any())).collect()
    }
}

/// Raises what the iterables raise, and ValueError for bytes that are not a pack.
#[pyfunction]
#[pyo3(name = "merge")]
pub fn merge_packs(py: Python<'_>, buckets: &Bound<'_, PyAny>) -> PyResult<Survivors> {
    let mut merger = Merger::default();
    for (number, bucket) in buckets.try_iter()?.enumerate() {
        let packs = bucket?.try_iter()?.map(|pack| pack?.extract()).collect::<PyResult<Vec<PyBuffer<u8>>>>()?;
        let packs = packs.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
        let added = py.detach(|| merger.add(&packs));
        added.map_err(|what| PyValueError::new_err(format!("bucket {number}: {what}")))?;
    }
    Ok(Survivors { set: py.detach(|| merger.survivors()) })
}

#[pyclass(module = "native_log._kernel")]
pub struct Survivors {
    set: RoaringTreemap,
}

#[pymethods]
impl Survivors {
    #[new]
    #[pyo3(signature = (offsets = None))]
    fn new(offsets: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let mut values = Vec::new();
        if let Some(offsets) = offsets {
            for offset in offsets.try_iter()? {
                values.push(offset_of(&offset?)?);
            }
        }
        Ok(Survivors { set: survivors::from_unsorted(values) })
    }

    fn __contains__(&self, offset: &Bound<'_, PyAny>) -> bool {
        offset_of(offset).is_ok_and(|offset| self.set.contains(offset))
    }

    fn __len__(&self) -> PyResult<usize> {
        isize::try_from(self.set.len())
            .map(|length| length as usize)
            .map_err(|_| PyOverflowError::new_err("expected at most 2^63 - 1 offsets, found more"))
    }

    fn __iter__(slf: Py<Self>) -> SurvivorsIterator {
        SurvivorsIterator { survivors: slf, next: Some(0), chunk: Vec::new().into_iter() }
    }

    fn __eq__(&self, other: PyRef<'_, Survivors>) -> bool {
        self.set == other.set
    }

    /// `offsets` may be a buffer of any type, such as a NumPy array.
    fn add_many(&mut self, py: Python<'_>, offsets: &Bound<'_, PyAny>) -> PyResult<()> {
        let offsets: PyBuffer<u8> = PyMemoryView::from(offsets)?.call_method1("cast", ("B",))?.extract()?;
        let (values, rest) = bytes_of(&offsets)?.as_chunks::<8>();
        if !rest.is_empty() {
            let bytes = values.len() * 8 + rest.len();
            return Err(PyValueError::new_err(format!("expected offsets of 8 bytes, found {bytes} bytes")));
        }
        let set = &mut self.set;
        py.detach(|| {
            let values = values.iter().map(|&bytes| u64::try_from(i64::from_ne_bytes(bytes)));
            let values = values.collect::<Result<Vec<u64>, _>>();
            *set |= survivors::from_unsorted(values?);
            Ok(())
        })
        .map_err(|_: std::num::TryFromIntError| {
            PyValueError::new_err("expected offsets of at least 0, found a negative one")
        })
    }

    fn add_range(&mut self, py: Python<'_>, start_offset: i128, end_offset: i128) -> PyResult<()> {
        if start_offset < 0 || end_offset > MOST_OFFSETS {
            let message = format!("expected offsets from 0 to 2^63 - 1, found [{start_offset}, {end_offset})");
            return Err(PyValueError::new_err(message));
        }
        let set = &mut self.set;
        if start_offset < end_offset {
            py.detach(|| set.insert_range(start_offset as u64..end_offset as u64));
        }
        Ok(())
    }

    fn between(&self, py: Python<'_>, start_offset: i128, end_offset: i128) -> Self {
        let [start, end] = [start_offset, end_offset].map(|offset| offset.clamp(0, MOST_OFFSETS) as u64);
        Survivors { set: py.detach(|| survivors::between(&self.set, start, end)) }
    }

    #[pyo3(signature = (*others))]
    fn union(&self, py: Python<'_>, others: Vec<PyRef<'_, Survivors>>) -> Self {
        let others: Vec<&RoaringTreemap> = others.iter().map(|other| &other.set).collect();
        let mut set = self.set.clone();
        py.detach(|| others.into_iter().for_each(|other| set |= other));
        Survivors { set }
    }

    fn difference(&self, py: Python<'_>, other: PyRef<'_, Survivors>) -> Self {
        let (set, other) = (&self.set, &other.set);
        Survivors { set: py.detach(|| set - other) }
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = Vec::with_capacity(self.set.serialized_size());
        py.detach(|| self.set.serialize_into(&mut bytes))?;
        Ok(PyBytes::new(py, &bytes))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: PyBuffer<u8>) -> PyResult<Self> {
        let mut rest = bytes_of(&data)?;
        let set = py.detach(|| RoaringTreemap::deserialize_from(&mut rest));
        let set = set.map_err(|error| PyValueError::new_err(error.to_string()))?;
        if !rest.is_empty() {
            return Err(PyValueError::new_err(format!(
                "expected the end of the bitmap, found {} more bytes",
                rest.len()
            )));
        }
        if set.max().is_some_and(|most| i64::try_from(most).is_err()) {
            return Err(PyValueError::new_err("expected offsets of at most 2^63 - 1, found a greater one"));
        }
        Ok(Survivors { set })
    }
}

/// The number of offsets there can be: 0 to 2^63 - 1.
const MOST_OFFSETS: i128 = 1 << 63;

fn offset_of(offset: &Bound<'_, PyAny>) -> PyResult<u64> {
    let value = offset.extract::<i64>().map(u64::try_from);
    match value {
        Ok(Ok(offset)) => Ok(offset),
        Err(error) if !error.is_instance_of::<PyOverflowError>(offset.py()) => Err(error),
        _ => Err(PyValueError::new_err(format!("expected an offset from 0 to 2^63 - 1, found {offset}"))),
    }
}

/// The offsets, ascending. Each chunk is read on its own, so that the set may change meanwhile.
#[pyclass(module = "native_log._kernel")]
pub struct SurvivorsIterator {
    survivors: Py<Survivors>,
    /// Where the next chunk begins; None: nowhere.
    next: Option<u64>,
    chunk: std::vec::IntoIter<u64>,
}

const OFFSETS_PER_CHUNK: usize = 1 << 14;

#[pymethods]
impl SurvivorsIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<u64>> {
        if let Some(offset) = self.chunk.next() {
            return Ok(Some(offset));
        }
        let Some(start) = self.next else { return Ok(None) };
        let chunk: Vec<u64> = {
            let survivors = self.survivors.try_borrow(py)?;
            let mut offsets = survivors.set.iter();
            offsets.advance_to(start);
            offsets.take(OFFSETS_PER_CHUNK).collect()
        };
        self.next = chunk.last().map(|&last| last + 1);
        self.chunk = chunk.into_iter();
        Ok(self.chunk.next())
    }
}

#[pyfunction]
#[pyo3(name = "rewrite", signature = (
    buffer, options, *, verdicts = None, base_position = 0, output_position = 0
))]
pub fn rewrite_batches<'py>(
    py: Python<'py>,
    buffer: PyBuffer<u8>,
    options: RewriteOptions<'py>,
    verdicts: Option<PyBuffer<u8>>,
    base_position: i64,
    output_position: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = bytes_of(&buffer)?;
    let verdicts = verdicts.as_ref().map(bytes_of).transpose()?;
    let options = FormatOptions { verdicts, ..format_options(&options, base_position) };
    let mut data = recycled();
    let ((stopped, stats), batches) = py.detach(|| {
        let result = rewrite::rewrite(bytes, &options, &mut data);
        let batches = written(&data, output_position);
        (result, batches)
    });
    rewritten(py, Bytes::new(data), batches.map_err(arrow_error)?, stopped, stats)
}

#[pyfunction]
#[pyo3(name = "rewrite_file", signature = (
    descriptor, position, end, options, *, judged = None, max_bytes = DEFAULT_MAX_BATCH_BYTES, output_position = 0
))]
#[expect(clippy::too_many_arguments, reason = "what changes from call to call")]
pub fn rewrite_file_batches<'py>(
    py: Python<'py>,
    descriptor: i32,
    position: i64,
    end: u64,
    options: RewriteOptions<'py>,
    judged: Option<Vec<i64>>,
    max_bytes: usize,
    output_position: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let file = borrowed(descriptor)?;
    let judged = judged.as_deref();
    let options = FormatOptions { judged, max_bytes, ..format_options(&options, position) };
    let mut data = recycled();
    let (result, batches) = py.detach(|| {
        let result = rewrite::rewrite_file(&file, end, &options, &mut data);
        let batches = written(&data, output_position);
        (result, batches)
    });
    let (stopped, stats) = result.map_err(io_error)?;
    rewritten(py, Bytes::new(data), batches.map_err(arrow_error)?, stopped, stats)
}

fn format_options<'a>(options: &'a RewriteOptions<'_>, base_position: i64) -> FormatOptions<'a> {
    FormatOptions {
        base_position,
        survivors: &options.survivors.set,
        survivors_end: options.survivors_end,
        now_ms: options.now_ms,
        delete_horizon_ms: options.delete_horizon_ms,
        verdicts: None,
        legacy_tombstones_kept: options.legacy_tombstones_kept,
        nulled: options.nulled.as_ref().map(|nulled| &nulled.set),
        check_crcs: options.check_crcs,
        max_batch_bytes: options.max_batch_bytes,
        max_bytes: usize::MAX,
        judged: None,
    }
}
