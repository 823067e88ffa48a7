//! native_log._kernel.BatchHeaders: headers of batches, collected from several buffers. Building columns costs more than
//! reading the headers, and is done once for all of them.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::convert::{ArrowBatch, DEFAULT_MAX_BATCH_BYTES, arrow_error, bytes_of};
use crate::results::record_batch;
use kafka_log_arrow::batch_columns::batch_columns;
use kafka_log_format::scan::{BatchRow, scan};

#[pyclass(module = "native_log._kernel")]
#[derive(Default)]
pub struct BatchHeaders {
    rows: Vec<BatchRow>,
}

#[pymethods]
impl BatchHeaders {
    #[new]
    fn new() -> Self {
        BatchHeaders::default()
    }

    fn __len__(&self) -> usize {
        self.rows.len()
    }

    #[pyo3(signature = (buffer, *, base_position = 0, end = None, max_batch_bytes = DEFAULT_MAX_BATCH_BYTES))]
    fn add(
        &mut self,
        py: Python<'_>,
        buffer: PyBuffer<u8>,
        base_position: i64,
        end: Option<i64>,
        max_batch_bytes: usize,
    ) -> PyResult<()> {
        let bytes = bytes_of(&buffer)?;
        let rows = &mut self.rows;
        py.detach(|| {
            let (batches, _) = scan(bytes, base_position, false, max_batch_bytes, None);
            rows.extend(batches.into_iter().take_while(|row| end.is_none_or(|end| row.position < end)));
        });
        Ok(())
    }

    #[getter]
    fn has_transactions(&self) -> bool {
        self.rows.iter().any(|row| row.is_transactional || row.is_control)
    }

    #[getter]
    fn last_offsets(&self) -> Option<(i64, i64)> {
        let offsets = || self.rows.iter().map(|row| row.last_offset);
        offsets().min().zip(offsets().max())
    }

    fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = std::mem::take(&mut self.rows);
        let (fields, arrays) = batch_columns(&rows);
        record_batch(py, ArrowBatch::new(fields, arrays, rows.len()).map_err(arrow_error)?)
    }
}
