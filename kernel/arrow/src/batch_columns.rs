//! The headers of batches as Arrow columns. Python's BATCH_SCHEMA has the same columns in the same order.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int32Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field, Fields};
use kafka_log_format::scan::BatchRow;

type Build = fn(&[BatchRow]) -> ArrayRef;

/// A column: its name, its type, and how its array is built.
pub type BatchColumn = (&'static str, DataType, Build);

macro_rules! column {
    ($name:literal, $type:ident, $array:ident, $row:ident => $value:expr) => {
        ($name, DataType::$type, |rows| Arc::new(rows.iter().map(|$row| $value).collect::<$array>()))
    };
}

static COLUMNS: [BatchColumn; 22] = [
    column!("position", Int64, Int64Array, row => Some(row.position)),
    column!("sizeInBytes", Int32, Int32Array, row => Some(row.size_in_bytes)),
    column!("magic", Int32, Int32Array, row => Some(row.magic)),
    column!("baseOffset", Int64, Int64Array, row => row.base_offset),
    column!("lastOffset", Int64, Int64Array, row => Some(row.last_offset)),
    column!("recordCount", Int32, Int32Array, row => row.record_count),
    column!("compression", Utf8, StringArray, row => Some(row.codec.name())),
    column!("timestampType", Int32, Int32Array, row => Some(row.timestamp_type)),
    column!("baseTimestamp", Int64, Int64Array, row => row.base_timestamp),
    column!("maxTimestamp", Int64, Int64Array, row => Some(row.max_timestamp)),
    column!("deleteHorizonMs", Int64, Int64Array, row => row.delete_horizon_ms),
    column!("leaderEpoch", Int32, Int32Array, row => Some(row.leader_epoch)),
    column!("producerId", Int64, Int64Array, row => Some(row.producer_id)),
    column!("producerEpoch", Int32, Int32Array, row => Some(row.producer_epoch)),
    column!("baseSequence", Int32, Int32Array, row => Some(row.base_sequence)),
    column!("lastSequence", Int32, Int32Array, row => Some(row.last_sequence)),
    column!("isTransactional", Boolean, BooleanArray, row => Some(row.is_transactional)),
    column!("isControl", Boolean, BooleanArray, row => Some(row.is_control)),
    column!("controlType", Int32, Int32Array, row => row.control_type),
    column!("attributes", Int32, Int32Array, row => Some(row.attributes)),
    column!("crc", Int64, Int64Array, row => Some(row.crc)),
    column!("isValid", Boolean, BooleanArray, row => row.is_valid),
];

/// The column with this name, if there is one.
pub fn batch_column(name: &str) -> Option<&'static BatchColumn> {
    COLUMNS.iter().find(|column| column.0 == name)
}

/// The fields of the schema, and an array of each for these rows.
pub fn batch_columns(rows: &[BatchRow]) -> (Fields, Vec<ArrayRef>) {
    some_batch_columns(rows, &COLUMNS.each_ref())
}

/// The same for these columns.
pub fn some_batch_columns(rows: &[BatchRow], columns: &[&BatchColumn]) -> (Fields, Vec<ArrayRef>) {
    let fields = columns.iter().map(|(name, kind, _)| Field::new(*name, kind.clone(), true)).collect();
    (fields, columns.iter().map(|(_, _, build)| build(rows)).collect())
}
