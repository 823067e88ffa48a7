//! The classes and functions of native_log._kernel for compaction: Python values in, tuples out.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use roaring::RoaringTreemap;

use crate::bytes::{Bytes, Part, recycled};
use crate::convert::{
    self, ArrowBatch, DEFAULT_MAX_BATCH_BYTES, DamageTuple, OpenOrder, OrderTuple, aborted_of, arrow_error, borrowed,
    bytes_of, damage_tuple, io_error, written,
};
use kafka_log_format::compaction::buckets::MOST_BUCKETS;
use kafka_log_format::compaction::key_map::KeyMap;
use kafka_log_format::compaction::keys::{Options, Progress, Unshadowed, feed};
use kafka_log_format::compaction::options::Options as RewriteOptions;
use kafka_log_format::compaction::packs::{Kind, Merger};
use kafka_log_format::compaction::{buckets, rewrite, survivors};
use kafka_log_format::selection::Selection;
use kafka_log_format::status::Stopped;

/// (status, position, next_offset, needed_bytes, damage, records, null_keys)
type ProgressTuple = (&'static str, i64, Option<i64>, usize, Option<DamageTuple>, u64, u64);
/// (data, batches, status, position, next_offset, needed_bytes, damage, stats)
type RewrittenTuple = (Bytes, ArrowBatch, &'static str, i64, Option<i64>, usize, Option<DamageTuple>, [u64; 11]);

fn progress(found: Progress) -> ProgressTuple {
    let Progress { stopped, records, null_keys } = found;
    let Stopped { status, position, next_offset, needed_bytes, damage } = stopped;
    (status.name(), position, next_offset, needed_bytes, damage.map(damage_tuple), records, null_keys)
}

/// The arguments of all calls that read a buffer.
struct Source<'a> {
    bytes: &'a [u8],
    options: Options<'a>,
}

#[expect(clippy::too_many_arguments, reason = "the keywords of OffsetMap.put_batches")]
fn source<'a>(
    buffer: &'a PyBuffer<u8>,
    base_position: i64,
    start_offset: Option<i64>,
    end_offset: Option<i64>,
    aborted: Option<&PyBuffer<u8>>,
    check_crcs: bool,
    max_batch_bytes: usize,
    order: Option<&'a OpenOrder>,
) -> PyResult<Source<'a>> {
    let aborted = aborted.map(aborted_of).transpose()?.unwrap_or_default();
    let selection = Selection { start_offset, end_offset, aborted };
    let order = order.map(OpenOrder::order);
    let options = Options { base_position, selection, order, check_crcs, max_batch_bytes };
    Ok(Source { bytes: bytes_of(buffer)?, options })
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

    #[pyo3(signature = (
        buffer, *, base_position = 0, start_offset = None, end_offset = None, aborted = None, check_crcs = true,
        max_batch_bytes = DEFAULT_MAX_BATCH_BYTES, order = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of OffsetMap.put_batches")]
    fn put_batches(
        &mut self,
        py: Python<'_>,
        buffer: PyBuffer<u8>,
        base_position: i64,
        start_offset: Option<i64>,
        end_offset: Option<i64>,
        aborted: Option<PyBuffer<u8>>,
        check_crcs: bool,
        max_batch_bytes: usize,
        order: Option<OrderTuple>,
    ) -> PyResult<ProgressTuple> {
        let aborted = aborted.as_ref();
        let order = OpenOrder::of(order)?;
        let order = order.as_ref();
        let Source { bytes, options } =
            source(&buffer, base_position, start_offset, end_offset, aborted, check_crcs, max_batch_bytes, order)?;
        let map = &mut self.map;
        Ok(progress(py.detach(|| feed(bytes, &options, map))))
    }

    #[pyo3(signature = (
        buffer, survivors, *, base_position = 0, start_offset = None, end_offset = None, aborted = None,
        check_crcs = true, max_batch_bytes = DEFAULT_MAX_BATCH_BYTES, order = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of OffsetMap.mark")]
    fn mark(
        &self,
        py: Python<'_>,
        buffer: PyBuffer<u8>,
        mut survivors: PyRefMut<'_, Survivors>,
        base_position: i64,
        start_offset: Option<i64>,
        end_offset: Option<i64>,
        aborted: Option<PyBuffer<u8>>,
        check_crcs: bool,
        max_batch_bytes: usize,
        order: Option<OrderTuple>,
    ) -> PyResult<ProgressTuple> {
        let aborted = aborted.as_ref();
        let order = OpenOrder::of(order)?;
        let order = order.as_ref();
        let Source { bytes, options } =
            source(&buffer, base_position, start_offset, end_offset, aborted, check_crcs, max_batch_bytes, order)?;
        let (map, set) = (&self.map, &mut survivors.set);
        let found = py.detach(|| {
            let mut unshadowed = Unshadowed::new(map, set);
            let found = feed(bytes, &options, &mut unshadowed);
            unshadowed.finish();
            found
        });
        Ok(progress(found))
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

    #[pyo3(signature = (
        buffer, *, base_position = 0, start_offset = None, end_offset = None, aborted = None, check_crcs = true,
        max_batch_bytes = DEFAULT_MAX_BATCH_BYTES, order = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of OffsetMap.put_batches")]
    fn put_batches(
        &mut self,
        py: Python<'_>,
        buffer: PyBuffer<u8>,
        base_position: i64,
        start_offset: Option<i64>,
        end_offset: Option<i64>,
        aborted: Option<PyBuffer<u8>>,
        check_crcs: bool,
        max_batch_bytes: usize,
        order: Option<OrderTuple>,
    ) -> PyResult<ProgressTuple> {
        let aborted = aborted.as_ref();
        let order = OpenOrder::of(order)?;
        let order = order.as_ref();
        let Source { bytes, options } =
            source(&buffer, base_position, start_offset, end_offset, aborted, check_crcs, max_batch_bytes, order)?;
        self.reclaim();
        let buckets = &mut self.buckets;
        Ok(progress(py.detach(|| feed(bytes, &options, buckets))))
    }

    fn take(&mut self, py: Python<'_>) -> Vec<Part> {
        let buckets = &mut self.buckets;
        let packs = Arc::new(py.detach(|| buckets.take()));
        self.taken = Some(Arc::clone(&packs));
        Part::each(&packs)
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
    fn new() -> Self {
        Survivors { set: RoaringTreemap::new() }
    }

    fn contains(&self, offset: u64) -> bool {
        self.set.contains(offset)
    }

    fn __len__(&self) -> PyResult<usize> {
        isize::try_from(self.set.len())
            .map(|length| length as usize)
            .map_err(|_| PyOverflowError::new_err("expected at most 2^63 - 1 offsets, found more"))
    }

    fn __eq__(&self, other: PyRef<'_, Survivors>) -> bool {
        self.set == other.set
    }

    /// Up to `count` offsets from `start` on, ascending.
    fn some_from(&self, start: u64, count: usize) -> Vec<u64> {
        let mut offsets = self.set.iter();
        offsets.advance_to(start);
        offsets.take(count).collect()
    }

    fn add_many(&mut self, py: Python<'_>, offsets: PyBuffer<u8>) -> PyResult<()> {
        let (values, rest) = bytes_of(&offsets)?.as_chunks::<8>();
        if !rest.is_empty() {
            let bytes = values.len() * 8 + rest.len();
            return Err(PyValueError::new_err(format!("expected 64-bit offsets, found {bytes} bytes")));
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

    fn add_range(&mut self, py: Python<'_>, start_offset: u64, end_offset: u64) {
        let set = &mut self.set;
        py.detach(|| set.insert_range(start_offset..end_offset));
    }

    fn between(&self, py: Python<'_>, start_offset: u64, end_offset: u64) -> Self {
        Survivors { set: py.detach(|| survivors::between(&self.set, start_offset, end_offset)) }
    }

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
            return Err(PyValueError::new_err(format!("{} bytes are left after the bitmap", rest.len())));
        }
        if set.max().is_some_and(|most| i64::try_from(most).is_err()) {
            return Err(PyValueError::new_err("expected offsets of at most 2^63 - 1, found a greater one"));
        }
        Ok(Survivors { set })
    }
}

#[pyfunction]
#[pyo3(name = "rewrite", signature = (
    source, *, survivors, survivors_end, now_ms, delete_horizon_ms, verdicts = None, legacy_tombstones_kept = true,
    nulled = None, base_position = 0, output_position = 0, check_crcs = true,
    max_batch_bytes = DEFAULT_MAX_BATCH_BYTES, max_bytes = usize::MAX, judged = None
))]
#[expect(clippy::too_many_arguments, reason = "the keywords of native_log.records.rewrite")]
pub fn rewrite_batches(
    py: Python<'_>,
    source: convert::Source,
    survivors: PyRef<'_, Survivors>,
    survivors_end: i64,
    now_ms: i64,
    delete_horizon_ms: Option<i64>,
    verdicts: Option<PyBuffer<u8>>,
    legacy_tombstones_kept: bool,
    nulled: Option<PyRef<'_, Survivors>>,
    base_position: i64,
    output_position: i64,
    check_crcs: bool,
    max_batch_bytes: usize,
    max_bytes: usize,
    judged: Option<Vec<i64>>,
) -> PyResult<RewrittenTuple> {
    if let Some(horizon) = delete_horizon_ms.filter(|&horizon| horizon < 0) {
        return Err(PyValueError::new_err(format!("expected a delete horizon of at least 0, found {horizon}")));
    }
    let options = RewriteOptions {
        base_position: if let convert::Source::File(_, position, _) = source { position } else { base_position },
        survivors: &survivors.set,
        survivors_end,
        now_ms,
        delete_horizon_ms,
        verdicts: verdicts.as_ref().map(bytes_of).transpose()?,
        legacy_tombstones_kept,
        nulled: nulled.as_ref().map(|nulled| &nulled.set),
        check_crcs,
        max_batch_bytes,
        max_bytes,
        judged: judged.as_deref(),
    };
    let mut data = recycled();
    let (stopped, stats) = match &source {
        convert::Source::Buffer(buffer) => {
            let bytes = bytes_of(buffer)?;
            py.detach(|| rewrite::rewrite(bytes, &options, &mut data))
        }
        &convert::Source::File(descriptor, _, end) => {
            let file = borrowed(descriptor)?;
            py.detach(|| rewrite::rewrite_file(&file, end, &options, &mut data)).map_err(io_error)?
        }
    };
    let batches = py.detach(|| written(&data, output_position));
    let Stopped { status, position, next_offset, needed_bytes, damage } = stopped;
    let stats = [
        stats.batches_read,
        stats.batches_kept,
        stats.batches_copied,
        stats.batches_emptied,
        stats.records_read,
        stats.records_kept,
        stats.bytes_read,
        stats.bytes_kept,
        stats.tombstones_kept,
        stats.tombstones_dropped,
        stats.horizons_set,
    ];
    let batches = batches.map_err(arrow_error)?;
    let damage = damage.map(damage_tuple);
    Ok((Bytes::new(data), batches, status.name(), position, next_offset, needed_bytes, damage, stats))
}
