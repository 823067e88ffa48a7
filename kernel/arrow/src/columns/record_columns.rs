//! The columns of records being built.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type};
use arrow_array::{ArrayRef, BooleanArray, Int32Array, Int64Array, PrimitiveArray, TimestampMicrosecondArray};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, OffsetBuffer, ScalarBuffer, ToByteSlice};
use arrow_schema::{DataType, Fields};
use kafka_log_format::common_records::CommonRecords;
use kafka_log_format::damage::Skipped;
use kafka_log_format::record::{Record, RecordHeader};
use kafka_log_format::sink::{BatchValues, RecordSink};

use super::binary::{BinaryColumn, MAX_BYTES};
use super::column::{Column, fields};
use super::common;
use super::headers::HeadersColumn;
use super::row_columns::RowColumns;
use super::runs::Runs;
use crate::pool::PoolVec;

/// The values of columns that are the same for all records of a call. None: null.
#[derive(Clone, Copy, Default)]
pub struct Constants<'a> {
    pub topic: Option<&'a str>,
    pub partition: Option<i32>,
    pub segment: Option<&'a str>,
}

/// The columns of records: one value for each record, or one for each batch, as runs of equal values. Fields are private
/// because Arrow relies on what the columns hold.
///
/// ```compile_fail
/// fn add_rows(columns: &mut kafka_log_arrow::columns::RecordColumns) {
///     columns.values.rows += 1;
/// }
/// ```
pub struct RecordColumns<'a> {
    columns: &'a [Column],
    constants: Constants<'a>,
    values: RowColumns,
    batches: Runs<BatchValues>,
    skipped: Vec<Skipped>,
}

impl<'a> RecordColumns<'a> {
    pub fn new(columns: &'a [Column], constants: Constants<'a>) -> Self {
        RecordColumns {
            columns,
            constants,
            values: RowColumns::new(columns),
            batches: Runs::default(),
            skipped: Vec::new(),
        }
    }

    /// How many records there are.
    pub fn rows(&self) -> usize {
        self.values.rows
    }

    /// The damage after which decoding continued.
    pub fn take_skipped(&mut self) -> Vec<Skipped> {
        std::mem::take(&mut self.skipped)
    }

    /// The fields of the columns, all nullable.
    pub fn fields(&self) -> Fields {
        fields(self.columns)
    }

    /// The arrays of the columns. Records of a batch that was not ended are dropped.
    pub fn finish(mut self) -> Vec<ArrayRef> {
        if self.batches.rows() != self.values.rows {
            self.discard_batch();
        }
        let mut built: Vec<(Column, ArrayRef)> = Vec::with_capacity(self.columns.len());
        for &column in self.columns {
            let array = match built.iter().find(|(known, _)| *known == column) {
                Some((_, array)) => array.clone(),
                None => self.finish_column(column),
            };
            built.push((column, array));
        }
        built.into_iter().map(|(_, array)| array).collect()
    }

    fn finish_column(&mut self, column: Column) -> ArrayRef {
        let (rows, constants) = (self.values.rows, self.constants);
        match column {
            Column::Key => self.values.key.take().unwrap_or_default().finish(rows),
            Column::Value => self.values.value.take().unwrap_or_default().finish(rows),
            Column::Topic => constant_string(constants.topic, rows),
            Column::Segment => constant_string(constants.segment, rows),
            Column::Partition => match constants.partition {
                Some(value) => Arc::new(Int32Array::new(constant(value, rows), None)),
                None => Arc::new(Int32Array::new_null(rows)),
            },
            Column::Offset => Arc::new(Int64Array::new(fixed(self.values.offset.take(), rows), None)),
            Column::Timestamp => Arc::new(
                TimestampMicrosecondArray::new(fixed(self.values.timestamp.take(), rows), None).with_timezone("UTC"),
            ),
            Column::Sequence => Arc::new(Int32Array::new(fixed(self.values.sequence.take(), rows), None)),
            Column::Headers => self.values.headers.take().unwrap_or_default().finish(rows),
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
            [(value, _)] => constant(value, self.values.rows),
            _ => {
                let mut values = Vec::with_capacity(self.values.rows);
                runs.iter().for_each(|&(value, end)| values.resize(end, value));
                values.into()
            }
        };
        Arc::new(PrimitiveArray::<P>::new(values, None))
    }

    fn boolean_runs(&self, value: impl Fn(&BatchValues) -> bool) -> ArrayRef {
        let mut values = BooleanBufferBuilder::new(self.values.rows);
        for (value, end) in self.batches.of(value) {
            values.append_n(end - values.len(), value);
        }
        Arc::new(BooleanArray::new(values.finish(), None))
    }

    fn string_runs(&self, value: impl Fn(&BatchValues) -> &'static str) -> ArrayRef {
        let runs = self.batches.of(value);
        if let [(text, _)] = runs[..] {
            return constant_string(Some(text), self.values.rows);
        }
        let mut values = Vec::with_capacity(self.values.rows);
        runs.iter().for_each(|&(text, end)| values.resize(end, text));
        Arc::new(arrow_array::StringArray::from(values))
    }
}

impl RecordSink for RecordColumns<'_> {
    fn record_count(&self) -> usize {
        self.values.rows
    }

    /// The size of the columns. Bitmaps count nothing.
    fn size_bytes(&self) -> usize {
        let text = |text: Option<&str>| self.values.rows * (4 + text.map_or(0, str::len));
        let binary =
            |column: &Option<BinaryColumn>| self.values.rows * 4 + column.as_ref().map_or(0, BinaryColumn::data_bytes);
        let bytes_of = |column: &Column| match column {
            Column::Key => binary(&self.values.key),
            Column::Value => binary(&self.values.value),
            Column::Topic => text(self.constants.topic),
            Column::Segment => text(self.constants.segment),
            Column::Compression => text(Some("none")),
            Column::Headers => self.values.rows * 4 + self.values.headers.as_ref().map_or(0, HeadersColumn::data_bytes),
            Column::IsTransactional => self.values.rows / 8,
            Column::Offset | Column::Timestamp | Column::ProducerId | Column::BatchOffset | Column::Position => {
                self.values.rows * 8
            }
            Column::Partition
            | Column::TimestampType
            | Column::LeaderEpoch
            | Column::ProducerEpoch
            | Column::Sequence
            | Column::Magic => self.values.rows * 4,
        };
        self.columns.iter().map(bytes_of).sum()
    }

    /// Whether all columns stay below Arrow's 32-bit offsets.
    fn has_room(&self, records: usize, bytes: usize) -> bool {
        let texts = [self.constants.topic, self.constants.segment];
        let widest = texts.into_iter().flatten().map(str::len).max().unwrap_or(0);
        let longest = [&self.values.key, &self.values.value].into_iter().flatten().map(BinaryColumn::data_bytes).max();
        let headers = self.values.headers.as_ref().map_or(0, HeadersColumn::data_bytes);
        (self.values.rows + records).saturating_mul(widest.max(8)) <= MAX_BYTES
            && longest.unwrap_or(0).saturating_add(bytes) <= MAX_BYTES
            && headers.saturating_add(bytes.saturating_mul(3)) <= MAX_BYTES // U+FFFD has three bytes
    }

    fn append(&mut self, record: &Record, headers: &[RecordHeader]) {
        self.values.append(record, headers);
    }

    fn append_common(&mut self, records: &mut CommonRecords) {
        common::append(records, &mut self.values);
    }

    fn expect(&mut self, times: usize) {
        self.values.expect(times);
    }

    fn end_batch(&mut self, batch: BatchValues) {
        self.batches.extend_to(self.values.rows, batch);
    }

    fn discard_batch(&mut self) {
        self.values.truncate(self.batches.rows());
    }

    fn skipped(&mut self, skipped: Skipped) {
        self.skipped.push(skipped);
    }
}

fn fixed<T: ArrowNativeType>(column: Option<PoolVec<T>>, rows: usize) -> ScalarBuffer<T> {
    ScalarBuffer::new(column.unwrap_or_default().into_buffer(), 0, rows)
}

fn constant<T: ArrowNativeType>(value: T, rows: usize) -> ScalarBuffer<T> {
    ScalarBuffer::new(crate::constant::repeated(value.to_byte_slice(), rows), 0, rows)
}

fn constant_string(text: Option<&str>, rows: usize) -> ArrayRef {
    let Some(text) = text else { return arrow_array::new_null_array(&DataType::Utf8, rows) };
    assert!(text.len().saturating_mul(rows) <= MAX_BYTES, "has_room was ignored");
    let offsets = crate::constant::offsets(text.len(), rows);
    let data = crate::constant::repeated(text.as_bytes(), rows);
    // SAFETY: the offsets are multiples of the text's length, so every value is the text, which is UTF-8.
    unsafe {
        let offsets = OffsetBuffer::new_unchecked(ScalarBuffer::new(offsets, 0, rows + 1));
        Arc::new(arrow_array::StringArray::new_unchecked(offsets, data, None))
    }
}
