//! Write records of the common shape into columns that have room for all of them, without calls and checks for each record.

use kafka_log_format::common_records::{CommonRecord, CommonRecords};
use kafka_log_format::copy::{COPY_SLACK, copy_short};
use kafka_log_format::header::V2Header;

use super::binary::BinaryColumn;
use super::row_columns::{RowColumns, micros};
use crate::pool::{self, PoolVec};

const _: () = assert!(COPY_SLACK <= pool::SLACK);

/// Appends records up to the first one that is not of the common shape.
pub fn append(records: &mut CommonRecords, columns: &mut RowColumns) {
    if records.left() == 0 {
        return;
    }
    columns.reserve_for(records);
    let header = records.header();
    // SAFETY: the columns have room for a row of each record, and for the bytes of all records: keys and values are
    // parts of records, and those do not overlap.
    records.for_each_block::<false>(|block| unsafe { write(header, block, columns) });
    if records.left() > 0 && columns.headers.is_none() {
        // SAFETY: as above.
        records.for_each_block::<true>(|block| unsafe { write(header, block, columns) });
    }
}

/// # Safety
/// All columns have room for a row of each record, and for the bytes of its key and its value.
unsafe fn write(header: &V2Header, records: &[CommonRecord], columns: &mut RowColumns) {
    #[cfg(target_arch = "x86_64")]
    if kafka_log_format::cpu::has_avx2() {
        // SAFETY: the processor has these features; the rest is the caller's promise.
        return unsafe { write_avx2(header, records, columns) };
    }
    // SAFETY: the caller's promise.
    unsafe { write_columns(header, records, columns) }
}

/// Copies 32 bytes instead of 16 with each instruction.
///
/// # Safety
/// That of `write`, and the processor has these features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn write_avx2(header: &V2Header, records: &[CommonRecord], columns: &mut RowColumns) {
    // SAFETY: the caller's promise.
    unsafe { write_columns(header, records, columns) }
}

/// Writes one column after the other. A loop over all columns would need more registers than there are.
///
/// # Safety
/// That of `write`.
#[inline(always)]
unsafe fn write_columns(header: &V2Header, records: &[CommonRecord], columns: &mut RowColumns) {
    let row = columns.rows;
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(keys) = &mut columns.key {
            write_bytes(keys, row, records, CommonRecord::key);
        }
        if let Some(values) = &mut columns.value {
            write_bytes(values, row, records, CommonRecord::value);
        }
        if let Some(offsets) = &mut columns.offset {
            write_numbers(offsets, row, records, |record| record.offset(header));
        }
        if let Some(timestamps) = &mut columns.timestamp {
            write_numbers(timestamps, row, records, |record| micros(record.timestamp_ms(header)));
        }
        if let Some(sequences) = &mut columns.sequence {
            write_numbers(sequences, row, records, |record| record.sequence(header));
        }
    }
    columns.rows += records.len();
}

/// `bytes_of` returns the address and the length of a key or a value. The length of null is negative.
///
/// # Safety
/// The column has `row` rows, and room for a row of each record and its bytes.
#[inline(always)]
unsafe fn write_bytes(
    column: &mut BinaryColumn,
    row: usize,
    records: &[CommonRecord],
    bytes_of: impl Fn(&CommonRecord) -> (*const u8, i32),
) {
    // SAFETY: the caller's promise. The pool has SLACK bytes after what was reserved, and COPY_SLACK bytes after a key
    // and a value are readable.
    unsafe {
        let data = column.data.start();
        // Arrow's offsets begin with 0, so the end of a row is at the next index.
        let ends = column.offsets.start().add(1);
        let mut end = column.data_bytes();
        for (row, record) in (row..).zip(records) {
            let (from, bytes) = bytes_of(record);
            if bytes >= 0 {
                copy_short(from, data.add(end), bytes as usize);
                end += bytes as usize;
            } else {
                column.validity.set_null(row);
            }
            ends.add(row).write(end as i32);
        }
        column.data.set_len(end);
        column.offsets.set_len(row + records.len() + 1);
    }
}

/// # Safety
/// The column has `row` values, and room for one of each record.
#[inline(always)]
unsafe fn write_numbers<T: Copy>(
    column: &mut PoolVec<T>,
    row: usize,
    records: &[CommonRecord],
    number_of: impl Fn(&CommonRecord) -> T,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let numbers = column.start().add(row);
        for (index, record) in records.iter().enumerate() {
            numbers.add(index).write(number_of(record));
        }
        column.set_len(row + records.len());
    }
}
