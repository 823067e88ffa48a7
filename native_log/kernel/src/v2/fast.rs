//! The fast reader of v2 records: one pass, short varints by hand, whole registers copied where a few bytes too
//! many do no harm. It reads the common shape only (lengths of at most two or three bytes, no headers) and leaves
//! everything else, damage included, to the careful reader.

use crate::columns::{BinaryColumn, RecordColumns, micros};
use crate::header::V2Header;
use crate::varint::{unzigzag_i32, unzigzag_i64};

use super::OffsetRange;

/// How far behind a record's end the reader may read: its header count and what a copy takes too many.
const READ_AHEAD: usize = crate::codec::SLACK;
/// Longer copies are left to memcpy.
const SHORT_COPY: usize = 512;

/// Reads at most `count` records from `at` on, moves it behind them, and says how many they were. Their columns
/// have room for `count` records and all bytes of the section.
pub fn records(
    header: &V2Header,
    readable: &[u8],
    section_bytes: usize,
    at: &mut usize,
    count: usize,
    wanted: OffsetRange,
    columns: &mut RecordColumns,
) -> usize {
    let end = section_bytes.min(readable.len().saturating_sub(READ_AHEAD));
    let fixed_timestamp = header.log_append_time().then_some(micros(header.max_timestamp));
    let first_row = columns.rows;
    let mut row = first_row;
    let mut key = columns.key.as_mut().map(BinaryWriter::new);
    let mut value = columns.value.as_mut().map(BinaryWriter::new);
    let offsets = columns.offset.as_mut().map(|column| column.start());
    let timestamps = columns.timestamp.as_mut().map(|column| column.start());
    let sequences = columns.sequence.as_mut().map(|column| column.start());
    let start = readable.as_ptr();
    let mut position = *at;
    let mut number = 0;
    while number < count {
        // SAFETY: every record read ends at or before `end`, and READ_AHEAD bytes behind `end` are readable; so
        // are those behind `position`, which is at most `end`.
        let Some(record) = (if position < end { unsafe { Shape::read(start, position, end) } } else { None }) else {
            break;
        };
        position = record.next;
        number += 1;
        let offset = header.base_offset.wrapping_add(i64::from(record.offset_delta));
        if !wanted.contains(offset) {
            continue;
        }
        // SAFETY: the columns have room for `count` more rows, and for the bytes of all records together with
        // the pool's slack; keys and values lie inside their records, which do not overlap.
        unsafe {
            if let Some(key) = &mut key {
                key.write(row, start.add(record.key), record.key_bytes);
            }
            if let Some(value) = &mut value {
                value.write(row, start.add(record.value), record.value_bytes);
            }
            if let Some(offsets) = offsets {
                offsets.add(row).write(offset);
            }
            if let Some(timestamps) = timestamps {
                let created = micros(header.base_timestamp.wrapping_add(record.timestamp_delta));
                timestamps.add(row).write(fixed_timestamp.unwrap_or(created));
            }
            if let Some(sequences) = sequences {
                sequences.add(row).write(header.sequence(record.offset_delta));
            }
        }
        row += 1;
    }
    *at = position;
    // SAFETY: the rows up to `row` were written above.
    unsafe {
        if let Some(key) = key {
            key.finish(row);
        }
        if let Some(value) = value {
            value.finish(row);
        }
        for column in [&mut columns.offset, &mut columns.timestamp].into_iter().flatten() {
            column.set_len(row);
        }
        if let Some(column) = &mut columns.sequence {
            column.set_len(row);
        }
    }
    columns.rows = row;
    number
}

/// Where the fields of a record are.
struct Shape {
    next: usize,
    timestamp_delta: i64,
    offset_delta: i32,
    key: usize,
    key_bytes: i32,
    value: usize,
    value_bytes: i32,
}

impl Shape {
    /// The record at `at`, or None if it is not of the common shape.
    ///
    /// # Safety
    /// `at` is less than `end`, and READ_AHEAD bytes behind `end` are readable.
    #[inline(always)]
    unsafe fn read(start: *const u8, at: usize, end: usize) -> Option<Shape> {
        // SAFETY: the length, attributes, deltas and key length take 16 bytes at most; then every field is read
        // behind a key that ends at or before `next`.
        unsafe {
            let mut p = at;
            let length = varint3(start, &mut p)?;
            let next = p.wrapping_add(length as usize);
            if length < 0 || next > end {
                return None;
            }
            p += 1;
            let timestamp_delta = varlong5(start, &mut p)?;
            let offset_delta = varint3(start, &mut p)?;
            let key_bytes = varint3(start, &mut p)?;
            let key = p;
            p += key_bytes.max(0) as usize;
            if p > next {
                return None;
            }
            let value_bytes = varint3(start, &mut p)?;
            let value = p;
            p += value_bytes.max(0) as usize;
            if p + 1 != next || start.add(p).read() != 0 {
                return None;
            }
            Some(Shape { next, timestamp_delta, offset_delta, key, key_bytes, value, value_bytes })
        }
    }
}

/// A varint of at most three bytes.
///
/// # Safety
/// Three bytes are readable.
#[inline(always)]
unsafe fn varint3(start: *const u8, at: &mut usize) -> Option<i32> {
    // SAFETY: the caller's promise.
    unsafe {
        let p = start.add(*at);
        let first = u32::from(p.read());
        if first < 0x80 {
            *at += 1;
            return Some(unzigzag_i32(first));
        }
        let second = u32::from(p.add(1).read());
        if second < 0x80 {
            *at += 2;
            return Some(unzigzag_i32((first & 0x7f) | second << 7));
        }
        let third = u32::from(p.add(2).read());
        if third < 0x80 {
            *at += 3;
            return Some(unzigzag_i32((first & 0x7f) | (second & 0x7f) << 7 | third << 14));
        }
        None
    }
}

/// A varlong of at most five bytes.
///
/// # Safety
/// Five bytes are readable.
#[inline(always)]
unsafe fn varlong5(start: *const u8, at: &mut usize) -> Option<i64> {
    // SAFETY: the caller's promise.
    unsafe {
        let p = start.add(*at);
        let mut raw = 0;
        for index in 0..5 {
            let byte = u64::from(p.add(index).read());
            raw |= (byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                *at += index + 1;
                return Some(unzigzag_i64(raw));
            }
        }
        None
    }
}

/// Appends to a column of keys or values that has room.
struct BinaryWriter<'a> {
    data: *mut u8,
    data_len: usize,
    ends: *mut i32,
    column: &'a mut BinaryColumn,
}

impl<'a> BinaryWriter<'a> {
    fn new(column: &'a mut BinaryColumn) -> Self {
        // Behind Arrow's leading 0, so that a row's end is at its own index.
        let ends = column.offsets.start().wrapping_add(1);
        BinaryWriter { data: column.data.start(), data_len: column.data.len(), ends, column }
    }

    /// # Safety
    /// There is room for the row, and for its bytes and the pool's slack behind them; READ_AHEAD bytes behind
    /// the value are readable.
    #[inline(always)]
    unsafe fn write(&mut self, row: usize, value: *const u8, bytes: i32) {
        // SAFETY: the caller's promise.
        unsafe {
            if bytes < 0 {
                self.column.validity.set_null(row);
            } else {
                copy(value, self.data.add(self.data_len), bytes as usize);
                self.data_len += bytes as usize;
            }
            self.ends.add(row).write(self.data_len as i32);
        }
    }

    /// # Safety
    /// The rows before `rows` are written.
    unsafe fn finish(self, rows: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            self.column.offsets.set_len(rows + 1);
            self.column.data.set_len(self.data_len);
        }
    }
}

/// Copies `bytes` bytes and up to 31 more.
///
/// # Safety
/// So much is readable and writable, and does not overlap.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    type Register = [u8; 32];
    // SAFETY: the caller's promise.
    unsafe {
        if bytes > SHORT_COPY {
            from.copy_to_nonoverlapping(to, bytes);
            return;
        }
        let mut done = 0;
        loop {
            let register = from.add(done).cast::<Register>().read_unaligned();
            to.add(done).cast::<Register>().write_unaligned(register);
            done += size_of::<Register>();
            if done >= bytes {
                return;
            }
        }
    }
}
