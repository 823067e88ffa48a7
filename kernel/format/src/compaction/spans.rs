//! The records of a v2 batch as the positions of their fields. Nothing is copied, and values are not read.

use crate::damage::Fault;
use crate::header::V2Header;
use crate::v2;
use crate::varint::{unzigzag_i32, unzigzag_i64};

/// The position of one record in its section, and its fields.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Index of its length.
    pub start: u32,
    /// Index of the length of its key, which follows the deltas.
    pub tail: u32,
    pub end: u32,
    pub key: u32,
    /// Negative: null.
    pub key_bytes: i32,
    pub value: u32,
    pub value_bytes: i32,
    pub offset_delta: i32,
    pub timestamp_delta: i64,
    /// Whether the bytes are known to be the only encoding of these fields: every varint is as short as possible.
    pub canonical: bool,
    pub has_headers: bool,
}

impl Span {
    #[inline(always)]
    pub fn offset(&self, header: &V2Header) -> i64 {
        header.base_offset.wrapping_add(i64::from(self.offset_delta))
    }

    pub fn key<'a>(&self, section: &'a [u8]) -> Option<&'a [u8]> {
        field(section, self.key, self.key_bytes)
    }

    pub fn value<'a>(&self, section: &'a [u8]) -> Option<&'a [u8]> {
        field(section, self.value, self.value_bytes)
    }

    /// The bytes of the headers, including their count.
    pub fn headers<'a>(&self, section: &'a [u8]) -> &'a [u8] {
        &section[self.value as usize + self.value_bytes.max(0) as usize..self.end as usize]
    }
}

#[inline(always)]
fn field(section: &[u8], at: u32, bytes: i32) -> Option<&[u8]> {
    usize::try_from(bytes).ok().map(|bytes| &section[at as usize..at as usize + bytes])
}

/// Calls `visit` for each record of a batch, in order. Before a fault, it may be called for some of them.
#[inline(always)]
pub fn for_each(header: &V2Header, section: &[u8], mut visit: impl FnMut(Span)) -> Result<(), Fault> {
    let count = v2::check_counts(header, section.len())?;
    let mut at = 0;
    for number in 0..count {
        let span = match common(section, at) {
            Some(span) => span,
            None => careful(header, section, at, number, count)?,
        };
        at = span.end as usize;
        visit(span);
    }
    match section.len() - at {
        0 => Ok(()),
        left => {
            Err(Fault::records(format!("expected the end of the batch after {count} records, found {left} more bytes")))
        }
    }
}

/// Reads a record of the common shape: short canonical varints, no headers. None for other shapes and for damage.
#[inline(always)]
fn common(section: &[u8], start: usize) -> Option<Span> {
    let mut at = start;
    let length = unzigzag_i32(short_varint(section, &mut at)?);
    let end = at.checked_add(usize::try_from(length).ok()?)?;
    if end > section.len() || section.get(at) != Some(&0) {
        return None;
    }
    at += 1;
    let timestamp_delta = varlong(section, &mut at)?;
    let offset_delta = unzigzag_i32(short_varint(section, &mut at)?);
    let tail = at;
    let key_bytes = unzigzag_i32(short_varint(section, &mut at)?);
    let key = at;
    at += key_bytes.max(0) as usize;
    let value_bytes = unzigzag_i32(short_varint(section, &mut at)?);
    let value = at;
    at += value_bytes.max(0) as usize;
    // The number of headers takes the last byte.
    if at + 1 != end || section[at] != 0 || key_bytes < -1 || value_bytes < -1 {
        return None;
    }
    Some(Span {
        start: start as u32,
        tail: tail as u32,
        end: end as u32,
        key: key as u32,
        key_bytes,
        value: value as u32,
        value_bytes,
        offset_delta,
        timestamp_delta,
        canonical: true,
        has_headers: false,
    })
}

/// Reads a canonical varint of at most three bytes, without undoing zigzag.
#[inline(always)]
fn short_varint(section: &[u8], at: &mut usize) -> Option<u32> {
    let first = u32::from(*section.get(*at)?);
    if first < 0x80 {
        *at += 1;
        return Some(first);
    }
    let second = u32::from(*section.get(*at + 1)?);
    if second < 0x80 {
        *at += 2;
        return (second != 0).then_some(first & 0x7f | second << 7);
    }
    let third = u32::from(*section.get(*at + 2)?);
    *at += 3;
    (third < 0x80 && third != 0).then_some(first & 0x7f | (second & 0x7f) << 7 | third << 14)
}

/// Reads a canonical varlong.
#[inline(always)]
fn varlong(section: &[u8], at: &mut usize) -> Option<i64> {
    let mut raw = 0;
    for shift in [0, 7, 14, 21, 28, 35] {
        let byte = u64::from(*section.get(*at)?);
        *at += 1;
        raw |= (byte & 0x7f) << shift;
        if byte < 0x80 {
            return (byte != 0 || shift == 0).then_some(unzigzag_i64(raw));
        }
    }
    None
}

/// Reads a record of any legal shape.
#[cold]
fn careful(header: &V2Header, section: &[u8], start: usize, number: usize, count: usize) -> Result<Span, Fault> {
    let mut headers = Vec::new();
    let mut at = start;
    let body = v2::record_body(section, &mut at, number, count)?;
    v2::parse(body, header, &mut headers)
        .map_err(|what| Fault::records(format!("record {number} of {count}: {what}")))?;
    // Reads the same fields again for their positions. They are known to be valid.
    let mut fields = v2::Fields { body, at: 1 };
    let begins = at - body.len();
    let timestamp_delta = crate::varint::read_i64(body, &mut fields.at).unwrap_or_default();
    let varint = |fields: &mut v2::Fields| crate::varint::read_i32(body, &mut fields.at).unwrap_or_default();
    let offset_delta = varint(&mut fields);
    let tail = fields.at;
    let key_bytes = varint(&mut fields);
    let key = fields.at;
    fields.at += key_bytes.max(0) as usize;
    let value_bytes = varint(&mut fields);
    let value = fields.at;
    Ok(Span {
        start: start as u32,
        tail: (begins + tail) as u32,
        end: at as u32,
        key: (begins + key) as u32,
        key_bytes,
        value: (begins + value) as u32,
        value_bytes,
        offset_delta,
        timestamp_delta,
        canonical: false,
        has_headers: !headers.is_empty(),
    })
}
