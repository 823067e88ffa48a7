//! The columns of records, and their fields.

use arrow_schema::{DataType, Field, Fields, TimeUnit};

use super::headers;

/// A column of records. Python's RECORD_SCHEMA has the same columns in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Key,
    Value,
    Topic,
    Partition,
    Offset,
    Timestamp,
    TimestampType,
    Headers,
    LeaderEpoch,
    ProducerId,
    ProducerEpoch,
    Sequence,
    IsTransactional,
    Compression,
    Magic,
    BatchOffset,
    Position,
    Segment,
}

const COLUMNS: [(Column, &str); 18] = [
    (Column::Key, "key"),
    (Column::Value, "value"),
    (Column::Topic, "topic"),
    (Column::Partition, "partition"),
    (Column::Offset, "offset"),
    (Column::Timestamp, "timestamp"),
    (Column::TimestampType, "timestampType"),
    (Column::Headers, "headers"),
    (Column::LeaderEpoch, "leaderEpoch"),
    (Column::ProducerId, "producerId"),
    (Column::ProducerEpoch, "producerEpoch"),
    (Column::Sequence, "sequence"),
    (Column::IsTransactional, "isTransactional"),
    (Column::Compression, "compression"),
    (Column::Magic, "magic"),
    (Column::BatchOffset, "batchOffset"),
    (Column::Position, "position"),
    (Column::Segment, "segment"),
];

impl Column {
    pub fn named(name: &str) -> Option<Self> {
        COLUMNS.iter().find(|(_, known)| *known == name).map(|(column, _)| *column)
    }

    pub fn name(self) -> &'static str {
        COLUMNS[self as usize].1
    }

    pub fn data_type(self) -> DataType {
        match self {
            Column::Key | Column::Value => DataType::Binary,
            Column::Topic | Column::Compression | Column::Segment => DataType::Utf8,
            Column::Offset | Column::ProducerId | Column::BatchOffset | Column::Position => DataType::Int64,
            Column::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Column::Headers => headers::data_type(),
            Column::IsTransactional => DataType::Boolean,
            Column::Partition
            | Column::TimestampType
            | Column::LeaderEpoch
            | Column::ProducerEpoch
            | Column::Sequence
            | Column::Magic => DataType::Int32,
        }
    }
}

/// The fields of `columns`, in that order, all nullable.
pub fn fields(columns: &[Column]) -> Fields {
    columns.iter().map(|column| Field::new(column.name(), column.data_type(), true)).collect()
}
