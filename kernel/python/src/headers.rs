//! native_log._kernel.Headers: the headers of batches from several buffers. Building columns costs more than reading headers,
//! so the columns are built once for all buffers.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::convert::{ArrowBatch, DEFAULT_MAX_BATCH_BYTES, arrow_error, bytes_of};
use kafka_log_arrow::batch_columns::batch_columns;
use kafka_log_format::scan::{BatchRow, scan};

#[pyclass(module = "native_log._kernel")]
#[derive(Default)]
pub struct Headers {
    rows: Vec<BatchRow>,
}

#[pymethods]
impl Headers {
    #[new]
    fn new() -> Self {
        Headers::default()
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
            let (found, _) = scan(bytes, base_position, false, max_batch_bytes, None);
            rows.extend(found.into_iter().take_while(|row| end.is_none_or(|end| row.position < end)));
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

    fn take(&mut self) -> PyResult<ArrowBatch> {
        let rows = std::mem::take(&mut self.rows);
        let (fields, arrays) = batch_columns(&rows);
        ArrowBatch::new(fields, arrays, rows.len()).map_err(arrow_error)
    }
}
