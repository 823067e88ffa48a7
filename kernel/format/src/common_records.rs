//! The fast reader of v2 records. It reads records of the common shape only: their lengths take few bytes, and what it
//! does not read itself (every other shape, and damage) it leaves to the careful reader in `v2`.

use std::mem::MaybeUninit;

use crate::conditions::RecordConditions;
use crate::header::V2Header;
use crate::record::Record;
use crate::selection::OffsetRange;
use crate::varint::{unzigzag_i32, unzigzag_i64};

/// How many bytes after a record's end may be read: the reader looks at a few, and a copy of a key or a value may take
/// up to COPY_SLACK too many.
const READ_AHEAD: usize = crate::codec::SLACK;

/// The records of a batch that were not read yet.
pub struct CommonRecords<'a> {
    header: &'a V2Header,
    /// All records of the batch, decompressed. Bytes that mean nothing may follow them.
    readable: &'a [u8],
    section_bytes: usize,
    /// Records that end at or before this index are read here: READ_AHEAD bytes after it are readable.
    end: usize,
    range: OffsetRange,
    conditions: Option<&'a RecordConditions>,
    /// Index of the next record.
    pub(crate) position: usize,
    /// How many records are left.
    pub(crate) left: usize,
}

/// A record of the common shape. At least COPY_SLACK bytes after its key and its value are readable.
#[derive(Clone, Copy)]
pub struct CommonRecord {
    timestamp_delta: i64,
    key: *const u8,
    value: *const u8,
    offset_delta: i32,
    key_bytes: i32,
    value_bytes: i32,
}

/// How many records are read before they are appended. They take 2.5 KB, a small part of the first-level cache.
const BLOCK: usize = 64;

type Block = [MaybeUninit<CommonRecord>; BLOCK];

impl CommonRecord {
    #[inline(always)]
    pub fn offset(&self, header: &V2Header) -> i64 {
        header.base_offset.wrapping_add(i64::from(self.offset_delta))
    }

    #[inline(always)]
    pub fn timestamp_ms(&self, header: &V2Header) -> i64 {
        header.timestamp_of(self.timestamp_delta)
    }

    #[inline(always)]
    pub fn sequence(&self, header: &V2Header) -> i32 {
        header.sequence(self.offset_delta)
    }

    /// The fields of the record.
    ///
    /// # Safety
    /// The bytes of the batch, whose header this is, live as long as the result.
    #[inline(always)]
    pub unsafe fn record<'a>(&self, header: &V2Header) -> Record<'a> {
        // SAFETY: key and value are parts of the batch.
        let bytes = |start: *const u8, bytes: i32| unsafe {
            usize::try_from(bytes).ok().map(|bytes| std::slice::from_raw_parts(start, bytes))
        };
        Record {
            key: bytes(self.key, self.key_bytes),
            value: bytes(self.value, self.value_bytes),
            offset: self.offset(header),
            timestamp_ms: self.timestamp_ms(header),
            sequence: self.sequence(header),
        }
    }

    /// The address of the key and its length, which is negative for null.
    #[inline(always)]
    pub fn key(&self) -> (*const u8, i32) {
        (self.key, self.key_bytes)
    }

    /// The address of the value and its length, which is negative for null.
    #[inline(always)]
    pub fn value(&self) -> (*const u8, i32) {
        (self.value, self.value_bytes)
    }
}

impl<'a> CommonRecords<'a> {
    /// `count` records in the first `section_bytes` bytes, each of at least seven bytes.
    pub(crate) fn new(
        header: &'a V2Header,
        readable: &'a [u8],
        section_bytes: usize,
        count: usize,
        range: OffsetRange,
        conditions: Option<&'a RecordConditions>,
    ) -> Self {
        let end = section_bytes.min(readable.len().saturating_sub(READ_AHEAD));
        CommonRecords { header, readable, section_bytes, end, range, conditions, position: 0, left: count }
    }

    /// The header of the batch.
    pub fn header(&self) -> &'a V2Header {
        self.header
    }

    /// How many records are left.
    pub fn left(&self) -> usize {
        self.left
    }

    /// How many bytes the records take that are left.
    pub fn left_bytes(&self) -> usize {
        self.section_bytes - self.position
    }

    /// Calls `append` with blocks of records, up to the first record that is not of the common shape. Records outside the
    /// range are left out, and so are those that do not meet the conditions. With HEADERS, records with headers are of the
    /// common shape, too; their headers are skipped.
    #[inline(always)]
    pub fn for_each_block<const HEADERS: bool>(&mut self, mut append: impl FnMut(&[CommonRecord])) {
        let mut block = [const { MaybeUninit::uninit() }; BLOCK];
        loop {
            let records = self.read::<HEADERS>(&mut block);
            if records.is_empty() {
                return;
            }
            append(self.select(records));
        }
    }

    /// Reads the next records, none if the next one is not of the common shape.
    #[inline(always)]
    fn read<'b, const HEADERS: bool>(&mut self, block: &'b mut Block) -> &'b mut [CommonRecord] {
        let most = self.left.min(BLOCK);
        let mut count = 0;
        // SAFETY: a record is read if it begins before the end, and `count` records were written.
        unsafe {
            let start = self.readable.as_ptr();
            let (mut at, end) = (start.add(self.position), start.add(self.end));
            while count < most && at < end {
                let Some((record, next)) = record::<HEADERS>(at, end) else { break };
                block.get_unchecked_mut(count).write(record);
                count += 1;
                at = next;
            }
            self.position = at.offset_from_unsigned(start);
            self.left -= count;
            std::slice::from_raw_parts_mut(block.as_mut_ptr().cast(), count)
        }
    }

    /// Moves the records that are in the range and meet the conditions to the front, and returns them.
    #[inline(always)]
    fn select<'b>(&self, records: &'b mut [CommonRecord]) -> &'b [CommonRecord] {
        if self.conditions.is_none() && self.contains_all(records) {
            return records;
        }
        let mut selected = 0;
        for index in 0..records.len() {
            let record = records[index];
            // SAFETY: the bytes of the batch outlive the call.
            let meets = |conditions: &RecordConditions| conditions.matches(&unsafe { record.record(self.header) }, &[]);
            if self.range.contains(record.offset(self.header)) && self.conditions.is_none_or(meets) {
                records[selected] = record;
                selected += 1;
            }
        }
        &records[..selected]
    }

    /// Whether the range is known to contain the offsets of all records.
    #[inline(always)]
    fn contains_all(&self, records: &[CommonRecord]) -> bool {
        // No delta is greater than all of them or-ed. If one is negative, so is this.
        let deltas = records.iter().fold(0, |deltas, record| deltas | record.offset_delta);
        let first = self.header.base_offset;
        let last = first.checked_add(i64::from(deltas));
        deltas >= 0 && self.range.contains(first) && last.is_some_and(|last| self.range.contains(last))
    }
}

/// The record at `at` and the address of the next one, or None if the record is not of the common shape.
///
/// # Safety
/// `at` is below `end`, after which READ_AHEAD bytes are readable.
#[inline(always)]
unsafe fn record<const HEADERS: bool>(at: *const u8, end: *const u8) -> Option<(CommonRecord, *const u8)> {
    // SAFETY: length, attributes, deltas and key length take 15 bytes at most, of READ_AHEAD; what follows the
    // key is read only if the key ends at or before `next`, which is at most `end`.
    unsafe {
        let mut p = at;
        let length = varint(&mut p)?;
        let next = p.wrapping_offset(length as isize);
        if length < 0 || next > end {
            return None;
        }
        p = p.add(1); // attributes, all unused
        let timestamp_delta = varlong(&mut p)?;
        let offset_delta = varint(&mut p)?;
        let key_bytes = varint(&mut p)?;
        let key = p;
        p = p.wrapping_add(key_bytes.max(0) as usize);
        if p > next {
            return None;
        }
        let value_bytes = varint(&mut p)?;
        let value = p;
        p = p.wrapping_add(value_bytes.max(0) as usize);
        // Without headers, one byte is left for their count, and it is 0.
        let ends = if HEADERS { p < next && headers_fill(p, next) } else { p.wrapping_add(1) == next && p.read() == 0 };
        if !ends {
            return None;
        }
        Some((CommonRecord { timestamp_delta, key, value, offset_delta, key_bytes, value_bytes }, next))
    }
}

/// Whether a header count and so many headers of the common shape fill the bytes from `at` to `end` exactly.
///
/// # Safety
/// `at` is below `end`, after which READ_AHEAD bytes are readable.
#[inline(always)]
unsafe fn headers_fill(mut at: *const u8, end: *const u8) -> bool {
    // SAFETY: every length is read at `end` or before, but for the first name's, which may begin two bytes later.
    unsafe {
        let Some(count @ 0..) = varint(&mut at) else { return false };
        for _ in 0..count {
            let Some(name_bytes @ 0..) = varint(&mut at) else { return false };
            at = at.wrapping_add(name_bytes as usize);
            if at >= end {
                return false;
            }
            let Some(value_bytes) = varint(&mut at) else { return false };
            at = at.wrapping_add(value_bytes.max(0) as usize);
            if at > end {
                return false;
            }
        }
    }
    at == end
}

/// A varint of at most three bytes.
///
/// # Safety
/// Three bytes are readable.
#[inline(always)]
unsafe fn varint(at: &mut *const u8) -> Option<i32> {
    // SAFETY: the caller's promise.
    unsafe {
        let p = *at;
        let first = u32::from(p.read());
        if first < 0x80 {
            *at = p.add(1);
            return Some(unzigzag_i32(first));
        }
        let second = u32::from(p.add(1).read());
        if second < 0x80 {
            *at = p.add(2);
            return Some(unzigzag_i32((first & 0x7f) | second << 7));
        }
        let third = u32::from(p.add(2).read());
        if third < 0x80 {
            *at = p.add(3);
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
unsafe fn varlong(at: &mut *const u8) -> Option<i64> {
    let mut raw = 0;
    for index in 0..5 {
        // SAFETY: the caller's promise.
        let byte = u64::from(unsafe { at.add(index).read() });
        raw |= (byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *at = at.wrapping_add(index + 1);
            return Some(unzigzag_i64(raw));
        }
    }
    None
}
