//! The functions of native_log._kernel that write batches: columns from Python in, bytes and columns out.

use arrow_array::ffi::from_ffi;
use std::cell::Cell;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StructArray, UInt32Array};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::bytes::{Bytes, recycled};
use crate::convert::{ArrowBatch, arrow_error, borrowed, bytes_of, written};
use crate::options::EncodeOptions;
use kafka_log_arrow::encode::columns::{Binary, Records};
use kafka_log_arrow::encode::ratio::Ratio;
use kafka_log_arrow::encode::rows::Part;
use kafka_log_arrow::encode::{EncodeError, Options, encode as encode_parts};
use kafka_log_arrow::partitioner::{hashes, partitions as partitions_of};
use kafka_log_format::partitioner;
use kafka_log_format::patch::Placed;

/// (kind, first row, last row, value found). It means nothing without an error.
pub type ErrorTuple = (&'static str, usize, usize, i64);
/// (data, batches, rows, estimated ratio), or None
pub type Encoded = (Option<(Bytes, ArrowBatch, usize, f32)>, ErrorTuple);
/// Columns, and the indexes of rows, 32 bits in native byte order. None: all rows.
type Chosen<'py> = (Bound<'py, PyAny>, Option<PyBuffer<u8>>);

/// The timestamp_type of EncodeOptions with which batches have `append_time_ms`.
const LOG_APPEND_TIME: u8 = 1;

#[pyfunction]
#[pyo3(signature = (parts, options, *, base_offset, base_sequence, base_position, estimated_ratio, finish))]
#[expect(clippy::too_many_arguments, reason = "what changes from call to call")]
pub fn encode(
    py: Python<'_>,
    parts: Vec<Chosen<'_>>,
    options: EncodeOptions,
    base_offset: i64,
    base_sequence: i32,
    base_position: i64,
    estimated_ratio: f32,
    finish: bool,
) -> PyResult<Encoded> {
    let options = format_options(&options, base_offset, base_sequence, finish)?;
    let columns = parts.iter().map(|(columns, _)| imported(columns)).collect::<PyResult<Vec<_>>>()?;
    let rows = parts.iter().map(|(_, rows)| rows.as_ref().map(bytes_of).transpose()).collect::<PyResult<Vec<_>>>()?;
    let encoded = py.detach(|| {
        let parts = columns.iter().zip(rows).map(|(columns, rows)| part(columns, rows));
        let parts = parts.collect::<Result<Vec<_>, _>>().map_err(PyValueError::new_err)?;
        if base_offset.checked_add(parts.iter().map(Part::len).sum::<usize>() as i64).is_none() {
            return Err(PyValueError::new_err(format!(
                "expected offsets of at most 2^63 - 1, found {base_offset} as the first one"
            )));
        }
        let mut data = recycled();
        let mut ratio = Ratio(estimated_ratio);
        Ok::<_, PyErr>(encode_parts(&parts, &options, &mut ratio, &mut data).map(|rows| {
            let batches = written(&data, base_position);
            (Bytes::new(data), batches, rows, ratio.0)
        }))
    })?;
    Ok(match encoded {
        Ok((data, batches, rows, ratio)) => (Some((data, batches.map_err(arrow_error)?, rows, ratio)), ("", 0, 0, 0)),
        Err(error) => (None, error_tuple(error)),
    })
}

pub fn format_options(
    options: &EncodeOptions,
    base_offset: i64,
    base_sequence: i32,
    finish: bool,
) -> PyResult<Options> {
    Ok(Options {
        magic: options.magic,
        codec: options.codec()?,
        level: options.level,
        batch_size: options.batch_size.0,
        max_message_bytes: options.max_message_bytes.map(|limit| limit.0),
        base_offset,
        leader_epoch: options.leader_epoch,
        producer_id: options.producer_id,
        producer_epoch: options.producer_epoch,
        base_sequence,
        is_transactional: options.is_transactional,
        append_time_ms: (options.timestamp_type == LOG_APPEND_TIME).then_some(options.append_time_ms),
        now_ms: options.now_ms,
        finish,
    })
}

fn part<'a>(columns: &'a StructArray, rows: Option<&'a [u8]>) -> Result<Part<'a>, String> {
    let records = Records::of(columns)?;
    match rows {
        Some(rows) => Part::of_rows(records, rows.as_chunks().0),
        None => Ok(Part::all(records)),
    }
}

pub fn error_tuple(error: EncodeError) -> ErrorTuple {
    match error {
        EncodeError::TooLarge { first_row, last_row, size_bytes } => {
            ("too-large", first_row, last_row, size_bytes as i64)
        }
        EncodeError::NegativeTimestamp { row, timestamp_ms } => ("timestamp", row, row, timestamp_ms),
        EncodeError::NullHeaderKey { row } => ("header-key", row, row, 0),
        EncodeError::Headers { row } => ("headers", row, row, 0),
    }
}

/// Imports a record batch by Arrow's PyCapsule interface.
pub fn imported(batch: &Bound<'_, PyAny>) -> PyResult<StructArray> {
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
        batch.call_method0("__arrow_c_array__")?.extract()?;
    let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules with these names contain these structs. The content of the array is moved out, as the interface
    // demands. The schema stays in its capsule, which lives longer than this function runs.
    let mut data =
        unsafe { from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) }.map_err(arrow_error)?;
    if !matches!(data.data_type(), DataType::Struct(_)) {
        return Err(PyValueError::new_err(format!("expected a record batch, found {}", data.data_type())));
    }
    data.align_buffers();
    Ok(StructArray::from(data))
}

/// Hashes a column of keys. With a number of partitions, returns the partition of each key.
#[pyfunction]
#[pyo3(signature = (keys, partitions = None))]
pub fn murmur2(py: Python<'_>, keys: &Bound<'_, PyAny>, partitions: Option<i32>) -> PyResult<ArrowBatch> {
    let batch = imported(keys)?;
    let hashed = py.detach(|| {
        let keys = Binary::of(batch.columns().first()).map_err(PyValueError::new_err)?;
        Ok::<_, PyErr>(match partitions {
            Some(count) => partitions_of(&keys, batch.len(), count.max(1)),
            None => hashes(&keys, batch.len()),
        })
    })?;
    column("hash", DataType::Int32, Arc::new(hashed))
}

/// Returns the partition of a key (BuiltInPartitioner.partitionForKey).
#[pyfunction]
#[pyo3(signature = (key, partitions))]
pub fn partition_of_key(key: &[u8], partitions: i64) -> PyResult<i32> {
    match i32::try_from(partitions) {
        Ok(count) if count > 0 => Ok(partitioner::partition(key, count)),
        _ => Err(PyValueError::new_err(format!("expected from 1 to {} partitions, found {partitions}", i32::MAX))),
    }
}

/// Groups rows by their partitions, 32 bits in native byte order. Returns the indexes of the rows of the first partition, then
/// of the next one, and so on, and the number and row count of each partition with rows. Partitions are below `count`.
#[pyfunction]
pub fn rows_by_partition(
    py: Python<'_>,
    partitions: PyBuffer<u8>,
    count: usize,
) -> PyResult<(ArrowBatch, Vec<(usize, usize)>)> {
    let (partitions, _) = bytes_of(&partitions)?.as_chunks::<4>();
    let (rows, counts) = py
        .detach(|| {
            partitioner::rows_by_partition(partitions.iter().map(|&partition| i32::from_ne_bytes(partition)), count)
        })
        .ok_or_else(|| PyValueError::new_err(format!("expected partitions below {count}, found a row with another")))?;
    Ok((column("row", DataType::UInt32, Arc::new(UInt32Array::from(rows)))?, counts))
}

fn column(name: &str, kind: DataType, array: ArrayRef) -> PyResult<ArrowBatch> {
    let rows = array.len();
    ArrowBatch::new([Field::new(name, kind, true)].into_iter().collect(), vec![array], rows).map_err(arrow_error)
}

/// Returns None, or the first of the positions without a v2 batch; then nothing was changed.
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
        return Err(PyValueError::new_err("expected a contiguous and writable buffer, found another"));
    }
    let cells = match data.len_bytes() {
        0 => &[][..],
        // SAFETY: the buffer is contiguous and writable, and lives as long as `data`. No other thread writes to it, because the
        // GIL is not released.
        bytes => unsafe { std::slice::from_raw_parts(data.buf_ptr().cast::<Cell<u8>>(), bytes) },
    };
    Ok(kafka_log_format::patch::patch(cells, positions, base_offset, leader_epoch).err())
}

/// Writes the prefixes of batches to an open file. Positions and base offsets have 64 bits, sizes 32, in native byte order.
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
        kafka_log_format::patch::write_prefixes(&file, batches, leader_epoch)
    })?;
    Ok(())
}
