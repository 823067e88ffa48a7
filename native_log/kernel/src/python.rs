//! The module native_log._kernel: Python values in, Arrow capsules and tuples out. It translates and does no more.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

use arrow_array::{Array, ArrayRef, StructArray};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Fields};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyEOFError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::columns::{Column, Constants, RecordColumns, fields};
use crate::damage::Damage;
use crate::decode::{Aborted, Options, Stopped, decode, decode_file};
use crate::find::find_batch;
use crate::scan::{scan, scan_headers, to_arrow};

/// Goes up when the functions below change.
const API_VERSION: u32 = 12;

/// As DEFAULT_MAX_BATCH_BYTES of native_log.records.
pub(crate) const DEFAULT_MAX_BATCH_BYTES: usize = 256 << 20;

/// (kind, position, size_bytes, offset, message)
pub(crate) type DamageTuple = (&'static str, i64, i64, i64, String);
/// (batch, status, position, next_offset, needed_bytes, damage)
type ResultTuple = (ArrowBatch, &'static str, i64, Option<i64>, usize, Option<DamageTuple>);

#[pymodule]
mod _kernel {
    use super::*;

    #[pymodule_export]
    const API_VERSION: u32 = super::API_VERSION;

    #[pymodule_export]
    use super::ArrowBatch;
    #[pymodule_export]
    use crate::bytes::Bytes;
    #[pymodule_export]
    use crate::cleaner::headers::Headers;
    #[pymodule_export]
    use crate::cleaner::python::{KeyBuckets, OffsetMap, Survivors, merge_packs, rewrite_batches};

    #[pymodule_export]
    use crate::encode::python::{deal, encode, murmur2, patch, write_prefixes};

    #[pyfunction]
    #[pyo3(signature = (buffer, *, base_position = 0, check_crcs = false, max_batch_bytes = DEFAULT_MAX_BATCH_BYTES))]
    fn scan(
        py: Python<'_>,
        buffer: PyBuffer<u8>,
        base_position: i64,
        check_crcs: bool,
        max_batch_bytes: usize,
    ) -> PyResult<ResultTuple> {
        let bytes = bytes_of(&buffer)?;
        let (batch, stopped) = py.detach(|| {
            let (rows, stopped) = super::scan(bytes, base_position, check_crcs, max_batch_bytes);
            let (fields, arrays) = to_arrow(&rows);
            (ArrowBatch::new(fields, arrays, rows.len()), stopped)
        });
        Ok(result(batch.map_err(arrow_error)?, stopped))
    }

    #[pyfunction]
    #[pyo3(signature = (descriptor, position, end, *, max_rows, max_batch_bytes = DEFAULT_MAX_BATCH_BYTES))]
    fn scan_headers(
        py: Python<'_>,
        descriptor: i32,
        position: u64,
        end: u64,
        max_rows: usize,
        max_batch_bytes: usize,
    ) -> PyResult<ResultTuple> {
        let file = borrowed(descriptor)?;
        let scanned = py.detach(|| {
            super::scan_headers(&file, position, end, max_rows, max_batch_bytes).map(|(rows, stopped)| {
                let (fields, arrays) = to_arrow(&rows);
                (ArrowBatch::new(fields, arrays, rows.len()), stopped)
            })
        });
        let (batch, stopped) = scanned.map_err(io_error)?;
        Ok(result(batch.map_err(arrow_error)?, stopped))
    }

    #[pyfunction]
    #[pyo3(signature = (
        source, columns, *, base_position = 0, start_offset = None, end_offset = None, aborted = None, max_rows = None,
        max_bytes = None, check_crcs = true, max_batch_bytes = DEFAULT_MAX_BATCH_BYTES, control = false, topic = None,
        partition = None, segment = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of native_log.records.decode")]
    fn decode(
        py: Python<'_>,
        source: Source,
        columns: Vec<String>,
        base_position: i64,
        start_offset: Option<i64>,
        end_offset: Option<i64>,
        aborted: Option<PyBuffer<u8>>,
        max_rows: Option<usize>,
        max_bytes: Option<usize>,
        check_crcs: bool,
        max_batch_bytes: usize,
        control: bool,
        topic: Option<String>,
        partition: Option<i32>,
        segment: Option<String>,
    ) -> PyResult<ResultTuple> {
        let columns = columns.iter().map(|name| column(name)).collect::<PyResult<Vec<_>>>()?;
        let options = Options {
            base_position: if let Source::File(_, position, _) = source { position } else { base_position },
            start_offset,
            end_offset,
            aborted: aborted.as_ref().map(aborted_of).transpose()?.unwrap_or_default(),
            max_rows,
            max_bytes,
            check_crcs,
            max_batch_bytes,
            control,
            constants: Constants { topic: topic.as_deref(), partition, segment: segment.as_deref() },
        };
        let arrow = |(records, stopped): (RecordColumns, Stopped)| {
            let rows = records.rows;
            (ArrowBatch::new(fields(&columns), records.finish(&columns, &options.constants), rows), stopped)
        };
        let (batch, stopped) = match &source {
            Source::Buffer(buffer) => {
                let bytes = bytes_of(buffer)?;
                py.detach(|| arrow(super::decode(bytes, &columns, &options)))
            }
            &Source::File(descriptor, _, end) => {
                let file = borrowed(descriptor)?;
                py.detach(|| decode_file(&file, end, &columns, &options).map(arrow)).map_err(io_error)?
            }
        };
        Ok(result(batch.map_err(arrow_error)?, stopped))
    }

    /// See native_log.records.reference.find_batch.
    #[pyfunction]
    #[pyo3(signature = (
        buffer, start = 0, *, base_position = 0, min_offset = 0, max_offset = i64::MAX, max_batch_bytes = 0
    ))]
    fn find_batch(
        py: Python<'_>,
        buffer: PyBuffer<u8>,
        start: i64,
        base_position: i64,
        min_offset: i64,
        max_offset: i64,
        max_batch_bytes: usize,
    ) -> PyResult<Option<i64>> {
        let bytes = bytes_of(&buffer)?;
        let start = usize::try_from(start).unwrap_or(0);
        let found = py.detach(|| super::find_batch(bytes, start, min_offset, max_offset, max_batch_bytes));
        Ok(found.map(|index| base_position.saturating_add(index as i64)))
    }
}

/// What to decode: bytes, or those of an open file (descriptor, position, end).
#[derive(FromPyObject)]
pub enum Source {
    #[pyo3(transparent)]
    Buffer(PyBuffer<u8>),
    File(i32, i64, u64),
}

/// The file of a descriptor that the caller keeps open during the call, and that is not closed here.
pub(crate) fn borrowed(descriptor: i32) -> PyResult<ManuallyDrop<File>> {
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF).into());
    }
    // SAFETY: the descriptor is the caller's. The file is never dropped, and so never closes it.
    Ok(ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) }))
}

pub(crate) fn io_error(error: io::Error) -> PyErr {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => PyEOFError::new_err(error.to_string()),
        _ => error.into(),
    }
}

/// A record batch to be fetched through Arrow's PyCapsule interface, any number of times.
#[pyclass(frozen, module = "native_log._kernel")]
pub struct ArrowBatch {
    fields: Fields,
    array: StructArray,
}

impl ArrowBatch {
    pub(crate) fn new(fields: Fields, arrays: Vec<ArrayRef>, rows: usize) -> Result<Self, ArrowError> {
        let array = StructArray::try_new_with_length(fields.clone(), arrays, None, rows)?;
        Ok(ArrowBatch { fields, array })
    }
}

#[pymethods]
impl ArrowBatch {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema; // a wish that Arrow lets producers pass over
        let schema = FFI_ArrowSchema::try_from(DataType::Struct(self.fields.clone())).map_err(arrow_error)?;
        let array = FFI_ArrowArray::new(&self.array.to_data());
        let schema = PyCapsule::new_with_value(py, schema, c"arrow_schema")?;
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        Ok((schema, array))
    }
}

/// The rows of batches just written at `position`, whose CRCs are right.
pub(crate) fn written(batches: &[u8], position: i64) -> Result<ArrowBatch, ArrowError> {
    let (mut rows, _) = scan(batches, position, false, usize::MAX);
    rows.iter_mut().for_each(|row| row.is_valid = Some(true));
    let (fields, arrays) = to_arrow(&rows);
    ArrowBatch::new(fields, arrays, rows.len())
}

fn result(batch: ArrowBatch, stopped: Stopped) -> ResultTuple {
    let Stopped { status, position, next_offset, needed_bytes, damage } = stopped;
    (batch, status.name(), position, next_offset, needed_bytes, damage.map(damage_tuple))
}

pub(crate) fn damage_tuple(damage: Damage) -> DamageTuple {
    (damage.fault.kind.name(), damage.position, damage.size_bytes, damage.offset, damage.fault.message)
}

fn column(name: &str) -> PyResult<Column> {
    Column::named(name).ok_or_else(|| PyValueError::new_err(format!("unknown column {name:?}")))
}

pub(crate) fn aborted_of(buffer: &PyBuffer<u8>) -> PyResult<Aborted> {
    let bytes = bytes_of(buffer)?;
    Aborted::from_bytes(bytes).ok_or_else(|| {
        PyValueError::new_err(format!("aborted has {} bytes, a multiple of 24 was expected", bytes.len()))
    })
}

pub(crate) fn bytes_of(buffer: &PyBuffer<u8>) -> PyResult<&[u8]> {
    if !buffer.is_c_contiguous() {
        return Err(PyValueError::new_err("the buffer must be contiguous"));
    }
    if buffer.len_bytes() == 0 {
        return Ok(&[]);
    }
    // SAFETY: the buffer is contiguous and held by its owner as long as `buffer` lives. That nobody writes to it meanwhile
    // is the caller's to see to, as for every buffer whose reader lets go of the GIL.
    Ok(unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) })
}

pub(crate) fn arrow_error(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
