//! Batches and records as text.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use kafka_log_format::text::{self, Options};

use crate::bytes::recycled;
use crate::convert::bytes_of;
use crate::options::TextOptions;
use crate::results::formatted;

/// See native_log.records.reference.format_batches.
#[pyfunction]
#[pyo3(signature = (buffer, options, *, base_position = 0))]
pub fn format_batches<'py>(
    py: Python<'py>,
    buffer: PyBuffer<u8>,
    options: TextOptions,
    base_position: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = bytes_of(&buffer)?;
    let TextOptions { records, record_metadata, contents, max_batch_bytes } = options;
    let options = Options { records, record_metadata, contents, max_batch_bytes };
    let (lines, stopped) = py.detach(|| text::format_batches(bytes, base_position, &options, recycled()));
    formatted(py, lines, stopped)
}
