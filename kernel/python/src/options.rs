//! The options of native_log.records.options and native_log.records.compaction, which document them: the same names and
//! fields. Each is read from the attributes of the Python value at every call.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

use kafka_log_format::codec::Codec;
use kafka_log_format::selection::{Aborted, Selection};

use crate::conditions::Conditions;
use crate::convert::bytes_of;
use crate::skipper::DamageSkipper;
use crate::survivors::Survivors;

/// What OffsetMap and KeyBuckets read.
#[derive(FromPyObject)]
pub struct InputOptions {
    pub start_offset: Option<i64>,
    pub end_offset: Option<i64>,
    pub aborted: PyBuffer<u8>,
    pub check_crcs: bool,
    pub max_batch_bytes: usize,
}

#[derive(FromPyObject)]
pub struct DecodeOptions {
    pub start_offset: Option<i64>,
    pub end_offset: Option<i64>,
    pub aborted: PyBuffer<u8>,
    pub check_crcs: bool,
    pub max_batch_bytes: usize,
    pub max_rows: Option<usize>,
    pub max_bytes: Option<usize>,
    pub control: bool,
    pub topic: Option<String>,
    pub partition: Option<i32>,
    pub segment: Option<String>,
    pub conditions: Option<Py<Conditions>>,
    pub skipper: Option<Py<DamageSkipper>>,
}

#[derive(FromPyObject)]
pub struct TextOptions {
    pub records: bool,
    pub record_metadata: bool,
    pub contents: bool,
    pub max_batch_bytes: usize,
}

#[derive(FromPyObject)]
pub struct EncodeOptions {
    pub magic: i8,
    pub compression: String,
    pub level: Option<i32>,
    pub batch_size: Limit,
    pub max_message_bytes: Option<Limit>,
    pub leader_epoch: i32,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub is_transactional: bool,
    pub timestamp_type: u8,
    pub append_time_ms: i64,
    pub now_ms: i64,
}

#[derive(FromPyObject)]
pub struct RewriteOptions<'py> {
    pub survivors: PyRef<'py, Survivors>,
    pub survivors_end: i64,
    pub now_ms: i64,
    pub delete_horizon_ms: Option<i64>,
    pub legacy_tombstones_kept: bool,
    pub nulled: Option<PyRef<'py, Survivors>>,
    pub check_crcs: bool,
    pub max_batch_bytes: usize,
}

impl EncodeOptions {
    pub fn codec(&self) -> PyResult<Codec> {
        let name = &self.compression;
        Codec::named(name).ok_or_else(|| PyValueError::new_err(format!("unknown compression {name:?}")))
    }
}

/// A number of bytes without an upper bound; no batch has more than 2^31 - 1.
#[derive(Clone, Copy)]
pub struct Limit(pub usize);

impl<'a, 'py> FromPyObject<'a, 'py> for Limit {
    type Error = PyErr;

    fn extract(number: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        const MOST: u64 = i32::MAX as u64;
        match number.extract::<u64>() {
            Ok(number) => Ok(Limit(number.min(MOST) as usize)),
            Err(error) if error.is_instance_of::<PyOverflowError>(number.py()) && number.gt(0)? => {
                Ok(Limit(MOST as usize))
            }
            Err(error) => Err(error),
        }
    }
}

/// `aborted` must be triples of integers of 64 bits.
pub fn selection(start_offset: Option<i64>, end_offset: Option<i64>, aborted: &PyBuffer<u8>) -> PyResult<Selection> {
    let bytes = bytes_of(aborted)?;
    let aborted = Aborted::from_bytes(bytes).ok_or_else(|| {
        PyValueError::new_err(format!("aborted: expected triples of 24 bytes, found {} bytes", bytes.len()))
    })?;
    Ok(Selection { start_offset, end_offset, aborted })
}
