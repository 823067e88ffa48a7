//! Write batches and wrappers with the records that are kept (MemoryRecords.filterTo, MemoryRecordsBuilder).

use super::spans::Span;
use crate::codec::{Codec, Compressor};
use crate::damage::Fault;
use crate::header::{DELETE_HORIZON, LegacyHeader, V2_HEADER, V2Header};
use crate::record::Record;
use crate::varint::{read_i32, write_i64};
use crate::write::{NO_TIMESTAMP, Wrapper};

const CODEC: i16 = 7;
/// Timestamp type, transactional, control.
const KEPT_FLAGS: i16 = 0b11_1000;

/// Appends the header of a batch alone, whose offsets and producer are still needed (DefaultRecordBatch.writeEmptyHeader).
pub fn empty_batch(header: &V2Header, out: &mut Vec<u8>) -> Result<(), Fault> {
    let attributes = header.attributes & KEPT_FLAGS;
    let begins = out.len();
    out.extend([0; V2_HEADER]);
    V2Header { attributes, base_timestamp: NO_TIMESTAMP, record_count: 0, ..*header }.write(&mut out[begins..])
}

/// A batch to be written.
pub struct V2Batch<'a> {
    pub header: &'a V2Header,
    pub section: &'a [u8],
    /// How many records are kept, at least one.
    pub record_count: u64,
    pub delete_horizon_ms: Option<i64>,
    /// The first and the greatest timestamp of the kept records.
    pub first_timestamp: i64,
    pub max_timestamp: i64,
}

/// A record that is kept. Without its value and headers if it is `nulled`.
#[derive(Clone, Copy)]
pub struct Kept {
    pub span: Span,
    pub timestamp: i64,
    pub nulled: bool,
}

impl V2Batch<'_> {
    /// Appends the batch with its original offsets, last offset and producer. `put_all` writes all kept records in order.
    /// Fails if the batch becomes too large; the caller then removes what was appended.
    pub fn write(
        &self,
        put_all: impl FnOnce(&mut RecordWriter) -> Result<(), Fault>,
        compressor: &mut Compressor,
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let header = self.header;
        let base_timestamp = self.delete_horizon_ms.unwrap_or(self.first_timestamp);
        let begins = out.len();
        out.extend([0; V2_HEADER]);
        let write_records = |out: &mut Vec<u8>| {
            let mut records = RecordWriter { section: self.section, base_timestamp, run: (0, 0), out };
            put_all(&mut records)?;
            records.end_run();
            Ok(())
        };
        match header.codec() {
            Codec::None => write_records(out)?,
            codec => {
                plain.clear();
                write_records(plain)?;
                compressor.compress(codec, 2, plain, out);
            }
        }
        let horizon = if self.delete_horizon_ms.is_some() { DELETE_HORIZON } else { 0 };
        let written = V2Header {
            attributes: header.attributes & (KEPT_FLAGS | CODEC) | horizon,
            base_timestamp,
            max_timestamp: match header.log_append_time() {
                true => header.max_timestamp,
                false => self.max_timestamp.max(NO_TIMESTAMP),
            },
            record_count: self.record_count as i32, // no more than there were
            ..*header
        };
        written.write(&mut out[begins..])
    }
}

/// Writes the records of a batch. Consecutive records that stay the same are copied together.
pub struct RecordWriter<'a> {
    section: &'a [u8],
    base_timestamp: i64,
    /// The range of the section with records that stay the same and were not yet copied.
    run: (u32, u32),
    out: &'a mut Vec<u8>,
}

impl RecordWriter<'_> {
    #[inline(always)]
    pub fn put(&mut self, kept: &Kept) {
        let span = &kept.span;
        let timestamp_delta = kept.timestamp.wrapping_sub(self.base_timestamp);
        let stays = timestamp_delta == span.timestamp_delta && span.canonical && !kept.nulled;
        if stays && span.start == self.run.1 {
            self.run.1 = span.end;
            return;
        }
        self.end_run();
        if stays {
            self.run = (span.start, span.end);
        } else {
            self.run = (span.end, span.end);
            record(span, self.section, timestamp_delta, kept.nulled, self.out);
        }
    }

    fn end_run(&mut self) {
        self.out.extend_from_slice(&self.section[self.run.0 as usize..self.run.1 as usize]);
    }
}

/// Appends a record as Kafka's DefaultRecord writes it.
pub fn record(span: &Span, section: &[u8], timestamp_delta: i64, nulled: bool, out: &mut Vec<u8>) {
    let mut head = [0; 16];
    let mut head_bytes = 1; // attributes, all unused
    head_bytes += write_i64(timestamp_delta, &mut head[head_bytes..]);
    head_bytes += write_i64(span.offset_delta.into(), &mut head[head_bytes..]);
    let length = |bytes: usize| {
        let mut field = [0; 10];
        let field_bytes = write_i64(bytes as i64, &mut field);
        (field, field_bytes)
    };
    let append = |parts: &[&[u8]], out: &mut Vec<u8>| {
        let (field, field_bytes) = length(parts.iter().map(|part| part.len()).sum());
        out.extend_from_slice(&field[..field_bytes]);
        parts.iter().for_each(|part| out.extend_from_slice(part));
    };
    if span.canonical && !nulled {
        append(&[&head[..head_bytes], &section[span.tail as usize..span.end as usize]], out);
        return;
    }
    let mut tail = Vec::with_capacity((span.end - span.tail) as usize);
    sized(span.key(section), &mut tail);
    sized(if nulled { None } else { span.value(section) }, &mut tail);
    if nulled {
        tail.push(0);
    } else {
        headers(span.headers(section), &mut tail);
    }
    append(&[&head[..head_bytes], &tail], out);
}

/// Appends the headers of a record, which were checked before, with canonical varints.
fn headers(bytes: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    let number = |at: &mut usize| read_i32(bytes, at).unwrap_or_default();
    let count = number(&mut at);
    varint(count, out);
    for _ in 0..count.max(0) * 2 {
        let length = number(&mut at);
        let end = at + length.max(0) as usize;
        sized(usize::try_from(length).ok().map(|_| &bytes[at..end]), out);
        at = end;
    }
}

fn sized(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    varint(bytes.map_or(-1, |bytes| bytes.len() as i32), out);
    out.extend_from_slice(bytes.unwrap_or_default());
}

fn varint(value: i32, out: &mut Vec<u8>) {
    let mut field = [0; 10];
    let bytes = write_i64(value.into(), &mut field);
    out.extend_from_slice(&field[..bytes]);
}

/// Appends a wrapper with the kept messages, at least one, and its original codec, offset and timestamp type. Fails if the
/// wrapper becomes too large.
pub fn wrapper<'a>(
    header: &LegacyHeader,
    kept: impl Iterator<Item = Record<'a>>,
    compressor: &mut Compressor,
    plain: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let append_time = (header.timestamp_type() == 1).then_some(header.timestamp);
    let form = Wrapper { magic: header.magic, codec: header.codec(), append_time };
    form.write(kept, compressor, plain, out).map(drop)
}
