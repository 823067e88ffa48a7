//! One record of a v2 batch: how long it is, and its bytes (DefaultRecord.sizeInBytes, writeTo).

use super::columns::Records;
use kafka_log_format::varint::{bytes_of, write_i64};
use kafka_log_format::wide::copy;

/// Bytes that may be written behind a record's end (and mean nothing).
pub const SLACK: usize = 64;
/// Bytes that a copy may read behind what it copies.
const READ_AHEAD: usize = 32;

/// A row, measured: what does not depend on where in a batch it comes to lie.
pub struct Row<'a> {
    pub timestamp: i64,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    tail_bytes: usize,
}

impl<'a> Row<'a> {
    /// None: one of its headers has no name.
    #[inline(always)]
    pub fn measure(records: &Records<'a>, row: usize, timestamp: i64) -> Option<Self> {
        let (key, value) = (records.key.get(row), records.value.get(row));
        let mut tail_bytes = sized_bytes(key) + sized_bytes(value) + 1;
        if !records.headers.missing() {
            let headers = records.headers.of_row(row);
            tail_bytes += bytes_of(headers.len() as i64) - 1;
            for (name, value) in headers {
                tail_bytes += sized_bytes(Some(name?)) + sized_bytes(value);
            }
        }
        Some(Row { timestamp, key, value, tail_bytes })
    }

    /// Key, value and headers, with their lengths (DefaultRecord.sizeOf).
    pub fn content_bytes(&self) -> usize {
        self.tail_bytes
    }

    /// Bytes behind the record's length.
    #[inline(always)]
    pub fn body_bytes(&self, timestamp_delta: i64, offset_delta: i32) -> usize {
        1 + bytes_of(timestamp_delta) + bytes_of(offset_delta.into()) + self.tail_bytes
    }

    /// Writes the record; where it ends.
    ///
    /// # Safety
    /// At `to` there is room for it and SLACK more bytes. `row` and `records` are those it was measured by.
    #[inline(always)]
    pub unsafe fn write(
        &self,
        records: &Records<'a>,
        row: usize,
        timestamp_delta: i64,
        offset_delta: i32,
        to: *mut u8,
    ) -> *mut u8 {
        let body_bytes = self.body_bytes(timestamp_delta, offset_delta);
        // SAFETY: the bytes written are those counted by `body_bytes`, and a copy writes READ_AHEAD more at most.
        unsafe {
            let mut to = varint(body_bytes as i64, to);
            to.write(0); // attributes, of which none is in use
            to = varint(timestamp_delta, to.add(1));
            to = varint(offset_delta.into(), to);
            to = sized(self.key, |key| records.key.extended(key, READ_AHEAD), to);
            to = sized(self.value, |value| records.value.extended(value, READ_AHEAD), to);
            if records.headers.missing() {
                to.write(0);
                return to.add(1);
            }
            let headers = records.headers.of_row(row);
            to = varint(headers.len() as i64, to);
            for (name, value) in headers {
                to = sized(name, |_| None, to);
                to = sized(value, |_| None, to);
            }
            to
        }
    }
}

#[inline(always)]
fn sized_bytes(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| bytes_of(bytes.len() as i64) + bytes.len())
}

/// # Safety
/// Ten bytes can be written at `to`.
#[inline(always)]
unsafe fn varint(value: i64, to: *mut u8) -> *mut u8 {
    let raw = (value << 1 ^ value >> 63) as u64;
    // SAFETY: the caller's promise.
    unsafe {
        if raw < 1 << 7 {
            to.write(raw as u8);
            return to.add(1);
        }
        if raw < 1 << 14 {
            to.cast::<[u8; 2]>().write([raw as u8 | 0x80, (raw >> 7) as u8]);
            return to.add(2);
        }
        to.add(write_i64(value, std::slice::from_raw_parts_mut(to, 10)))
    }
}

/// Writes bytes behind their length. `extended`: the same bytes and at least READ_AHEAD more, or None.
///
/// # Safety
/// There is room for the bytes, their length, and READ_AHEAD more.
#[inline(always)]
unsafe fn sized<'a>(bytes: Option<&'a [u8]>, extended: impl Fn(&'a [u8]) -> Option<&'a [u8]>, to: *mut u8) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(bytes) = bytes else {
            to.write(1); // -1
            return to.add(1);
        };
        let to = varint(bytes.len() as i64, to);
        match extended(bytes) {
            Some(extended) => copy(extended.as_ptr(), to, bytes.len()),
            None => bytes.as_ptr().copy_to_nonoverlapping(to, bytes.len()),
        }
        to.add(bytes.len())
    }
}
