//! What crosses between Python and the kernel: buffers and open files in, record batches, damage and errors out.

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

use kafka_log_arrow::batch_columns::batch_columns;
use kafka_log_format::damage::Damage;
use kafka_log_format::order::Order;
use kafka_log_format::scan::scan;
use kafka_log_format::selection::Aborted;

/// As DEFAULT_MAX_BATCH_BYTES of native_log.records.
pub const DEFAULT_MAX_BATCH_BYTES: usize = 256 << 20;

/// (kind, position, size_bytes, offset, message)
pub type DamageTuple = (&'static str, i64, i64, i64, String);
/// What to decode: bytes, or those of an open file (descriptor, position, end).
#[derive(FromPyObject)]
pub enum Source {
    #[pyo3(transparent)]
    Buffer(PyBuffer<u8>),
    File(i32, i64, u64),
}

/// The file of a descriptor that the caller keeps open during the call, and that is not closed here.
pub fn borrowed(descriptor: i32) -> PyResult<ManuallyDrop<File>> {
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF).into());
    }
    // SAFETY: the descriptor is the caller's. The file is never dropped, and so never closes it.
    Ok(ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) }))
}

/// next_offset, end_offset, descriptor: a native_log.records.OffsetOrder
pub type OrderTuple = (i64, i64, i32);

/// What an `OrderTuple` says, with the file of its descriptor.
pub struct OpenOrder {
    next: i64,
    end: i64,
    file: ManuallyDrop<File>,
}

impl OpenOrder {
    pub fn of(order: Option<OrderTuple>) -> PyResult<Option<Self>> {
        let open = |(next, end, descriptor)| Ok(OpenOrder { next, end, file: borrowed(descriptor)? });
        order.map(open).transpose()
    }

    pub fn order(&self) -> Order<'_> {
        Order::new(self.next, self.end, &self.file)
    }
}

pub fn io_error(error: io::Error) -> PyErr {
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
    pub fn new(fields: Fields, arrays: Vec<ArrayRef>, rows: usize) -> Result<Self, ArrowError> {
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
pub fn written(batches: &[u8], position: i64) -> Result<ArrowBatch, ArrowError> {
    let (mut rows, _) = scan(batches, position, false, usize::MAX, None);
    rows.iter_mut().for_each(|row| row.is_valid = Some(true));
    let (fields, arrays) = batch_columns(&rows);
    ArrowBatch::new(fields, arrays, rows.len())
}

pub fn damage_tuple(damage: Damage) -> DamageTuple {
    (damage.fault.kind.name(), damage.position, damage.size_bytes, damage.offset, damage.fault.message)
}

pub fn aborted_of(buffer: &PyBuffer<u8>) -> PyResult<Aborted> {
    let bytes = bytes_of(buffer)?;
    Aborted::from_bytes(bytes).ok_or_else(|| {
        PyValueError::new_err(format!("aborted has {} bytes, a multiple of 24 was expected", bytes.len()))
    })
}

pub fn bytes_of(buffer: &PyBuffer<u8>) -> PyResult<&[u8]> {
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

pub fn arrow_error(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
