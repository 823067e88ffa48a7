//! Messages of formats v0 and v1 (before Kafka 0.11), alone or compressed in a wrapper (LegacyRecord,
//! AbstractLegacyRecordBatch).

use crate::big_endian::i32_at;
use crate::conditions::RecordConditions;
use crate::damage::Fault;
use crate::header::{LegacyHeader, MAGIC_AT, MIN_SIZE, PREFIX_BYTES, V0_SMALLEST, V1_SMALLEST};
use crate::record::Record;
use crate::selection::OffsetRange;
use crate::sink::RecordSink;

/// Bytes, or null.
type Nullable<'a> = Option<&'a [u8]>;

/// Key and value of a message, which must fill the message exactly. A negative length means null.
pub fn key_and_value<'a>(header: &LegacyHeader, message: &'a [u8]) -> Result<(Nullable<'a>, Nullable<'a>), Fault> {
    let mut rest = &message[header.header_bytes()..];
    let key = nullable(&mut rest, "key")?;
    let value = nullable(&mut rest, "value")?;
    match rest.len() {
        0 => Ok((key, value)),
        left => Err(Fault::records(format!("expected the end of a message after its value, found {left} more bytes"))),
    }
}

fn nullable<'a>(rest: &mut &'a [u8], what: &str) -> Result<Nullable<'a>, Fault> {
    if rest.len() < 4 {
        return Err(Fault::records(format!(
            "expected 4 bytes for the length of the {what} of a message, found {}",
            rest.len()
        )));
    }
    let length = i32_at(rest, 0);
    let following = &rest[4..];
    let Ok(bytes) = usize::try_from(length) else {
        *rest = following;
        return Ok(None);
    };
    let (field, left) = following.split_at_checked(bytes).ok_or_else(|| {
        Fault::records(format!("expected a {what} of {length} bytes in a message, found {}", following.len()))
    })?;
    *rest = left;
    Ok(Some(field))
}

/// Appends the record of a message that is not a wrapper.
pub fn read_message<S: RecordSink>(
    header: &LegacyHeader,
    message: &[u8],
    check_crcs: bool,
    range: OffsetRange,
    conditions: Option<&RecordConditions>,
    sink: &mut S,
) -> Result<(), Fault> {
    if check_crcs {
        header.check_crc(message)?;
    }
    let (key, value) = key_and_value(header, message)?;
    let record = Record { key, value, offset: header.offset, timestamp_ms: header.timestamp, sequence: -1 };
    if range.contains(header.offset) && is_wanted(conditions, &record) {
        sink.append(&record, &[]);
    }
    Ok(())
}

/// Messages have no producer and no headers.
fn is_wanted(conditions: Option<&RecordConditions>, record: &Record) -> bool {
    conditions.is_none_or(|conditions| conditions.has_producer(-1) && conditions.matches(record, &[]))
}

/// The compressed bytes of a wrapper.
pub fn wrapped<'a>(header: &LegacyHeader, message: &'a [u8]) -> Result<&'a [u8], Fault> {
    key_and_value(header, message)?
        .1
        .ok_or_else(|| Fault::records("expected messages in the value of a compressed message, found null"))
}

/// The offsets of the first and the last message in a wrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrappedOffsets {
    pub first: i64,
    pub last: i64,
}

/// Appends the messages in a wrapper whose decompressed value is `content`.
pub fn read_wrapper<S: RecordSink>(
    wrapper: &LegacyHeader,
    content: &[u8],
    check_crcs: bool,
    range: OffsetRange,
    conditions: Option<&RecordConditions>,
    sink: &mut S,
) -> Result<WrappedOffsets, Fault> {
    let records = wrapped_records(wrapper, content, check_crcs)?;
    let selected = records.iter().filter(|(record, _)| range.contains(record.offset) && is_wanted(conditions, record));
    selected.for_each(|(record, _)| sink.append(&record, &[]));
    Ok(records.offsets)
}

/// This many parsed messages of a wrapper are kept in memory; the rest are parsed a second time. A few compressed KB can
/// contain millions of messages.
const MOST_REMEMBERED: usize = if cfg!(any(test, fuzzing)) { 4 } else { 1 << 16 };

/// Checks all messages in a wrapper and returns them; there is at least one.
pub fn wrapped_records<'a>(
    wrapper: &LegacyHeader,
    content: &'a [u8],
    check_crcs: bool,
) -> Result<WrappedRecords<'a>, Fault> {
    let mut entries = Entries { rest: content };
    let (mut remembered, mut unread) = (Vec::new(), entries.clone());
    let (mut ends, mut increase) = (None, true);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let record = match inner_record(wrapper, entry, check_crcs) {
            Ok(record) => record,
            // A fault in the size of a later entry takes precedence over a fault in a message.
            Err(fault) => return Err(entries.find_map(Result::err).unwrap_or(fault)),
        };
        match &mut ends {
            None => ends = Some((record.offset, record.offset)),
            Some((_, last)) => {
                increase &= record.offset > *last;
                *last = record.offset;
            }
        }
        if remembered.len() < MOST_REMEMBERED {
            remembered.push((record, entry[MAGIC_AT] as i8));
            unread = entries.clone();
        }
    }
    let Some((first, last)) = ends else {
        return Err(Fault::records("expected messages in a compressed message, found none"));
    };
    if !increase {
        return Err(Fault::records("expected increasing offsets in a compressed message, found others"));
    }
    let base = base_offset(wrapper, last)?;
    let offsets = WrappedOffsets { first: first.wrapping_add(base), last: last.wrapping_add(base) };
    Ok(WrappedRecords { wrapper: *wrapper, remembered, unread, base, offsets })
}

/// The messages in a wrapper, after all of them have been checked.
pub struct WrappedRecords<'a> {
    wrapper: LegacyHeader,
    /// The first messages and their magic, with their offsets in the wrapper.
    remembered: Vec<(Record<'a>, i8)>,
    /// The messages after those.
    unread: Entries<'a>,
    /// The difference between offsets in the log and in the wrapper.
    base: i64,
    pub offsets: WrappedOffsets,
}

impl<'a> WrappedRecords<'a> {
    /// Each message with its magic, its offset in the log, and its timestamp.
    pub fn iter(&self) -> impl Iterator<Item = (Record<'a>, i8)> {
        let unread = self.unread.clone().filter_map(|entry| {
            let entry = entry.ok()?;
            Some((inner_record(&self.wrapper, entry, false).ok()?, entry[MAGIC_AT] as i8))
        });
        self.remembered.iter().copied().chain(unread).map(|(mut record, magic)| {
            record.offset = record.offset.wrapping_add(self.base);
            (record, magic)
        })
    }
}

/// The entries in a wrapper. A truncated last entry is ignored, as DataLogInputStream does.
#[derive(Clone)]
struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<&'a [u8], Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.len() < PREFIX_BYTES {
            return None;
        }
        let size = i32_at(self.rest, 8);
        if size < MIN_SIZE {
            self.rest = &[];
            let message =
                format!("expected a size field of at least {MIN_SIZE} of a message in a wrapper, found {size}");
            return Some(Err(Fault::records(message)));
        }
        let (entry, rest) = self.rest.split_at_checked(PREFIX_BYTES + size as usize)?;
        self.rest = rest;
        Some(Ok(entry))
    }
}

/// One message of a wrapper, with its offset in the wrapper. The message is read by its own magic: old brokers did not
/// always convert messages to the magic of the wrapper (KAFKA-4298).
fn inner_record<'a>(wrapper: &LegacyHeader, entry: &'a [u8], check_crc: bool) -> Result<Record<'a>, Fault> {
    let (magic, bytes) = (entry[MAGIC_AT] as i8, entry.len());
    let least = match magic {
        0 => V0_SMALLEST,
        1 => V1_SMALLEST,
        _ => return Err(Fault::records(format!("expected magic 0 or 1 of a message in a wrapper, found {magic}"))),
    };
    if bytes < least {
        let message =
            format!("expected at least {least} bytes of a message of magic {magic} in a wrapper, found {bytes}");
        return Err(Fault::records(message));
    }
    let header = LegacyHeader::parse(entry);
    if check_crc {
        header.check_crc(entry)?;
    }
    if header.attributes & 7 != 0 {
        return Err(Fault::records("expected an uncompressed message in a wrapper, found a compressed one"));
    }
    let (key, value) = key_and_value(&header, entry)?;
    // In a wrapper with LogAppendTime, only the timestamp of the wrapper is from the broker.
    let timestamp_ms = if magic == 1 && wrapper.timestamp_type() == 1 { wrapper.timestamp } else { header.timestamp };
    Ok(Record { key, value, offset: header.offset, timestamp_ms, sequence: -1 })
}

/// The number to add to the offsets within a wrapper. In magic 0 they are absolute. In magic 1 only their distance to the
/// last one counts, whose offset the wrapper has (KIP-31), unless its producer left it 0 for the broker to set.
fn base_offset(wrapper: &LegacyHeader, last: i64) -> Result<i64, Fault> {
    if wrapper.offset == 0 {
        return Ok(0);
    }
    if wrapper.offset < last {
        let message = format!(
            "expected a wrapper's offset of at least {last}, that of its last message, found {}",
            wrapper.offset
        );
        return Err(Fault::records(message));
    }
    Ok(if wrapper.magic == 0 { 0 } else { wrapper.offset.wrapping_sub(last) })
}
