//! Records of the common shape, written into columns that are reserved for all of them: without a call or a check of room
//! for each record.

use kafka_log_format::common_records::CommonRecords;
use kafka_log_format::memory::prefetch;
use kafka_log_format::wide::{COPY_SLACK, copy};

use super::binary::BinaryColumn;
use super::record_columns::{RecordColumns, micros};
use crate::pool;

const CACHE_LINE: usize = 64;
/// How far ahead of where keys and values are written their memory is prefetched: a column is larger than the cache that
/// could be written to without waiting.
const WRITE_AHEAD: usize = 1024;

const _: () = assert!(COPY_SLACK <= pool::SLACK);

/// Appends records up to the first one that is not of the common shape.
pub fn append(records: &mut CommonRecords, columns: &mut RecordColumns) {
    columns.reserve_for(records);
    without_headers(records, columns);
    if records.left() > 0 && columns.headers.is_none() {
        with_headers(records, columns);
    }
}

/// A loop of its own for each set of columns: a column that is not wanted costs not even a branch.
fn without_headers(records: &mut CommonRecords, columns: &mut RecordColumns) {
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

/// For records some of which have headers that are not wanted.
fn with_headers(records: &mut CommonRecords, columns: &mut RecordColumns) {
    let write = match (columns.key.is_some(), columns.value.is_some()) {
        (true, true) => write::<true, true, true, true>,
        (true, false) => write::<true, false, true, true>,
        (false, true) => write::<false, true, true, true>,
        (false, false) => write::<false, false, true, true>,
    };
    write(records, columns);
}

/// The columns have room for all records and bytes that are left. KEY and VALUE: whether there are these columns.
fn write<const KEY: bool, const VALUE: bool, const NUMBERS: bool, const HEADERS: bool>(
    records: &mut CommonRecords,
    columns: &mut RecordColumns,
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
        // parts of records, and those do not overlap. COPY_SLACK bytes behind a key and a value are readable.
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
    // SAFETY: the rows up to `row` of the columns that are there were written above.
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

/// Appends to a column of keys or values that has room. Without a column it must not be written to.
struct BinaryWriter<'a> {
    data: *mut u8,
    data_bytes: usize,
    ends: *mut i32,
    column: Option<&'a mut BinaryColumn>,
}

impl<'a> BinaryWriter<'a> {
    fn new(mut column: Option<&'a mut BinaryColumn>) -> Self {
        let (data, ends) = match &mut column {
            // Arrow's offsets begin with a 0: the end of a row is one further.
            Some(column) => (column.data.start(), column.offsets.start().wrapping_add(1)),
            None => (std::ptr::null_mut(), std::ptr::null_mut()),
        };
        BinaryWriter { data, data_bytes: column.as_ref().map_or(0, |column| column.data_bytes()), ends, column }
    }

    /// # Safety
    /// There is a column, with room for the row and its bytes; COPY_SLACK bytes behind the value are readable.
    #[inline(always)]
    unsafe fn write(&mut self, row: usize, (value, bytes): (*const u8, i32)) {
        // SAFETY: the caller's promise. The pool has SLACK bytes behind what was reserved.
        unsafe {
            if bytes >= 0 {
                let to = self.data.add(self.data_bytes);
                prefetch(to.wrapping_add(WRITE_AHEAD));
                prefetch(to.wrapping_add(WRITE_AHEAD + CACHE_LINE));
                copy(value, to, bytes as usize);
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
