//! The fast reader of v2 records: one pass, short varints by hand, whole registers copied where a few bytes too many do
//! no harm. It reads the common shape only (lengths of a few bytes, no headers to keep) and leaves everything else,
//! damage included, to the careful reader.

use crate::columns::{BinaryColumn, RecordColumns, micros};
use crate::header::V2Header;
use crate::memory::prefetch;
use crate::selection::OffsetRange;
use crate::varint::{unzigzag_i32, unzigzag_i64};

/// How far behind a record's end the reader may read: its header count and what a copy takes too many.
const READ_AHEAD: usize = crate::codec::SLACK;
/// Longer copies are left to memcpy.
const SHORT_COPY: usize = 512;
const CACHE_LINE: usize = 64;
/// How far ahead of where keys and values are written their memory is asked for: a column is larger than the cache that
/// could be written to without waiting.
const WRITE_AHEAD: usize = 1024;

/// Reads at most `count` records from `at` on, moves it behind them, and says how many they were. The columns have room
/// for `count` records and all bytes of the section.
pub fn records(section: &Section, at: &mut usize, count: usize, columns: &mut RecordColumns) -> usize {
    let number = read_without_headers(section, at, count, columns);
    if number == count || columns.headers.is_some() {
        return number;
    }
    number + read_with_headers(section, at, count - number, columns)
}

/// A loop of its own for each set of columns: what is not asked for costs not even a branch.
fn read_without_headers(section: &Section, at: &mut usize, count: usize, columns: &mut RecordColumns) -> usize {
    let numbers = columns.offset.is_some() || columns.timestamp.is_some() || columns.sequence.is_some();
    let read = match (columns.key.is_some(), columns.value.is_some(), numbers) {
        (true, true, true) => read::<true, true, true, false>,
        (true, true, false) => read::<true, true, false, false>,
        (true, false, true) => read::<true, false, true, false>,
        (true, false, false) => read::<true, false, false, false>,
        (false, true, true) => read::<false, true, true, false>,
        (false, true, false) => read::<false, true, false, false>,
        (false, false, true) => read::<false, false, true, false>,
        (false, false, false) => read::<false, false, false, false>,
    };
    read(section, at, count, columns)
}

/// For records some of which have headers that nobody asked for.
fn read_with_headers(section: &Section, at: &mut usize, count: usize, columns: &mut RecordColumns) -> usize {
    let read = match (columns.key.is_some(), columns.value.is_some()) {
        (true, true) => read::<true, true, true, true>,
        (true, false) => read::<true, false, true, true>,
        (false, true) => read::<false, true, true, true>,
        (false, false) => read::<false, false, true, true>,
    };
    read(section, at, count, columns)
}

fn read<const KEY: bool, const VALUE: bool, const NUMBERS: bool, const HEADERS: bool>(
    section: &Section,
    at: &mut usize,
    count: usize,
    columns: &mut RecordColumns,
) -> usize {
    let header = section.header;
    let start = section.readable.as_ptr();
    let log_append_time = header.log_append_time().then_some(micros(header.max_timestamp));
    let (mut row, mut number, mut position) = (columns.rows, 0, *at);
    let mut key = BinaryWriter::new(columns.key.as_mut());
    let mut value = BinaryWriter::new(columns.value.as_mut());
    let offsets = columns.offset.as_mut().map(|column| column.start());
    let timestamps = columns.timestamp.as_mut().map(|column| column.start());
    let sequences = columns.sequence.as_mut().map(|column| column.start());
    while number < count && position < section.end {
        // SAFETY: the position is below the section's end.
        let Some((shape, next)) = (unsafe { section.shape::<HEADERS>(position) }) else { break };
        position = next;
        number += 1;
        let offset = header.base_offset.wrapping_add(i64::from(shape.offset_delta));
        if !section.wanted.contains(offset) {
            continue;
        }
        // SAFETY: the columns have room for `count` rows, and for the bytes of all records: keys and values are parts
        // of records, and those do not overlap. READ_AHEAD bytes behind the section's end are readable.
        unsafe {
            if KEY {
                key.write(row, start.add(shape.key), shape.key_bytes);
            }
            if VALUE {
                value.write(row, start.add(shape.value), shape.value_bytes);
            }
            if NUMBERS {
                if let Some(offsets) = offsets {
                    offsets.add(row).write(offset);
                }
                if let Some(timestamps) = timestamps {
                    let create_time = micros(header.base_timestamp.wrapping_add(shape.timestamp_delta));
                    timestamps.add(row).write(log_append_time.unwrap_or(create_time));
                }
                if let Some(sequences) = sequences {
                    sequences.add(row).write(header.sequence(shape.offset_delta));
                }
            }
        }
        row += 1;
    }
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
    *at = position;
    number
}

/// The records of a batch: of those, the ones that end at or before `end`, behind which READ_AHEAD bytes are readable.
pub struct Section<'a> {
    header: &'a V2Header,
    readable: &'a [u8],
    end: usize,
    wanted: OffsetRange,
}

impl<'a> Section<'a> {
    /// Of the first `bytes` bytes.
    pub fn new(header: &'a V2Header, readable: &'a [u8], bytes: usize, wanted: OffsetRange) -> Self {
        Section { header, readable, end: bytes.min(readable.len().saturating_sub(READ_AHEAD)), wanted }
    }
}

/// Where the fields of a record are, and what its header deltas say.
struct Shape {
    timestamp_delta: i64,
    offset_delta: i32,
    key: usize,
    key_bytes: i32,
    value: usize,
    value_bytes: i32,
}

impl Section<'_> {
    /// The record at `at` and where the next one is, or None if it is not of the common shape.
    ///
    /// # Safety
    /// `at` is below `end`.
    #[inline(always)]
    unsafe fn shape<const HEADERS: bool>(&self, at: usize) -> Option<(Shape, usize)> {
        let start = self.readable.as_ptr();
        // SAFETY: length, attributes, deltas and key length take 15 bytes at most, of READ_AHEAD; what is behind the
        // key is read only if the key ends at or before `next`, which is at most `end`.
        unsafe {
            let mut p = at;
            let length = varint(start, &mut p)?;
            let next = p.wrapping_add(length as usize);
            if length < 0 || next > self.end {
                return None;
            }
            p += 1; // attributes, of which none is in use
            let timestamp_delta = varlong(start, &mut p)?;
            let offset_delta = varint(start, &mut p)?;
            let key_bytes = varint(start, &mut p)?;
            let key = p;
            p += key_bytes.max(0) as usize;
            if p > next {
                return None;
            }
            let value_bytes = varint(start, &mut p)?;
            let value = p;
            p += value_bytes.max(0) as usize;
            // With no headers, one byte is left for their count, and it is 0.
            let ends = if HEADERS {
                p < next && self.headers_fill(p, next)
            } else {
                p + 1 == next && start.add(p).read() == 0
            };
            if !ends {
                return None;
            }
            Some((Shape { timestamp_delta, offset_delta, key, key_bytes, value, value_bytes }, next))
        }
    }

    /// Whether a header count and so many headers of the common shape fill the bytes from `at` to `end` exactly.
    ///
    /// # Safety
    /// `at` is below `end`, behind which READ_AHEAD bytes are readable.
    #[inline(always)]
    unsafe fn headers_fill(&self, mut at: usize, end: usize) -> bool {
        let start = self.readable.as_ptr();
        // SAFETY: every length is read at `end` or before, but for the first name's, which may begin two bytes later.
        unsafe {
            let Some(count @ 0..) = varint(start, &mut at) else { return false };
            for _ in 0..count {
                let Some(name_bytes @ 0..) = varint(start, &mut at) else { return false };
                at += name_bytes as usize;
                if at >= end {
                    return false;
                }
                let Some(value_bytes) = varint(start, &mut at) else { return false };
                at += value_bytes.max(0) as usize;
                if at > end {
                    return false;
                }
            }
        }
        at == end
    }
}

/// A varint of at most three bytes.
///
/// # Safety
/// Three bytes are readable.
#[inline(always)]
unsafe fn varint(start: *const u8, at: &mut usize) -> Option<i32> {
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
unsafe fn varlong(start: *const u8, at: &mut usize) -> Option<i64> {
    let mut raw = 0;
    for index in 0..5 {
        // SAFETY: the caller's promise.
        let byte = u64::from(unsafe { start.add(*at + index).read() });
        raw |= (byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *at += index + 1;
            return Some(unzigzag_i64(raw));
        }
    }
    None
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
        BinaryWriter { data, data_bytes: column.as_ref().map_or(0, |column| column.data.len()), ends, column }
    }

    /// # Safety
    /// There is a column, with room for the row and its bytes; READ_AHEAD bytes behind the value are readable.
    #[inline(always)]
    unsafe fn write(&mut self, row: usize, value: *const u8, bytes: i32) {
        // SAFETY: the caller's promise. The pool has 64 bytes behind what was reserved.
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

/// Copies `bytes` bytes and up to 32 more.
///
/// # Safety
/// So much is readable and writable, and does not overlap.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if bytes > SHORT_COPY {
            from.copy_to_nonoverlapping(to, bytes);
            return;
        }
        let mut done = 0;
        loop {
            // Two registers of 16 bytes. (The compiler makes a call of memcpy out of a loop over arrays.)
            let first = from.add(done).cast::<Register>().read_unaligned();
            let second = from.add(done + 16).cast::<Register>().read_unaligned();
            to.add(done).cast::<Register>().write_unaligned(first);
            to.add(done + 16).cast::<Register>().write_unaligned(second);
            done += 32;
            if done >= bytes {
                return;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
type Register = std::arch::x86_64::__m128i;
#[cfg(not(target_arch = "x86_64"))]
type Register = u128;
