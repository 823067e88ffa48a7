//! The records of a v2 batch (Kafka 0.11 and later; DefaultRecordBatch, DefaultRecord).
//!
//! Two readers read this format. The careful one, here, reads every legal shape and says what is wrong with an illegal
//! one. The fast one, in `common_records`, reads the shape that nearly every record has.

use crate::codec::{Codec, Decompressor, SLACK};
use crate::common_records::CommonRecords;
use crate::conditions::RecordConditions;
use crate::damage::Fault;
use crate::header::{V2_HEADER, V2Header};
use crate::record::{Record, RecordHeader};
use crate::selection::OffsetRange;
use crate::sink::RecordSink;
use crate::varint::{read_i32, read_i64};

/// Size of the smallest record: length, attributes, two deltas, key length, value length and header count, one byte each.
const SMALLEST_RECORD: usize = 7;

/// Appends the records of a batch that are in `range` and meet the conditions to `sink`. With a fault, some of them may have been appended.
///
/// `readable` begins with the `section_bytes` bytes of records, decompressed. Bytes that mean nothing may follow them.
pub fn read_records<S: RecordSink>(
    header: &V2Header,
    readable: &[u8],
    section_bytes: usize,
    range: OffsetRange,
    conditions: Option<&RecordConditions>,
    sink: &mut S,
) -> Result<(), Fault> {
    let section = &readable[..section_bytes];
    let count = check_counts(header, section_bytes)?;
    let mut headers = Vec::new();
    let mut records = CommonRecords::new(header, readable, section_bytes, count, range, conditions);
    let skips_headers = !conditions.is_some_and(RecordConditions::needs_headers);
    while records.left > 0 {
        if skips_headers {
            sink.append_common(&mut records);
        }
        if records.left == 0 {
            break;
        }
        // A record that is not of the common shape, or damaged, or too near to the end of what is readable.
        let number = count - records.left;
        let body = record_body(section, &mut records.position, number, count)?;
        let record = parse(body, header, &mut headers)
            .map_err(|what| Fault::records(format!("record {number} of {count}: {what}")))?;
        if range.contains(record.offset) && conditions.is_none_or(|conditions| conditions.matches(&record, &headers)) {
            sink.append(&record, &headers);
        }
        records.left -= 1;
    }
    match records.left_bytes() {
        0 => Ok(()),
        left => {
            Err(Fault::records(format!("expected the end of the batch after {count} records, found {left} more bytes")))
        }
    }
}

/// The records of a batch, decompressed: bytes that begin with them, and their size. Bytes that mean nothing may follow.
///
/// `batch` begins with the batch, which has `total` bytes.
pub fn section<'a>(
    header: &V2Header,
    batch: &'a [u8],
    total: usize,
    decompressor: &'a mut Decompressor,
    max_batch_bytes: usize,
) -> Result<(&'a [u8], usize), Fault> {
    match header.codec() {
        Codec::None => Ok((&batch[V2_HEADER..], total - V2_HEADER)),
        codec => {
            let readable = decompressor.decompress(codec, 2, &batch[V2_HEADER..total], max_batch_bytes)?;
            Ok((readable, readable.len() - SLACK))
        }
    }
}

/// The number of records, if the section can contain so many.
pub(crate) fn check_counts(header: &V2Header, section_bytes: usize) -> Result<usize, Fault> {
    if header.last_offset_delta < 0 {
        let message = format!("expected a last offset delta of 0 or more, found {}", header.last_offset_delta);
        return Err(Fault::records(message));
    }
    let most = section_bytes / SMALLEST_RECORD;
    usize::try_from(header.record_count).ok().filter(|&count| count <= most).ok_or_else(|| {
        let count = header.record_count;
        Fault::records(format!(
            "expected 0 to {most} records in {section_bytes} bytes, found a record count of {count}"
        ))
    })
}

/// The body of the record at `at`. Moves `at` to the next record.
#[inline]
pub(crate) fn record_body<'a>(
    section: &'a [u8],
    at: &mut usize,
    number: usize,
    count: usize,
) -> Result<&'a [u8], Fault> {
    let length = read_i32(section, at).ok_or_else(|| {
        Fault::records(format!(
            "expected a varint as length of record {number} of {count}, found a truncated or longer one"
        ))
    })?;
    let left = section.len() - *at;
    let body = usize::try_from(length).ok().and_then(|length| section[*at..].get(..length)).ok_or_else(|| {
        Fault::records(format!("expected {length} bytes of record {number} of {count}, found {left}"))
    })?;
    *at += body.len();
    Ok(body)
}

/// Reads the fields of one record, which must fill its body exactly.
#[inline]
pub(crate) fn parse<'a>(
    body: &'a [u8],
    batch: &V2Header,
    headers: &mut Vec<RecordHeader<'a>>,
) -> Result<Record<'a>, String> {
    headers.clear();
    let mut fields = Fields { body, at: 1 }; // after the attributes, which are all unused
    let timestamp_delta = read_i64(body, &mut fields.at)
        .ok_or("expected a varlong as timestamp delta, found a truncated or longer one")?;
    let offset_delta = fields.varint("offset delta")?;
    let key = fields.nullable("key")?;
    let value = fields.nullable("value")?;
    let count = fields.varint("header count")?;
    if count < 0 || count as usize > fields.left() {
        return Err(format!("expected a header count of 0 to {}, found {count}", fields.left()));
    }
    for _ in 0..count {
        let name = fields.nullable("header key")?.ok_or("expected a header key, found null")?;
        headers.push((name, fields.nullable("header value")?));
    }
    if fields.left() != 0 {
        return Err(format!("expected a record of {} bytes by its fields, found {}", fields.at, body.len()));
    }
    Ok(Record {
        key,
        value,
        offset: batch.base_offset.wrapping_add(i64::from(offset_delta)),
        timestamp_ms: batch.timestamp_of(timestamp_delta),
        sequence: batch.sequence(offset_delta),
    })
}

/// Reads the fields of a record one by one.
pub(crate) struct Fields<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Fields<'a> {
    fn left(&self) -> usize {
        self.body.len().saturating_sub(self.at)
    }

    #[inline]
    fn varint(&mut self, what: &str) -> Result<i32, String> {
        read_i32(self.body, &mut self.at)
            .ok_or_else(|| format!("expected a varint as {what}, found a truncated or longer one"))
    }

    /// Reads a length and bytes. A negative length means null.
    #[inline]
    fn nullable(&mut self, what: &str) -> Result<Option<&'a [u8]>, String> {
        let length = read_i32(self.body, &mut self.at)
            .ok_or_else(|| format!("expected a varint as length of the {what}, found a truncated or longer one"))?;
        let Ok(length) = usize::try_from(length) else { return Ok(None) };
        let bytes = self.body.get(self.at..).and_then(|rest| rest.get(..length));
        let bytes = bytes.ok_or_else(|| format!("expected a {what} of {length} bytes, found {}", self.left()))?;
        self.at += length;
        Ok(Some(bytes))
    }
}
