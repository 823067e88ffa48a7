//! Bytes that Python reads without a copy.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Memory of bytes that Python has dropped, for reuse: to fault in a new page costs more than to fill it.
static FREE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
const MOST_FREE: usize = 4;
const LARGEST_FREE: usize = 16 << 20;

/// An empty vector that reuses memory if possible.
pub fn recycled() -> Vec<u8> {
    // try_lock: a child process that was forked while another thread held the lock would wait for ever.
    FREE.try_lock().ok().and_then(|mut free| free.pop()).unwrap_or_default()
}

impl Drop for Bytes {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        if let Ok(mut free) = FREE.try_lock()
            && free.len() < MOST_FREE
            && (1..=LARGEST_FREE).contains(&bytes.capacity())
        {
            bytes.clear();
            free.push(bytes);
        }
    }
}

/// Bytes that Python reads without a copy: `memoryview(bytes)`.
#[pyclass(frozen, module = "native_log._kernel")]
pub struct Bytes {
    bytes: Vec<u8>,
}

impl Bytes {
    pub fn new(bytes: Vec<u8>) -> Self {
        Bytes { bytes }
    }
}

#[pymethods]
impl Bytes {
    /// # Safety
    /// Only Python calls this, with a view to be filled.
    unsafe fn __getbuffer__(slf: PyRef<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: the bytes never change (the class is frozen) and live as long as the object.
        unsafe { fill(view, flags, slf.as_ptr(), &slf.bytes, slf.py()) }
    }
}

/// One of several byte strings that share their memory.
#[pyclass(frozen, module = "native_log._kernel")]
pub struct Part {
    all: Arc<Vec<Vec<u8>>>,
    index: usize,
}

impl Part {
    /// One object for each byte string.
    pub fn each(all: &Arc<Vec<Vec<u8>>>) -> Vec<Self> {
        (0..all.len()).map(|index| Part { all: Arc::clone(all), index }).collect()
    }
}

#[pymethods]
impl Part {
    /// # Safety
    /// Only Python calls this, with a view to be filled.
    unsafe fn __getbuffer__(slf: PyRef<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: the bytes never change (the class is frozen, and other objects only read them) and live as long as the object.
        unsafe { fill(view, flags, slf.as_ptr(), &slf.all[slf.index], slf.py()) }
    }
}

/// Fills a read-only view of `owner`.
///
/// # Safety
/// `bytes` must live as long as `owner`, unchanged.
unsafe fn fill(
    view: *mut ffi::Py_buffer,
    flags: c_int,
    owner: *mut ffi::PyObject,
    bytes: &[u8],
    py: Python<'_>,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("expected a view to fill, found null"));
    }
    let start = bytes.as_ptr().cast_mut().cast::<c_void>();
    // SAFETY: the bytes live as long as the owner of the view, to which PyBuffer_FillInfo takes a reference.
    match unsafe { ffi::PyBuffer_FillInfo(view, owner, start, bytes.len() as isize, 1, flags) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(py)),
    }
}
