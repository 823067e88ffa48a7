//! The columns with one value for each record.

use kafka_log_format::common_records::CommonRecords;
use kafka_log_format::record::{Record, RecordHeader};

use super::binary::BinaryColumn;
use super::column::Column;
use super::headers::HeadersColumn;
use crate::pool::PoolVec;

/// The columns being built. Those that are not requested are None.
pub struct RowColumns {
    /// How many rows all columns have.
    pub(super) rows: usize,
    /// For how many rows all columns have room.
    reserved_rows: usize,
    pub(super) key: Option<BinaryColumn>,
    pub(super) value: Option<BinaryColumn>,
    pub(super) offset: Option<PoolVec<i64>>,
    pub(super) timestamp: Option<PoolVec<i64>>,
    pub(super) sequence: Option<PoolVec<i32>>,
    pub(super) headers: Option<HeadersColumn>,
}

impl RowColumns {
    pub fn new(columns: &[Column]) -> Self {
        let has = |column: Column| columns.contains(&column);
        RowColumns {
            rows: 0,
            reserved_rows: 0,
            key: has(Column::Key).then(BinaryColumn::default),
            value: has(Column::Value).then(BinaryColumn::default),
            offset: has(Column::Offset).then(PoolVec::new),
            timestamp: has(Column::Timestamp).then(PoolVec::new),
            sequence: has(Column::Sequence).then(PoolVec::new),
            headers: has(Column::Headers).then(HeadersColumn::default),
        }
    }

    pub fn append(&mut self, record: &Record, headers: &[RecordHeader]) {
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

    /// Makes room for `rows` more records, and for `bytes` more bytes in each of the columns of keys and values.
    fn reserve(&mut self, rows: usize, bytes: usize) {
        for column in [&mut self.key, &mut self.value].into_iter().flatten() {
            column.reserve(rows, bytes);
        }
        for column in [&mut self.offset, &mut self.timestamp].into_iter().flatten() {
            column.reserve(rows);
        }
        if let Some(column) = &mut self.sequence {
            column.reserve(rows);
        }
        self.reserved_rows = self.reserved_rows.max(self.rows + rows);
    }

    /// Makes room for all records that are left. Panics if their keys or values could go beyond Arrow's 32-bit offsets.
    #[inline]
    pub(super) fn reserve_for(&mut self, records: &CommonRecords) {
        let (rows, bytes) = (records.left(), records.left_bytes());
        let has_room = |column: &Option<BinaryColumn>| column.as_ref().is_none_or(|column| column.has_room(bytes));
        if self.rows + rows > self.reserved_rows || !has_room(&self.key) || !has_room(&self.value) {
            self.reserve(rows, bytes);
            let fits = [&self.key, &self.value].into_iter().flatten().all(|column| column.has_room(bytes));
            assert!(fits, "has_room was ignored");
        }
    }

    /// Makes room for `times` as many rows and bytes as there are.
    pub fn expect(&mut self, times: usize) {
        const MOST: usize = 16 << 20;
        let rows = self.rows.saturating_mul(times).min(MOST / 8);
        for column in [&mut self.key, &mut self.value].into_iter().flatten() {
            column.reserve(rows, column.data_bytes().saturating_mul(times).min(MOST));
        }
        self.reserve(rows, 0);
    }

    /// Removes the records from row `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        self.rows = rows;
        for column in [&mut self.key, &mut self.value].into_iter().flatten() {
            column.truncate(rows);
        }
        for column in [&mut self.offset, &mut self.timestamp].into_iter().flatten() {
            column.truncate(rows);
        }
        if let Some(column) = &mut self.sequence {
            column.truncate(rows);
        }
        if let Some(column) = &mut self.headers {
            column.truncate(rows);
        }
    }
}

/// Milliseconds to microseconds, limited to 64 bits.
#[inline(always)]
pub fn micros(timestamp_ms: i64) -> i64 {
    timestamp_ms.saturating_mul(1000)
}
