//! Write records of the common shape into columns that have room for all of them, without calls and checks for each record.

use kafka_log_format::common_records::CommonRecords;
use kafka_log_format::copy::{COPY_SLACK, copy_short};
use kafka_log_format::memory::prefetch;

use super::binary::BinaryColumn;
use super::row_columns::{RowColumns, micros};
use crate::pool;

const CACHE_LINE: usize = 64;
/// How far ahead of a key or value the memory of its column is prefetched. Columns are larger than the cache, so writes would
/// wait otherwise.
const WRITE_AHEAD: usize = 1024;

const _: () = assert!(COPY_SLACK <= pool::SLACK);

/// Appends records up to the first one that is not of the common shape.
pub fn append(records: &mut CommonRecords, columns: &mut RowColumns) {
    if records.left() == 0 {
        return;
    }
    columns.reserve_for(records);
    without_headers(records, columns);
    if records.left() > 0 && columns.headers.is_none() {
        with_headers(records, columns);
    }
}

/// There is a separate loop for each set of columns, so that a column that is not requested does not even cost a branch.
fn without_headers(records: &mut CommonRecords, columns: &mut RowColumns) {
    let numbers = columns.offset.is_some() || columns.timestamp.is_some() || columns.sequence.is_some();
    let write = match (columns.key.is_some(), columns.value.is_some(), numbers) {
        (true, true, true) => write::<true, true, true, false>,
        (true, true, false) => write::<true, true, false, false>,
        (true, false, true) => write::<true, false, true, false>,
        (true, false, false) => write::<true, false, false, false>,
        (false, true, true) => write::<false, true, true, false>,
        (false, true, false) => write::<false, true, false, false>,
        (false, false, true) => write::<false, false, true, false>,
        (false, false, false) => write::<false, false, false, false>,
    };
    write(records, columns);
}

/// For records with headers that are not requested.
fn with_headers(records: &mut CommonRecords, columns: &mut RowColumns) {
    let write = match (columns.key.is_some(), columns.value.is_some()) {
        (true, true) => write::<true, true, true, true>,
        (true, false) => write::<true, false, true, true>,
        (false, true) => write::<false, true, true, true>,
        (false, false) => write::<false, false, true, true>,
    };
    write(records, columns);
}

/// The columns must have room for all records and bytes that are left. KEY and VALUE: whether the columns are requested.
fn write<const KEY: bool, const VALUE: bool, const NUMBERS: bool, const HEADERS: bool>(
    records: &mut CommonRecords,
    columns: &mut RowColumns,
) {
    let header = records.header();
    let log_append_time = header.log_append_time().then_some(micros(header.max_timestamp));
    let mut row = columns.rows;
    let mut key = BinaryWriter::new(columns.key.as_mut());
    let mut value = BinaryWriter::new(columns.value.as_mut());
    let offsets = columns.offset.as_mut().map(|column| column.start());
    let timestamps = columns.timestamp.as_mut().map(|column| column.start());
    let sequences = columns.sequence.as_mut().map(|column| column.start());
    records.for_each::<HEADERS>(|record| {
        // SAFETY: the columns have room for a row of each record, and for the bytes of all records: keys and values are
        // parts of records, and those do not overlap. COPY_SLACK bytes after a key and a value are readable.
        unsafe {
            if KEY {
                key.write(row, record.key());
            }
            if VALUE {
                value.write(row, record.value());
            }
            if NUMBERS {
                if let Some(offsets) = offsets {
                    offsets.add(row).write(record.offset());
                }
                if let Some(timestamps) = timestamps {
                    let create_time = micros(header.base_timestamp.wrapping_add(record.timestamp_delta()));
                    timestamps.add(row).write(log_append_time.unwrap_or(create_time));
                }
                if let Some(sequences) = sequences {
                    sequences.add(row).write(header.sequence(record.offset_delta()));
                }
            }
        }
        row += 1;
    });
    // SAFETY: the rows up to `row` of all requested columns were written above.
    unsafe {
        key.finish(row);
        value.finish(row);
        for column in [&mut columns.offset, &mut columns.timestamp].into_iter().flatten() {
            column.set_len(row);
        }
        if let Some(column) = &mut columns.sequence {
            column.set_len(row);
        }
    }
    columns.rows = row;
}

/// Writes to a column of keys or values. Without a column, `write` must not be called.
struct BinaryWriter<'a> {
    data: *mut u8,
    data_bytes: usize,
    ends: *mut i32,
    column: Option<&'a mut BinaryColumn>,
}

impl<'a> BinaryWriter<'a> {
    fn new(mut column: Option<&'a mut BinaryColumn>) -> Self {
        let (data, ends) = match &mut column {
            // Arrow's offsets begin with 0, so the end of a row is at the next index.
            Some(column) => (column.data.start(), column.offsets.start().wrapping_add(1)),
            None => (std::ptr::null_mut(), std::ptr::null_mut()),
        };
        BinaryWriter { data, data_bytes: column.as_ref().map_or(0, |column| column.data_bytes()), ends, column }
    }

    /// # Safety
    /// There is a column, with room for the row and its bytes; COPY_SLACK bytes after the value are readable.
    #[inline(always)]
    unsafe fn write(&mut self, row: usize, (value, bytes): (*const u8, i32)) {
        // SAFETY: the caller's promise. The pool has SLACK bytes after what was reserved.
        unsafe {
            if bytes >= 0 {
                let to = self.data.add(self.data_bytes);
                prefetch(to.wrapping_add(WRITE_AHEAD));
                prefetch(to.wrapping_add(WRITE_AHEAD + CACHE_LINE));
                copy_short(value, to, bytes as usize);
                self.data_bytes += bytes as usize;
            } else if let Some(column) = &mut self.column {
                column.validity.set_null(row);
            }
            self.ends.add(row).write(self.data_bytes as i32);
        }
    }

    /// # Safety
    /// If there is a column, the rows before `rows` are written.
    unsafe fn finish(self, rows: usize) {
        if let Some(column) = self.column {
            // SAFETY: the caller's promise.
            unsafe {
                column.offsets.set_len(rows + 1);
                column.data.set_len(self.data_bytes);
            }
        }
    }
}
