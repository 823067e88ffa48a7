//! Rows to v2 batches.

use super::columns::Records;
use super::ratio::Ratio;
use super::record::{Row, SLACK};
use super::{MOST, MOST_PLAIN, NO_TIMESTAMP, Options, Refusal, Workspace};
use crate::codec::Codec;
use crate::header::{TRANSACTIONAL, V2_HEADER, V2Header};
use crate::varint::bytes_of;

/// Most of what a record takes beside its content, for guessing how much memory is needed: length 2, attributes,
/// timestamp delta 3, offset delta 2, lengths of key 1 and value 2, header count.
const USUAL_OVERHEAD: usize = 12;

/// Appends the rows as batches of magic 2.
pub(super) fn batches(
    records: &Records,
    options: &Options,
    ratio: &mut Ratio,
    workspace: &mut Workspace,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    if options.codec == Codec::None {
        let content = records.content_bytes() + records.rows * USUAL_OVERHEAD;
        out.reserve(content + (content / options.batch_size.max(1024) + 2) * 2 * V2_HEADER + SLACK);
    }
    let Workspace { compressor, plain } = workspace;
    let mut row = 0;
    while row < records.rows {
        let begins = out.len();
        out.resize(begins + V2_HEADER, 0);
        let batch = if options.codec == Codec::None {
            fill(records, row, options, |bytes| bytes, out)?
        } else {
            plain.clear();
            let batch = fill(records, row, options, |bytes| ratio.compressed(bytes), plain)?;
            compressor.compress(options.codec, 2, plain, out);
            ratio.observe(plain.len(), out.len() - begins - V2_HEADER);
            batch
        };
        let size_bytes = out.len() - begins;
        if size_bytes > options.max_message_bytes.unwrap_or(MOST).min(MOST) {
            return Err(Refusal::TooLarge { first_row: row, last_row: row + batch.rows - 1, size_bytes });
        }
        header(&batch, row, options).write(&mut out[begins..]);
        row += batch.rows;
    }
    Ok(())
}

struct Batch {
    rows: usize,
    base_timestamp: i64,
    max_timestamp: i64,
}

/// Appends records from `first_row` on, at least one, while they are not estimated to make the batch too large
/// (MemoryRecordsBuilder.hasRoomFor).
#[inline(always)]
fn fill(
    records: &Records,
    first_row: usize,
    options: &Options,
    estimate: impl Fn(usize) -> usize,
    out: &mut Vec<u8>,
) -> Result<Batch, Refusal> {
    let limit = options.batch_size.min(MOST).saturating_sub(V2_HEADER);
    let begins = out.len();
    let base_timestamp = records.checked_timestamp(first_row, options.now_ms)?;
    let mut max_timestamp = base_timestamp;
    let mut row = first_row;
    while row < records.rows {
        let timestamp = records.checked_timestamp(row, options.now_ms)?;
        let Some(measured) = Row::measure(records, row, timestamp) else {
            return Err(Refusal::NullHeaderKey { row });
        };
        let timestamp_delta = timestamp.wrapping_sub(base_timestamp);
        let offset_delta = (row - first_row) as i32;
        let body_bytes = measured.body_bytes(timestamp_delta, offset_delta);
        let record_bytes = bytes_of(body_bytes as i64) + body_bytes;
        let before = out.len() - begins;
        if row > first_row && (estimate(before) + record_bytes > limit || before + record_bytes > MOST_PLAIN) {
            break;
        }
        if record_bytes > MOST - V2_HEADER {
            return Err(Refusal::TooLarge { first_row: row, last_row: row, size_bytes: V2_HEADER + record_bytes });
        }
        out.reserve(record_bytes + SLACK);
        // SAFETY: so much is reserved, and `write` writes `record_bytes` bytes.
        unsafe {
            let to = out.as_mut_ptr().add(out.len());
            let end = measured.write(records, row, timestamp_delta, offset_delta, to);
            debug_assert_eq!(end.offset_from_unsigned(to), record_bytes);
            out.set_len(out.len() + end.offset_from_unsigned(to));
        }
        max_timestamp = max_timestamp.max(timestamp);
        row += 1;
    }
    Ok(Batch { rows: row - first_row, base_timestamp, max_timestamp })
}

fn header(batch: &Batch, first_row: usize, options: &Options) -> V2Header {
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

/// The sequence `rows` after `base`; past 2^31 - 1 comes 0. Without one there is none.
fn sequence(base: i32, rows: usize) -> i32 {
    if base < 0 {
        return base;
    }
    ((i64::from(base) + rows as i64) % (1 << 31)) as i32
}
