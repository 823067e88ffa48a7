//! The values of native_log.records that calls return. Their fields are passed by position, in the order of the Python
//! classes.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyMemoryView;

use kafka_log_format::check::Checked;
use kafka_log_format::compaction::keys::Progress;
use kafka_log_format::compaction::options::Stats;
use kafka_log_format::damage::{Damage, Skipped};
use kafka_log_format::status::Stopped;
use kafka_log_format::text::Lines;

use crate::bytes::Bytes;
use crate::convert::ArrowBatch;

const RESULTS: &str = "native_log.records.results";
const COMPACTION: &str = "native_log.records.compaction";

/// A class or function of Python, imported once.
struct Imported {
    module: &'static str,
    name: &'static str,
    object: PyOnceLock<Py<PyAny>>,
}

impl Imported {
    const fn new(module: &'static str, name: &'static str) -> Self {
        Imported { module, name, object: PyOnceLock::new() }
    }

    fn get<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        self.object.import(py, self.module, self.name)
    }
}

static RECORD_BATCH: Imported = Imported::new("pyarrow", "record_batch");
static DAMAGE: Imported = Imported::new(RESULTS, "Damage");
static FORMATTED: Imported = Imported::new(RESULTS, "Formatted");
static CHECKED: Imported = Imported::new(RESULTS, "Checked");
static DECODED: Imported = Imported::new(RESULTS, "Decoded");
static DIVIDED: Imported = Imported::new(RESULTS, "Divided");
static SCANNED: Imported = Imported::new(RESULTS, "Scanned");
static MAP_PROGRESS: Imported = Imported::new(COMPACTION, "MapProgress");
static REWRITE_STATS: Imported = Imported::new(COMPACTION, "RewriteStats");
static REWRITTEN: Imported = Imported::new(COMPACTION, "Rewritten");

type Object<'py> = PyResult<Bound<'py, PyAny>>;

/// A pyarrow.RecordBatch.
pub fn record_batch(py: Python<'_>, batch: ArrowBatch) -> Object<'_> {
    RECORD_BATCH.get(py)?.call1((batch,))
}

pub fn decoded(py: Python<'_>, batch: ArrowBatch, stopped: Stopped, skipped: Vec<Skipped>) -> Object<'_> {
    let batch = record_batch(py, batch)?;
    let Stopped { status, position, next_offset, needed_bytes, damage } = stopped;
    let damage = self::damage(py, damage)?;
    let skipped: Vec<_> = skipped.into_iter().map(skipped_damage).collect();
    DECODED.get(py)?.call1((batch, status.name(), position, next_offset, needed_bytes, damage, skipped))
}

/// The fields of a SkippedDamage.
fn skipped_damage(skipped: Skipped) -> (usize, i64, i64, i64, i64, String, &'static str) {
    let Skipped { rows, damage: Damage { fault, position, .. }, end_position, offset, next_offset } = skipped;
    (rows, position, end_position, offset, next_offset, fault.message, fault.kind.name())
}

pub fn scanned(py: Python<'_>, batch: ArrowBatch, stopped: Stopped) -> Object<'_> {
    let batch = record_batch(py, batch)?;
    let Stopped { status, position, next_offset, needed_bytes, damage } = stopped;
    let damage = self::damage(py, damage)?;
    SCANNED.get(py)?.call1((batch, status.name(), position, next_offset, needed_bytes, damage))
}

pub fn checked(py: Python<'_>, batch: ArrowBatch, checked: Checked) -> Object<'_> {
    let batch = record_batch(py, batch)?;
    let Checked { stopped, invalid_records, skipped, .. } = checked;
    let Stopped { status, position, next_offset, needed_bytes, damage } = stopped;
    let damage = self::damage(py, damage)?;
    let skipped: Vec<_> = skipped.into_iter().map(skipped_damage).collect();
    let fields = (batch, status.name(), position, next_offset, needed_bytes, damage, invalid_records, skipped);
    CHECKED.get(py)?.call1(fields)
}

pub fn divided(py: Python<'_>, ranges: Vec<(i64, i64)>, stopped: Stopped) -> Object<'_> {
    let Stopped { status, position, next_offset, needed_bytes, damage } = stopped;
    let damage = self::damage(py, damage)?;
    DIVIDED.get(py)?.call1((ranges, status.name(), position, next_offset, needed_bytes, damage))
}

pub fn map_progress(py: Python<'_>, progress: Progress) -> Object<'_> {
    let Progress { stopped, records, null_keys } = progress;
    let Stopped { status, position, next_offset, needed_bytes, damage } = stopped;
    let damage = self::damage(py, damage)?;
    let fields = (status.name(), position, next_offset, needed_bytes, damage, records, null_keys);
    MAP_PROGRESS.get(py)?.call1(fields)
}

pub fn formatted(py: Python<'_>, lines: Lines, stopped: Stopped) -> Object<'_> {
    let Lines { text, first_offset, last_offset, gaps } = lines;
    let text = PyMemoryView::from(Bound::new(py, Bytes::new(text))?.as_any())?;
    let Stopped { status, position, next_offset, needed_bytes, damage } = stopped;
    let damage = self::damage(py, damage)?;
    let fields = (text, first_offset, last_offset, gaps, status.name(), position, next_offset, needed_bytes, damage);
    FORMATTED.get(py)?.call1(fields)
}

pub fn rewritten(py: Python<'_>, data: Bytes, batches: ArrowBatch, stopped: Stopped, stats: Stats) -> Object<'_> {
    let data = PyMemoryView::from(Bound::new(py, data)?.as_any())?;
    let batches = record_batch(py, batches)?;
    let Stopped { status, position, next_offset, needed_bytes, damage } = stopped;
    let damage = self::damage(py, damage)?;
    let stats = REWRITE_STATS.get(py)?.call1((
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
    ))?;
    REWRITTEN.get(py)?.call1((data, batches, status.name(), position, next_offset, needed_bytes, damage, stats))
}

fn damage(py: Python<'_>, damage: Option<Damage>) -> PyResult<Option<Bound<'_, PyAny>>> {
    let Some(Damage { fault, position, size_bytes, offset }) = damage else { return Ok(None) };
    DAMAGE.get(py)?.call1((fault.kind.name(), position, size_bytes, offset, fault.message)).map(Some)
}
