//! The columns a record can be read with, and the ones being built.

mod binary;
mod headers;
mod runs;
mod validity;

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type};
use arrow_array::{ArrayRef, BooleanArray, Int32Array, Int64Array, PrimitiveArray, TimestampMicrosecondArray};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, OffsetBuffer, ScalarBuffer, ToByteSlice};
use arrow_schema::{DataType, Field, Fields, TimeUnit};

pub(crate) use binary::BinaryColumn;
pub(crate) use headers::{Header, HeadersColumn};
use runs::Runs;
use validity::Validity;

use crate::codec::Codec;
use crate::pool::PoolVec;

/// A column of records; Python's RECORD_SCHEMA in its order.
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

/// Columns that are the same for every record of a call. None: null.
#[derive(Clone, Copy, Default)]
pub struct Constants<'a> {
    pub topic: Option<&'a str>,
    pub partition: Option<i32>,
    pub segment: Option<&'a str>,
}

/// What a batch says about all of its records.
#[derive(Clone, Copy, Debug)]
pub struct BatchValues {
    pub timestamp_type: i32,
    pub leader_epoch: i32,
    pub producer_id: i64,
    pub producer_epoch: i32,
    pub is_transactional: bool,
    pub codec: Codec,
    pub magic: i32,
    pub batch_offset: i64,
    pub position: i64,
}

/// One record, as the careful paths append it. The fast path of v2 writes to the columns directly.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub offset: i64,
    pub timestamp_ms: i64,
    pub sequence: i32,
}

/// The columns being built: those of each record, and those of each batch as runs of equal values.
///
/// Only this crate fills them, since Arrow trusts what they hold:
///
/// ```compile_fail
/// fn add_rows(columns: &mut _kernel::columns::RecordColumns) {
///     columns.rows += 1;
/// }
/// ```
#[derive(Default)]
pub struct RecordColumns {
    pub(crate) rows: usize,
    pub(crate) key: Option<BinaryColumn>,
    pub(crate) value: Option<BinaryColumn>,
    pub(crate) offset: Option<PoolVec<i64>>,
    pub(crate) timestamp: Option<PoolVec<i64>>,
    pub(crate) sequence: Option<PoolVec<i32>>,
    pub(crate) headers: Option<HeadersColumn>,
    batches: Runs<BatchValues>,
}

/// Arrow's 32-bit offsets end here.
const MAX_COLUMN_BYTES: usize = i32::MAX as usize;

impl RecordColumns {
    pub(crate) fn new(columns: &[Column]) -> Self {
        let wanted = |column: Column| columns.contains(&column);
        RecordColumns {
            rows: 0,
            key: wanted(Column::Key).then(BinaryColumn::default),
            value: wanted(Column::Value).then(BinaryColumn::default),
            offset: wanted(Column::Offset).then(PoolVec::new),
            timestamp: wanted(Column::Timestamp).then(PoolVec::new),
            sequence: wanted(Column::Sequence).then(PoolVec::new),
            headers: wanted(Column::Headers).then(HeadersColumn::default),
            batches: Runs::default(),
        }
    }

    /// How many records there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Makes room for `rows` records whose keys and values have `bytes` bytes together.
    pub(crate) fn reserve(&mut self, rows: usize, bytes: usize) {
        for column in [&mut self.key, &mut self.value].into_iter().flatten() {
            column.reserve(rows, bytes);
        }
        for column in [&mut self.offset, &mut self.timestamp].into_iter().flatten() {
            column.reserve(rows);
        }
        if let Some(column) = &mut self.sequence {
            column.reserve(rows);
        }
    }

    /// Makes room for `times` as much as there is: called once the first batch shows what the rest may be like.
    pub(crate) fn expect(&mut self, times: usize) {
        const MOST: usize = 16 << 20;
        let rows = (self.rows * times).min(MOST / 8);
        for column in [&mut self.key, &mut self.value].into_iter().flatten() {
            column.reserve(rows, (column.data.len() * times).min(MOST));
        }
        self.reserve(rows, 0);
    }

    /// Whether so many more records and bytes would still fit below Arrow's 32-bit offsets.
    pub(crate) fn fits(&self, rows: usize, bytes: usize, constants: &Constants) -> bool {
        let widest = [constants.topic, constants.segment].into_iter().flatten().map(str::len).max().unwrap_or(0);
        let longest = [&self.key, &self.value].into_iter().flatten().map(|column| column.data.len()).max();
        let headers = self.headers.as_ref().map_or(0, HeadersColumn::data_bytes);
        (self.rows + rows).saturating_mul(widest.max(8)) <= MAX_COLUMN_BYTES
            && longest.unwrap_or(0).saturating_add(bytes) <= MAX_COLUMN_BYTES
            && headers.saturating_add(bytes.saturating_mul(3)) <= MAX_COLUMN_BYTES // U+FFFD has three bytes
    }

    /// Appends one record; the batch it belongs to is closed by `end_batch` or undone by `undo_batch`.
    pub(crate) fn append(&mut self, record: &Record, headers: &[Header]) {
        if let Some(column) = &mut self.key {
            column.append(self.rows, record.key);
        }
        if let Some(column) = &mut self.value {
            column.append(self.rows, record.value);
        }
        if let Some(column) = &mut self.offset {
            column.push(record.offset);
        }
        if let Some(column) = &mut self.timestamp {
            column.push(micros(record.timestamp_ms));
        }
        if let Some(column) = &mut self.sequence {
            column.push(record.sequence);
        }
        if let Some(column) = &mut self.headers {
            column.append(self.rows, headers);
        }
        self.rows += 1;
    }

    /// The records appended since the last batch ended are those of this one.
    pub(crate) fn end_batch(&mut self, values: BatchValues) {
        self.batches.extend_to(self.rows, values);
    }

    /// Forgets the records appended since the last batch ended.
    pub(crate) fn undo_batch(&mut self) {
        self.rows = self.batches.rows();
        for column in [&mut self.key, &mut self.value].into_iter().flatten() {
            column.truncate(self.rows);
        }
        for column in [&mut self.offset, &mut self.timestamp].into_iter().flatten() {
            column.truncate(self.rows);
        }
        if let Some(column) = &mut self.sequence {
            column.truncate(self.rows);
        }
        if let Some(column) = &mut self.headers {
            column.truncate(self.rows);
        }
    }

    /// Bytes of the columns asked for: what `max_bytes` is held against. Bitmaps count nothing.
    pub(crate) fn bytes(&self, columns: &[Column], constants: &Constants) -> usize {
        let text = |text: Option<&str>| self.rows * (4 + text.map_or(0, str::len));
        let binary = |column: &Option<BinaryColumn>| self.rows * 4 + column.as_ref().map_or(0, |c| c.data.len());
        let bytes_of = |column: &Column| match column {
            Column::Key => binary(&self.key),
            Column::Value => binary(&self.value),
            Column::Topic => text(constants.topic),
            Column::Segment => text(constants.segment),
            Column::Compression => text(Some("none")),
            Column::Headers => self.rows * 4 + self.headers.as_ref().map_or(0, HeadersColumn::data_bytes),
            Column::IsTransactional => self.rows / 8,
            Column::Offset | Column::Timestamp | Column::ProducerId | Column::BatchOffset | Column::Position => {
                self.rows * 8
            }
            Column::Partition
            | Column::TimestampType
            | Column::LeaderEpoch
            | Column::ProducerEpoch
            | Column::Sequence
            | Column::Magic => self.rows * 4,
        };
        columns.iter().map(bytes_of).sum()
    }

    /// The arrays of `columns`, in that order.
    pub fn finish(mut self, columns: &[Column], constants: &Constants) -> Vec<ArrayRef> {
        let mut built: Vec<(Column, ArrayRef)> = Vec::with_capacity(columns.len());
        for &column in columns {
            let array = match built.iter().find(|(known, _)| *known == column) {
                Some((_, array)) => array.clone(),
                None => self.finish_column(column, constants),
            };
            built.push((column, array));
        }
        built.into_iter().map(|(_, array)| array).collect()
    }

    fn finish_column(&mut self, column: Column, constants: &Constants) -> ArrayRef {
        let rows = self.rows;
        match column {
            Column::Key => self.key.take().unwrap_or_default().finish(rows),
            Column::Value => self.value.take().unwrap_or_default().finish(rows),
            Column::Topic => constant_string(constants.topic, rows),
            Column::Segment => constant_string(constants.segment, rows),
            Column::Partition => match constants.partition {
                Some(value) => Arc::new(Int32Array::new(constant(value, rows), None)),
                None => Arc::new(Int32Array::new_null(rows)),
            },
            Column::Offset => Arc::new(Int64Array::new(fixed(self.offset.take(), rows), None)),
            Column::Timestamp => {
                Arc::new(TimestampMicrosecondArray::new(fixed(self.timestamp.take(), rows), None).with_timezone("UTC"))
            }
            Column::Sequence => Arc::new(Int32Array::new(fixed(self.sequence.take(), rows), None)),
            Column::Headers => self.headers.take().unwrap_or_default().finish(rows),
            Column::TimestampType => self.runs::<Int32Type>(|batch| batch.timestamp_type),
            Column::LeaderEpoch => self.runs::<Int32Type>(|batch| batch.leader_epoch),
            Column::ProducerId => self.runs::<Int64Type>(|batch| batch.producer_id),
            Column::ProducerEpoch => self.runs::<Int32Type>(|batch| batch.producer_epoch),
            Column::Magic => self.runs::<Int32Type>(|batch| batch.magic),
            Column::BatchOffset => self.runs::<Int64Type>(|batch| batch.batch_offset),
            Column::Position => self.runs::<Int64Type>(|batch| batch.position),
            Column::IsTransactional => self.boolean_runs(|batch| batch.is_transactional),
            Column::Compression => self.string_runs(|batch| batch.codec.name()),
        }
    }

    fn runs<P: ArrowPrimitiveType>(&self, value: impl Fn(&BatchValues) -> P::Native) -> ArrayRef
    where
        P::Native: PartialEq,
    {
        let runs = self.batches.of(value);
        let values = match runs[..] {
            [(value, _)] => constant(value, self.rows),
            _ => {
                let mut values = Vec::with_capacity(self.rows);
                runs.iter().for_each(|&(value, end)| values.resize(end, value));
                values.into()
            }
        };
        Arc::new(PrimitiveArray::<P>::new(values, None))
    }

    fn boolean_runs(&self, value: impl Fn(&BatchValues) -> bool) -> ArrayRef {
        let mut values = BooleanBufferBuilder::new(self.rows);
        for (value, end) in self.batches.of(value) {
            values.append_n(end - values.len(), value);
        }
        Arc::new(BooleanArray::new(values.finish(), None))
    }

    fn string_runs(&self, value: impl Fn(&BatchValues) -> &'static str) -> ArrayRef {
        let runs = self.batches.of(value);
        if let [(text, _)] = runs[..] {
            return constant_string(Some(text), self.rows);
        }
        let mut values = Vec::with_capacity(self.rows);
        runs.iter().for_each(|&(text, end)| values.resize(end, text));
        Arc::new(arrow_array::StringArray::from(values))
    }
}

/// Milliseconds to microseconds, as far as 64 bits go.
#[inline(always)]
pub fn micros(timestamp_ms: i64) -> i64 {
    timestamp_ms.saturating_mul(1000)
}

fn fixed<T: ArrowNativeType>(column: Option<PoolVec<T>>, rows: usize) -> ScalarBuffer<T> {
    ScalarBuffer::new(column.unwrap_or_default().into_buffer(), 0, rows)
}

fn constant<T: ArrowNativeType>(value: T, rows: usize) -> ScalarBuffer<T> {
    ScalarBuffer::new(crate::constant::repeated(value.to_byte_slice(), rows), 0, rows)
}

fn constant_string(text: Option<&str>, rows: usize) -> ArrayRef {
    let Some(text) = text else { return arrow_array::new_null_array(&DataType::Utf8, rows) };
    let offsets = crate::constant::offsets(text.len(), rows);
    let data = crate::constant::repeated(text.as_bytes(), rows);
    // SAFETY: the offsets are multiples of the text's length, so every value is the text, which is UTF-8.
    unsafe {
        let offsets = OffsetBuffer::new_unchecked(ScalarBuffer::new(offsets, 0, rows + 1));
        Arc::new(arrow_array::StringArray::new_unchecked(offsets, data, None))
    }
}

/// The fields of `columns`, in that order, all nullable.
pub fn fields(columns: &[Column]) -> Fields {
    columns.iter().map(|column| Field::new(column.name(), column.data_type(), true)).collect()
}
