//! native_log._kernel.BatchBuilder: records from Python, one by one, as a batch.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::bytes::{Bytes, recycled};
use crate::convert::{arrow_error, written};
use crate::encode::{Encoded, error_tuple, format_options};
use crate::options::EncodeOptions;
use kafka_log_arrow::encode::builder::{Builder, RecordHeader, encode_builders as encode};

/// See native_log.records.reference.
#[pyclass(module = "native_log._kernel")]
pub struct BatchBuilder {
    builder: Builder,
}

#[pymethods]
impl BatchBuilder {
    #[new]
    #[pyo3(signature = (limit_bytes, estimated_ratio = None))]
    fn new(limit_bytes: usize, estimated_ratio: Option<f32>) -> Self {
        BatchBuilder { builder: Builder::new(limit_bytes, estimated_ratio) }
    }

    fn append(
        this: &Bound<'_, Self>,
        value: Option<&Bound<'_, PyBytes>>,
        key: Option<&Bound<'_, PyBytes>>,
        headers: Option<&Bound<'_, PyAny>>,
        timestamp_ms: i64,
    ) -> PyResult<i64> {
        let (value, key) = (value.map(|value| value.as_bytes()), key.map(|key| key.as_bytes()));
        append(this, value, key, headers, timestamp_ms)
    }

    fn close(&mut self) {
        self.builder.closed = true;
    }

    fn renew(&mut self, limit_bytes: usize, estimated_ratio: Option<f32>) -> Self {
        BatchBuilder { builder: self.builder.renew(limit_bytes, estimated_ratio) }
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.builder.closed
    }

    #[getter]
    fn limit_bytes(&self) -> usize {
        self.builder.limit
    }

    #[getter]
    fn record_count(&self) -> usize {
        self.builder.rows
    }

    #[getter]
    fn plain_bytes(&self) -> usize {
        self.builder.plain_bytes()
    }

    #[getter]
    fn estimated_bytes(&self) -> usize {
        self.builder.estimated_bytes()
    }

    #[getter]
    fn is_full(&self) -> bool {
        self.builder.is_full()
    }

    #[getter]
    fn min_timestamp(&self) -> i64 {
        self.builder.min_timestamp
    }

    #[getter]
    fn max_timestamp(&self) -> i64 {
        self.builder.max_timestamp
    }

    #[getter]
    fn first_null_key(&self) -> i64 {
        self.builder.first_null_key.map_or(-1, |row| row as i64)
    }
}

/// Appends a record. Returns the number of records, negated if the batch is full then, or 0 if it does not fit. No other thread
/// runs between the append and the return.
pub fn append(
    builder: &Bound<'_, BatchBuilder>,
    value: Option<&[u8]>,
    key: Option<&[u8]>,
    headers: Option<&Bound<'_, PyAny>>,
    timestamp_ms: i64,
) -> PyResult<i64> {
    let Some(headers) = headers else {
        return Ok(append_encoded(builder, value, key, &[], timestamp_ms));
    };
    let pairs = headers.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let owned = pairs.iter().map(header).collect::<PyResult<Vec<_>>>()?;
    let named = owned.iter().map(|(name, value)| (name.as_bytes(), value.as_ref().map(|value| value.as_bytes())));
    Ok(append_encoded(builder, value, key, &named.collect::<Vec<_>>(), timestamp_ms))
}

fn append_encoded(
    builder: &Bound<'_, BatchBuilder>,
    value: Option<&[u8]>,
    key: Option<&[u8]>,
    headers: &[RecordHeader<'_>],
    timestamp_ms: i64,
) -> i64 {
    let Ok(mut this) = builder.try_borrow_mut() else {
        return 0; // another thread encodes the batch, so it is closed
    };
    let builder = &mut this.builder;
    if !builder.append(value, key, headers, timestamp_ms) {
        return 0;
    }
    let rows = builder.rows as i64;
    if builder.is_full() { -rows } else { rows }
}

/// Name and value of a header, which is a pair in Python.
fn header<'py>(pair: &Bound<'py, PyAny>) -> PyResult<(String, Option<Bound<'py, PyBytes>>)> {
    let (name, value): (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>) = pair.extract()?;
    let name = name.cast::<PyString>()?.to_str()?.to_owned();
    let value = value.map(|value| value.cast_into::<PyBytes>()).transpose();
    Ok((name, value.map_err(|error| PyTypeError::new_err(error.to_string()))?))
}

/// See native_log.records.kernel.encode_builders.
#[pyfunction]
#[pyo3(signature = (builders, options, *, base_offset, base_sequence))]
pub fn encode_builders(
    py: Python<'_>,
    builders: Vec<PyRef<'_, BatchBuilder>>,
    options: EncodeOptions,
    base_offset: i64,
    base_sequence: i32,
) -> PyResult<Encoded> {
    let options = format_options(&options, base_offset, base_sequence, true)?;
    let builders = builders.iter().map(|builder| &builder.builder).collect::<Vec<_>>();
    if builders.iter().any(|builder| builder.rows == 0) {
        return Err(PyValueError::new_err("expected builders with records, found one without"));
    }
    let encoded = py.detach(|| {
        let mut data = recycled();
        encode(&builders, &options, &mut data).map(|rows| {
            let batches = written(&data, 0);
            (Bytes::new(data), batches, rows)
        })
    });
    Ok(match encoded {
        Ok((data, batches, rows)) => (Some((data, batches.map_err(arrow_error)?, rows, 1.0)), ("", 0, 0, 0)),
        Err(error) => (None, error_tuple(error)),
    })
}
