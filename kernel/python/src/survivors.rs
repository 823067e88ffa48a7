//! native_log._kernel.Survivors: a set of offsets; native_log.records.compaction documents it.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};
use roaring::RoaringTreemap;

use crate::convert::bytes_of;
use kafka_log_format::compaction::survivors;

#[pyclass(module = "native_log._kernel")]
pub struct Survivors {
    pub set: RoaringTreemap,
}

#[pymethods]
impl Survivors {
    #[new]
    #[pyo3(signature = (offsets = None))]
    fn new(offsets: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let mut values = Vec::new();
        if let Some(offsets) = offsets {
            for offset in offsets.try_iter()? {
                values.push(offset_of(&offset?)?);
            }
        }
        Ok(Survivors { set: survivors::from_unsorted(values) })
    }

    fn __contains__(&self, offset: &Bound<'_, PyAny>) -> bool {
        offset_of(offset).is_ok_and(|offset| self.set.contains(offset))
    }

    fn __len__(&self) -> PyResult<usize> {
        isize::try_from(self.set.len())
            .map(|length| length as usize)
            .map_err(|_| PyOverflowError::new_err("expected at most 2^63 - 1 offsets, found more"))
    }

    fn __iter__(slf: Py<Self>) -> SurvivorsIterator {
        SurvivorsIterator { survivors: slf, next: Some(0), chunk: Vec::new().into_iter() }
    }

    fn __eq__(&self, other: PyRef<'_, Survivors>) -> bool {
        self.set == other.set
    }

    /// `offsets` may be a buffer of any type, such as a NumPy array.
    fn add_many(&mut self, py: Python<'_>, offsets: &Bound<'_, PyAny>) -> PyResult<()> {
        let offsets: PyBuffer<u8> = PyMemoryView::from(offsets)?.call_method1("cast", ("B",))?.extract()?;
        let (values, rest) = bytes_of(&offsets)?.as_chunks::<8>();
        if !rest.is_empty() {
            let bytes = values.len() * 8 + rest.len();
            return Err(PyValueError::new_err(format!("expected offsets of 8 bytes, found {bytes} bytes")));
        }
        let set = &mut self.set;
        py.detach(|| {
            let values = values.iter().map(|&bytes| u64::try_from(i64::from_ne_bytes(bytes)));
            let values = values.collect::<Result<Vec<u64>, _>>();
            *set |= survivors::from_unsorted(values?);
            Ok(())
        })
        .map_err(|_: std::num::TryFromIntError| {
            PyValueError::new_err("expected offsets of at least 0, found a negative one")
        })
    }

    fn add_range(&mut self, py: Python<'_>, start_offset: i128, end_offset: i128) -> PyResult<()> {
        if start_offset < 0 || end_offset > MOST_OFFSETS {
            let message = format!("expected offsets from 0 to 2^63 - 1, found [{start_offset}, {end_offset})");
            return Err(PyValueError::new_err(message));
        }
        let set = &mut self.set;
        if start_offset < end_offset {
            py.detach(|| set.insert_range(start_offset as u64..end_offset as u64));
        }
        Ok(())
    }

    fn between(&self, py: Python<'_>, start_offset: i128, end_offset: i128) -> Self {
        let [start, end] = [start_offset, end_offset].map(|offset| offset.clamp(0, MOST_OFFSETS) as u64);
        Survivors { set: py.detach(|| survivors::between(&self.set, start, end)) }
    }

    #[pyo3(signature = (*others))]
    fn union(&self, py: Python<'_>, others: Vec<PyRef<'_, Survivors>>) -> Self {
        let others: Vec<&RoaringTreemap> = others.iter().map(|other| &other.set).collect();
        let mut set = self.set.clone();
        py.detach(|| others.into_iter().for_each(|other| set |= other));
        Survivors { set }
    }

    fn difference(&self, py: Python<'_>, other: PyRef<'_, Survivors>) -> Self {
        let (set, other) = (&self.set, &other.set);
        Survivors { set: py.detach(|| set - other) }
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = Vec::with_capacity(self.set.serialized_size());
        py.detach(|| self.set.serialize_into(&mut bytes))?;
        Ok(PyBytes::new(py, &bytes))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: PyBuffer<u8>) -> PyResult<Self> {
        let mut rest = bytes_of(&data)?;
        let set = py.detach(|| RoaringTreemap::deserialize_from(&mut rest));
        let set = set.map_err(|error| PyValueError::new_err(error.to_string()))?;
        if !rest.is_empty() {
            return Err(PyValueError::new_err(format!(
                "expected the end of the bitmap, found {} more bytes",
                rest.len()
            )));
        }
        if set.max().is_some_and(|most| i64::try_from(most).is_err()) {
            return Err(PyValueError::new_err("expected offsets of at most 2^63 - 1, found a greater one"));
        }
        Ok(Survivors { set })
    }
}

/// The number of offsets there can be: 0 to 2^63 - 1.
const MOST_OFFSETS: i128 = 1 << 63;

fn offset_of(offset: &Bound<'_, PyAny>) -> PyResult<u64> {
    let value = offset.extract::<i64>().map(u64::try_from);
    match value {
        Ok(Ok(offset)) => Ok(offset),
        Err(error) if !error.is_instance_of::<PyOverflowError>(offset.py()) => Err(error),
        _ => Err(PyValueError::new_err(format!("expected an offset from 0 to 2^63 - 1, found {offset}"))),
    }
}

/// The offsets, ascending. Each chunk is read on its own, so that the set may change meanwhile.
#[pyclass(module = "native_log._kernel")]
pub struct SurvivorsIterator {
    survivors: Py<Survivors>,
    /// Where the next chunk begins; None: nowhere.
    next: Option<u64>,
    chunk: std::vec::IntoIter<u64>,
}

const OFFSETS_PER_CHUNK: usize = 1 << 14;

#[pymethods]
impl SurvivorsIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<u64>> {
        if let Some(offset) = self.chunk.next() {
            return Ok(Some(offset));
        }
        let Some(start) = self.next else { return Ok(None) };
        let chunk: Vec<u64> = {
            let survivors = self.survivors.try_borrow(py)?;
            let mut offsets = survivors.set.iter();
            offsets.advance_to(start);
            offsets.take(OFFSETS_PER_CHUNK).collect()
        };
        self.next = chunk.last().map(|&last| last + 1);
        self.chunk = chunk.into_iter();
        Ok(self.chunk.next())
    }
}
