//! Measure and write one record of a v2 batch (DefaultRecord.sizeInBytes, writeTo).

use super::columns::Records;
use kafka_log_format::copy::{COPY_SLACK, copy_short};
use kafka_log_format::varint::{bytes_of, write_i64};

/// How many bytes may be written after the end of a record. They mean nothing.
pub const SLACK: usize = 64;

/// The sizes of a row that do not depend on its position in a batch.
pub struct Row<'a> {
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    tail_bytes: usize,
}

impl<'a> Row<'a> {
    /// Measures a row. None: one of its headers has no key.
    #[inline(always)]
    pub fn measure(records: &Records<'a>, row: usize) -> Option<Self> {
        let (key, value) = (records.key.get(row), records.value.get(row));
        let mut tail_bytes = sized_bytes(key) + sized_bytes(value) + 1;
        if !records.headers.missing() {
            let headers = records.headers.of_row(row);
            tail_bytes += bytes_of(headers.len() as i64) - 1;
            for (name, value) in headers {
                tail_bytes += sized_bytes(Some(name?)) + sized_bytes(value);
            }
        }
        Some(Row { key, value, tail_bytes })
    }

    /// Size of key, value and headers with their lengths (DefaultRecord.sizeOf).
    pub fn content_bytes(&self) -> usize {
        self.tail_bytes
    }

    /// Size of the record without its length.
    #[inline(always)]
    pub fn body_bytes(&self, timestamp_delta: i64, offset_delta: i32) -> usize {
        1 + bytes_of(timestamp_delta) + bytes_of(offset_delta.into()) + self.tail_bytes
    }

    /// Writes the record. Returns the address of its end.
    ///
    /// # Safety
    /// There is room at `to` for the record and SLACK more bytes. `records` and `row` are those that were measured.
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
        // SAFETY: the bytes written are those counted by `body_bytes`, and a copy writes COPY_SLACK more at most.
        unsafe {
            let mut to = varint(body_bytes as i64, to);
            to.write(0); // attributes, all unused
            to = varint(timestamp_delta, to.add(1));
            to = varint(offset_delta.into(), to);
            to = sized(self.key, |key| records.key.extended(key, COPY_SLACK), to);
            to = sized(self.value, |value| records.value.extended(value, COPY_SLACK), to);
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

/// Writes a length and bytes. `extended` returns the same bytes and at least COPY_SLACK more, or None.
///
/// # Safety
/// There is room for the bytes, their length, and COPY_SLACK more.
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
            Some(extended) => copy_short(extended.as_ptr(), to, bytes.len()),
            None => bytes.as_ptr().copy_to_nonoverlapping(to, bytes.len()),
        }
        to.add(bytes.len())
    }
}
