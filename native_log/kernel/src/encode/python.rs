//! What writes, in native_log._kernel: columns of Python's in, bytes and columns out.

use arrow_array::ffi::from_ffi;
use std::cell::Cell;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int32Array, StructArray};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::columns::{Binary, Records};
use super::ratio::Ratio;
use super::{Options, Refusal};
use crate::bytes::{Bytes, recycled};
use crate::codec::Codec;
use crate::partitioner;
use crate::patch::Placed;
use crate::python::{ArrowBatch, arrow_error, borrowed, bytes_of, written};

/// (kind, first row, last row, what was found); means nothing where there is no refusal
type Refused = (&'static str, usize, usize, i64);
/// (data, batches, estimated ratio), or None
type Encoded = (Option<(Bytes, ArrowBatch, f32)>, Refused);

#[pyfunction]
#[pyo3(signature = (
    records, *, magic, compression, level, batch_size, max_message_bytes, base_offset, leader_epoch, producer_id,
    producer_epoch, base_sequence, is_transactional, append_time_ms, now_ms, base_position,
    estimated_ratio
))]
#[expect(clippy::too_many_arguments, reason = "the keywords of native_log.records.encode")]
pub fn encode(
    py: Python<'_>,
    records: &Bound<'_, PyAny>,
    magic: i8,
    compression: &str,
    level: Option<i32>,
    batch_size: usize,
    max_message_bytes: Option<usize>,
    base_offset: i64,
    leader_epoch: i32,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    is_transactional: bool,
    append_time_ms: Option<i64>,
    now_ms: i64,
    base_position: i64,
    estimated_ratio: f32,
) -> PyResult<Encoded> {
    let codec = Codec::named(compression)
        .ok_or_else(|| PyValueError::new_err(format!("unknown compression {compression:?}")))?;
    let options = Options {
        magic,
        codec,
        level,
        batch_size,
        max_message_bytes,
        base_offset,
        leader_epoch,
        producer_id,
        producer_epoch,
        base_sequence,
        is_transactional,
        append_time_ms,
        now_ms,
    };
    let batch = imported(records)?;
    if base_offset.checked_add(batch.len() as i64).is_none() {
        return Err(PyValueError::new_err(format!("offsets end at 2^63 - 1, found {base_offset} to begin with")));
    }
    let encoded = py.detach(|| {
        let records = Records::of(&batch).map_err(PyValueError::new_err)?;
        let mut data = recycled();
        let mut ratio = Ratio(estimated_ratio);
        Ok::<_, PyErr>(super::encode(&records, &options, &mut ratio, &mut data).map(|()| {
            let batches = written(&data, base_position);
            (Bytes::new(data), batches, ratio.0)
        }))
    })?;
    Ok(match encoded {
        Ok((data, batches, ratio)) => (Some((data, batches.map_err(arrow_error)?, ratio)), ("", 0, 0, 0)),
        Err(refusal) => (None, refused(refusal)),
    })
}

fn refused(refusal: Refusal) -> Refused {
    match refusal {
        Refusal::TooLarge { first_row, last_row, size_bytes } => ("too-large", first_row, last_row, size_bytes as i64),
        Refusal::NegativeTimestamp { row, timestamp_ms } => ("timestamp", row, row, timestamp_ms),
        Refusal::NullHeaderKey { row } => ("header-key", row, row, 0),
        Refusal::Headers { row } => ("headers", row, row, 0),
    }
}

/// The record batch behind Arrow's PyCapsule interface.
pub fn imported(batch: &Bound<'_, PyAny>) -> PyResult<StructArray> {
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
        batch.call_method0("__arrow_c_array__")?.extract()?;
    let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules of these names hold these structs. The array's content is taken over, as the interface has it;
    // the schema stays with its capsule, which lives as long as this function.
    let mut data =
        unsafe { from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) }.map_err(arrow_error)?;
    if !matches!(data.data_type(), DataType::Struct(_)) {
        return Err(PyValueError::new_err(format!("a record batch was expected, found {}", data.data_type())));
    }
    data.align_buffers();
    Ok(StructArray::from(data))
}

/// One column of keys to one of hashes or, of so many, partitions.
#[pyfunction]
#[pyo3(signature = (keys, partitions = None))]
pub fn murmur2(py: Python<'_>, keys: &Bound<'_, PyAny>, partitions: Option<i32>) -> PyResult<ArrowBatch> {
    let batch = imported(keys)?;
    let hashed = py.detach(|| {
        let keys = Binary::of(batch.columns().first()).map_err(PyValueError::new_err)?;
        Ok::<_, PyErr>(match partitions {
            Some(count) => partitioner::partitions(&keys, batch.len(), count.max(1)),
            None => partitioner::hashes(&keys, batch.len()),
        })
    })?;
    let array: ArrayRef = Arc::new(Int32Array::from(hashed));
    let rows = array.len();
    ArrowBatch::new([Field::new("hash", DataType::Int32, true)].into_iter().collect(), vec![array], rows)
        .map_err(arrow_error)
}

/// None, or the first of `positions` that is not one of a v2 batch; then nothing was patched.
#[pyfunction]
#[pyo3(signature = (data, positions, *, base_offset, leader_epoch))]
pub fn patch(
    data: PyBuffer<u8>,
    positions: PyBuffer<u8>,
    base_offset: i64,
    leader_epoch: i32,
) -> PyResult<Option<i64>> {
    let (positions, _) = bytes_of(&positions)?.as_chunks::<8>();
    let positions = positions.iter().map(|&position| i64::from_ne_bytes(position));
    if data.readonly() || !data.is_c_contiguous() {
        return Err(PyValueError::new_err("the buffer must be contiguous and writable"));
    }
    let cells = match data.len_bytes() {
        0 => &[][..],
        // SAFETY: the buffer is contiguous and writable, and held by its owner as long as `data` lives. As the
        // interpreter is not left, nobody else writes to it; if someone did, cells would still be as good as any bytes.
        bytes => unsafe { std::slice::from_raw_parts(data.buf_ptr().cast::<Cell<u8>>(), bytes) },
    };
    Ok(crate::patch::patch(cells, positions, base_offset, leader_epoch).err())
}

/// Batches of an open file: positions and base offsets of 64 bits, sizes of 32, all of the machine's byte order.
#[pyfunction]
#[pyo3(signature = (descriptor, positions, base_offsets, sizes, *, leader_epoch))]
pub fn write_prefixes(
    py: Python<'_>,
    descriptor: i32,
    positions: PyBuffer<u8>,
    base_offsets: PyBuffer<u8>,
    sizes: PyBuffer<u8>,
    leader_epoch: i32,
) -> PyResult<()> {
    let (positions, _) = bytes_of(&positions)?.as_chunks::<8>();
    let (base_offsets, _) = bytes_of(&base_offsets)?.as_chunks::<8>();
    let (sizes, _) = bytes_of(&sizes)?.as_chunks::<4>();
    let file = borrowed(descriptor)?;
    py.detach(|| {
        let batches = positions.iter().zip(base_offsets).zip(sizes).map(|((&position, &base_offset), &size)| Placed {
            position: i64::from_ne_bytes(position),
            size_bytes: i32::from_ne_bytes(size),
            base_offset: i64::from_ne_bytes(base_offset),
        });
        crate::patch::write_prefixes(&file, batches, leader_epoch)
    })?;
    Ok(())
}
