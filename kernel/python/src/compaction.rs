//! OffsetMap, KeyBuckets, merge, rewrite and rewrite_file of native_log._kernel; native_log.records.compaction documents them.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use crate::bytes::{Bytes, Part, recycled};
use crate::convert::{
    DEFAULT_MAX_BATCH_BYTES, OpenOrder, OrderTuple, arrow_error, borrowed, bytes_of, io_error, written,
};
use crate::options::{InputOptions, RewriteOptions, selection};
use crate::results::{map_progress, rewritten};
use crate::survivors::Survivors;
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

#[pyfunction]
#[pyo3(name = "rewrite", signature = (buffer, options, *, verdicts = None, base_position = 0))]
pub fn rewrite_batches<'py>(
    py: Python<'py>,
    buffer: PyBuffer<u8>,
    options: RewriteOptions<'py>,
    verdicts: Option<PyBuffer<u8>>,
    base_position: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = bytes_of(&buffer)?;
    let verdicts = verdicts.as_ref().map(bytes_of).transpose()?;
    let options = FormatOptions { verdicts, ..format_options(&options, base_position) };
    let mut data = recycled();
    let ((stopped, stats), batches) = py.detach(|| {
        let result = rewrite::rewrite(bytes, &options, &mut data);
        let batches = written(&data, 0);
        (result, batches)
    });
    rewritten(py, Bytes::new(data), batches.map_err(arrow_error)?, stopped, stats)
}

#[pyfunction]
#[pyo3(name = "rewrite_file", signature = (
    descriptor, position, end, options, *, judged = None, max_bytes = DEFAULT_MAX_BATCH_BYTES
))]
pub fn rewrite_file_batches<'py>(
    py: Python<'py>,
    descriptor: i32,
    position: i64,
    end: u64,
    options: RewriteOptions<'py>,
    judged: Option<Vec<i64>>,
    max_bytes: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let file = borrowed(descriptor)?;
    let judged = judged.as_deref();
    let options = FormatOptions { judged, max_bytes, ..format_options(&options, position) };
    let mut data = recycled();
    let (result, batches) = py.detach(|| {
        let result = rewrite::rewrite_file(&file, end, &options, &mut data);
        let batches = written(&data, 0);
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
