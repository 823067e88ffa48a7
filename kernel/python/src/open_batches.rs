//! native_log._kernel.OpenBatches: the batches of a producer to which the records of one topic are appended.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple, PyType};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::builder::{BatchBuilder, append};
use kafka_log_format::partitioner;

const NS_PER_MS: i64 = 1_000_000;

/// See native_log.records.reference.
#[pyclass(subclass, get_all, set_all, module = "native_log._kernel")]
pub struct AppendedRecord {
    batch: Option<Py<PyAny>>,
    index: i64,
    timestamp: i64,
    key_size: i64,
    value_size: i64,
}

#[pymethods]
impl AppendedRecord {
    #[new]
    #[pyo3(signature = (batch = None, index = 0, timestamp = -1, key_size = -1, value_size = -1))]
    fn new(batch: Option<Py<PyAny>>, index: i64, timestamp: i64, key_size: i64, value_size: i64) -> Self {
        AppendedRecord { batch, index, timestamp, key_size, value_size }
    }
}

/// See native_log.records.reference. Python code may run, in this thread or another one, whenever a Python object is created,
/// called or freed. So nothing is borrowed then.
#[pyclass(module = "native_log._kernel")]
pub struct OpenBatches {
    record_type: Py<PyType>,
    /// None: the clock is `time.time_ns`, which takes as long as the rest of an append if it is called in Python.
    clock_ns: Option<Py<PyAny>>,
    ignore_keys: bool,
    on_full: Option<Py<PyAny>>,
    by_partition: Py<PyList>,
    sticky: OpenBatch,
}

struct OpenBatch {
    batch: Py<PyAny>,
    builder: Py<BatchBuilder>,
}

impl OpenBatch {
    fn of(batch: Bound<'_, PyAny>) -> PyResult<Self> {
        let builder = batch.getattr(intern!(batch.py(), "builder"))?.cast_into::<BatchBuilder>()?.unbind();
        Ok(OpenBatch { batch: batch.unbind(), builder })
    }

    fn clone_ref(&self, py: Python<'_>) -> Self {
        OpenBatch { batch: self.batch.clone_ref(py), builder: self.builder.clone_ref(py) }
    }
}

#[pymethods]
impl OpenBatches {
    #[new]
    #[pyo3(signature = (record_type, clock_ns, by_partition, sticky, *, ignore_keys = false))]
    fn new(
        record_type: Py<PyType>,
        clock_ns: Bound<'_, PyAny>,
        by_partition: Py<PyList>,
        sticky: Bound<'_, PyAny>,
        ignore_keys: bool,
    ) -> PyResult<Self> {
        let is_system_clock = clock_ns.is(&clock_ns.py().import("time")?.getattr("time_ns")?);
        let clock_ns = (!is_system_clock).then(|| clock_ns.unbind());
        let sticky = OpenBatch::of(sticky)?;
        Ok(OpenBatches { record_type, clock_ns, ignore_keys, on_full: None, by_partition, sticky })
    }

    #[getter]
    fn sticky(&self, py: Python<'_>) -> Py<PyAny> {
        self.sticky.batch.clone_ref(py)
    }

    #[setter]
    fn set_sticky(this: &Bound<'_, Self>, batch: Bound<'_, PyAny>) -> PyResult<()> {
        let batch = OpenBatch::of(batch)?;
        let before = std::mem::replace(&mut this.borrow_mut().sticky, batch);
        drop(before);
        Ok(())
    }

    #[getter]
    fn on_full(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.on_full.as_ref().map(|on_full| on_full.clone_ref(py))
    }

    #[setter]
    fn set_on_full(this: &Bound<'_, Self>, on_full: Option<Py<PyAny>>) {
        let before = std::mem::replace(&mut this.borrow_mut().on_full, on_full);
        drop(before);
    }

    #[pyo3(signature = (value, key = None, headers = None, timestamp_ms = None, callback = None))]
    fn append<'py>(
        this: &Bound<'py, Self>,
        value: Option<&Bound<'py, PyAny>>,
        key: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
        timestamp_ms: Option<&Bound<'py, PyAny>>,
        callback: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, AppendedRecord>>> {
        let py = this.py();
        let (Some(value), Some(key)) = (plain_bytes(value), plain_bytes(key)) else {
            return Ok(None);
        };
        let are_listed = headers.is_none_or(|headers| headers.is_instance_of::<PyList>());
        let timestamp_ms = timestamp_ms.map(|timestamp_ms| timestamp_ms.extract::<i64>().unwrap_or(-1));
        if !are_listed || timestamp_ms.is_some_and(|timestamp_ms| timestamp_ms < 0) {
            return Ok(None);
        }
        let Some(OpenBatch { batch, builder }) = chosen(this, key)? else { return Ok(None) };
        let timestamp_ms = match timestamp_ms {
            Some(timestamp_ms) => timestamp_ms,
            None => {
                let clock_ns = this.borrow().clock_ns.as_ref().map(|clock_ns| clock_ns.clone_ref(py));
                clock_ns.map_or_else(|| Ok(system_ms()), |clock_ns| called_ms(clock_ns.bind(py)))?
            }
        };
        let record_type = this.borrow().record_type.clone_ref(py);
        let record = record_type.bind(py).call0()?.cast_into::<AppendedRecord>()?;
        let noted = callback.map(|callback| noted(batch.bind(py), callback, &record)).transpose()?;
        let count = match append(builder.bind(py), value, key, headers, timestamp_ms) {
            Ok(count) if count != 0 => count,
            _ => return Ok(None),
        };
        // Up to here no other thread may run: it could complete the batch without the callback.
        if let Some((callbacks, noted)) = noted {
            callbacks.append(noted)?;
        }
        let size = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len() as i64);
        *record.borrow_mut() = AppendedRecord {
            batch: Some(batch),
            index: count.abs() - 1,
            timestamp: timestamp_ms,
            key_size: size(key),
            value_size: size(value),
        };
        if count < 0 {
            let on_full = this.borrow().on_full(py);
            on_full.map(|on_full| on_full.call0(py)).transpose()?;
        }
        Ok(Some(record))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.record_type)?;
        visit.call(&self.clock_ns)?;
        visit.call(&self.on_full)?;
        visit.call(&self.by_partition)?;
        visit.call(&self.sticky.batch)
    }

    fn __clear__(&mut self) {
        self.on_full = None;
    }
}

fn system_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}

fn called_ms(clock_ns: &Bound<'_, PyAny>) -> PyResult<i64> {
    Ok(clock_ns.call0()?.extract::<i64>()? / NS_PER_MS)
}

/// The batch of a record with this key. None: there is no partition.
fn chosen(this: &Bound<'_, OpenBatches>, key: Option<&[u8]>) -> PyResult<Option<OpenBatch>> {
    let py = this.py();
    let by_partition = {
        let this = this.borrow();
        if key.is_none() || this.ignore_keys {
            return Ok(Some(this.sticky.clone_ref(py)));
        }
        this.by_partition.clone_ref(py)
    };
    let by_partition = by_partition.bind(py);
    let count = i32::try_from(by_partition.len())?;
    if count == 0 {
        return Ok(None);
    }
    let partition = partitioner::partition(key.unwrap_or_default(), count);
    OpenBatch::of(by_partition.get_item(partition as usize)?).map(Some)
}

/// The bytes of a key or value that is None, bytes or text. None: it is something else.
fn plain_bytes<'a>(content: Option<&'a Bound<'_, PyAny>>) -> Option<Option<&'a [u8]>> {
    let Some(content) = content else { return Some(None) };
    if let Ok(bytes) = content.cast::<PyBytes>() {
        return Some(Some(bytes.as_bytes()));
    }
    content.cast::<PyString>().ok()?.to_str().ok().map(|text| Some(text.as_bytes()))
}

/// The list of a batch's callbacks, and the entry for one of a record.
fn noted<'py>(
    batch: &Bound<'py, PyAny>,
    callback: Bound<'py, PyAny>,
    record: &Bound<'py, AppendedRecord>,
) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyTuple>)> {
    let callbacks = batch.getattr(intern!(batch.py(), "callbacks"))?.cast_into::<PyList>()?;
    Ok((callbacks, PyTuple::new(batch.py(), [callback, record.clone().into_any()])?))
}
