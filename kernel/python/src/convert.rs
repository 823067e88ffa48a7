//! Convert buffers and open files from Python, and record batches, damage and errors to Python.

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
use kafka_log_format::order::Order;
use kafka_log_format::scan::scan;

/// native_log.records has the same DEFAULT_MAX_BATCH_BYTES.
pub const DEFAULT_MAX_BATCH_BYTES: usize = 256 << 20;

/// The file of a descriptor that the caller keeps open during the call, and that is not closed here.
pub fn borrowed(descriptor: i32) -> PyResult<ManuallyDrop<File>> {
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF).into());
    }
    // SAFETY: the descriptor belongs to the caller. The file is never dropped, so it never closes the descriptor.
    Ok(ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) }))
}

/// next_offset, end_offset, descriptor: a native_log.records.OffsetOrder
pub type OrderTuple = (i64, i64, i32);

/// An `OrderTuple` with the file of its descriptor.
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

/// A record batch that Python imports by Arrow's PyCapsule interface, any number of times.
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
        let _ = requested_schema; // Arrow permits producers to ignore it
        let schema = FFI_ArrowSchema::try_from(DataType::Struct(self.fields.clone())).map_err(arrow_error)?;
        let array = FFI_ArrowArray::new(&self.array.to_data());
        let schema = PyCapsule::new_with_value(py, schema, c"arrow_schema")?;
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        Ok((schema, array))
    }
}

/// The headers of batches that were just written at `position`, so that their CRCs are right.
pub fn written(batches: &[u8], position: i64) -> Result<ArrowBatch, ArrowError> {
    let (mut rows, _) = scan(batches, position, false, usize::MAX, None);
    rows.iter_mut().for_each(|row| row.is_valid = Some(true));
    let (fields, arrays) = batch_columns(&rows);
    ArrowBatch::new(fields, arrays, rows.len())
}

pub fn bytes_of(buffer: &PyBuffer<u8>) -> PyResult<&[u8]> {
    if !buffer.is_c_contiguous() {
        return Err(PyValueError::new_err("expected a contiguous buffer, found one with gaps"));
    }
    if buffer.len_bytes() == 0 {
        return Ok(&[]);
    }
    // SAFETY: the buffer is contiguous and lives as long as `buffer`. The caller must not write to it meanwhile, as with every
    // buffer whose reader releases the GIL.
    Ok(unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) })
}

pub fn arrow_error(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
