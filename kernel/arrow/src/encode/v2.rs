//! Encode rows as v2 batches.

use super::options::{EncodeError, MOST, MOST_PLAIN, NO_TIMESTAMP, Options};
use super::ratio::Ratio;
use super::record::{Row, SLACK};
use super::rows::{Cursor, Part};
use super::workspace::Workspace;
use kafka_log_format::codec::Codec;
use kafka_log_format::header::{TRANSACTIONAL, V2_HEADER, V2Header};
use kafka_log_format::varint::bytes_of;

/// How many bytes a typical record takes at most in addition to its content, to estimate memory: length 2, attributes,
/// timestamp delta 3, offset delta 2, lengths of key 1 and value 2, header count.
const USUAL_OVERHEAD: usize = 12;
/// How many bytes a record takes at most in addition to its content and their lengths: length 5, attributes, timestamp delta
/// 10, offset delta 5 (DefaultRecord.MAX_RECORD_OVERHEAD).
const MOST_OVERHEAD: usize = 21;

/// Appends the rows as batches of magic 2. Returns how many rows.
pub(super) fn batches(
    parts: &[Part],
    options: &Options,
    ratio: &mut Ratio,
    workspace: &mut Workspace,
    out: &mut Vec<u8>,
) -> Result<usize, EncodeError> {
    if options.codec == Codec::None {
        let content = parts.iter().map(|part| part.content_bytes() + part.len() * USUAL_OVERHEAD).sum::<usize>();
        out.reserve(content + (content / options.batch_size.max(1024) + 2) * 2 * V2_HEADER + SLACK);
    }
    let Workspace { compressor, plain } = workspace;
    let mut at = Cursor::new(parts);
    while at.get().is_some() {
        let begins = out.len();
        out.resize(begins + V2_HEADER, 0);
        let is_plain = options.codec == Codec::None;
        let (batch, end) = if is_plain {
            fill(at, options, |bytes| bytes, out)?
        } else {
            plain.clear();
            fill(at, options, |bytes| ratio.compressed(bytes), plain)?
        };
        if !options.finish && end.get().is_none() {
            out.truncate(begins);
            break;
        }
        if !is_plain {
            compressor.compress_and_prefetch(options.codec, 2, plain, end.values(), out);
            ratio.observe(plain.len(), out.len() - begins - V2_HEADER);
        }
        let (row, size_bytes) = (at.row, out.len() - begins);
        let too_large = EncodeError::TooLarge { first_row: row, last_row: row + batch.rows - 1, size_bytes };
        if size_bytes > options.max_message_bytes.unwrap_or(MOST).min(MOST) {
            return Err(too_large);
        }
        header(&batch, row, options).write(&mut out[begins..]).map_err(|_| too_large)?;
        at = end;
    }
    Ok(at.row)
}

pub(super) struct Batch {
    pub rows: usize,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
}

/// Appends records from the row at `first` on, as long as the batch is not estimated to become too large
/// (MemoryRecordsBuilder.hasRoomFor). Returns the position of the next row. There must be a row at `first`. If the first
/// record is larger than a batch, the limit becomes the largest size that the record could have (RecordAccumulator.append);
/// small records may use the difference.
#[inline(always)]
fn fill<'a>(
    first: Cursor<'a>,
    options: &Options,
    estimate: impl Fn(usize) -> usize,
    out: &mut Vec<u8>,
) -> Result<(Batch, Cursor<'a>), EncodeError> {
    let mut limit = options.batch_size.min(MOST).saturating_sub(V2_HEADER);
    let most = options.max_message_bytes.unwrap_or(MOST).min(MOST).saturating_sub(V2_HEADER);
    let begins = out.len();
    let (mut base_timestamp, mut max_timestamp) = (None, i64::MIN);
    let mut at = first;
    while let Some((records, row)) = at.get() {
        at.look_ahead();
        let timestamp = records.checked_timestamp(row, at.row, options.now_ms)?;
        let Some(measured) = Row::measure(records, row) else {
            return Err(EncodeError::NullHeaderKey { row: at.row });
        };
        let timestamp_delta = timestamp.wrapping_sub(*base_timestamp.get_or_insert(timestamp));
        let offset_delta = (at.row - first.row) as i32;
        let body_bytes = measured.body_bytes(timestamp_delta, offset_delta);
        let record_bytes = bytes_of(body_bytes as i64) + body_bytes;
        let before = out.len() - begins;
        if at.row == first.row {
            limit = limit.max(most.min(MOST_OVERHEAD + measured.content_bytes()));
        } else if estimate(before) + record_bytes > limit || before + record_bytes > MOST_PLAIN {
            break;
        }
        if record_bytes > MOST - V2_HEADER {
            let size_bytes = V2_HEADER + record_bytes;
            return Err(EncodeError::TooLarge { first_row: at.row, last_row: at.row, size_bytes });
        }
        out.reserve(record_bytes + SLACK);
        // SAFETY: there is room for the `record_bytes` bytes that `write` writes, and for SLACK bytes.
        unsafe {
            let to = out.as_mut_ptr().add(out.len());
            let end = measured.write(records, row, timestamp_delta, offset_delta, to);
            debug_assert_eq!(end.offset_from_unsigned(to), record_bytes);
            out.set_len(out.len() + end.offset_from_unsigned(to));
        }
        max_timestamp = max_timestamp.max(timestamp);
        at = at.next();
    }
    let base_timestamp = base_timestamp.unwrap_or(NO_TIMESTAMP);
    Ok((Batch { rows: at.row - first.row, base_timestamp, max_timestamp }, at))
}

pub(super) fn header(batch: &Batch, first_row: usize, options: &Options) -> V2Header {
    let transactional = if options.is_transactional { TRANSACTIONAL } else { 0 };
    V2Header {
        base_offset: options.base_offset + first_row as i64,
        leader_epoch: options.leader_epoch,
        crc: 0,
        attributes: i16::from(options.codec.id()) | options.timestamp_flag() | transactional,
        last_offset_delta: batch.rows as i32 - 1,
        base_timestamp: batch.base_timestamp,
        max_timestamp: options.append_time_ms.unwrap_or(batch.max_timestamp.max(NO_TIMESTAMP)),
        producer_id: options.producer_id,
        producer_epoch: options.producer_epoch,
        base_sequence: sequence(options.base_sequence, first_row),
        record_count: batch.rows as i32,
    }
}

/// The sequence number `rows` after `base`. 0 follows 2^31 - 1. A negative `base` means no sequence numbers.
fn sequence(base: i32, rows: usize) -> i32 {
    if base < 0 {
        return base;
    }
    ((i64::from(base) + rows as i64) % (1 << 31)) as i32
}
