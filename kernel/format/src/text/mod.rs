//! Batches and records as kafka-dump-log prints them (Kafka: DumpLogSegments).

mod record_lines;
mod writer;

use std::io::Write;

use crate::codec::{Decompressor, with_decompressor};
use crate::damage::{Damage, Fault};
use crate::header::{Next, Prefix, V2Header, next};
use crate::selection::OffsetRange;
use crate::status::{Status, Stopped};
use crate::v2;

use record_lines::RecordLines;

/// What to print. Python's TextOptions has the same fields.
#[derive(Clone, Copy)]
pub struct Options {
    /// A line for each record, not only for each batch.
    pub records: bool,
    /// Offset, timestamp, sizes, sequence number and names of headers of records.
    pub record_metadata: bool,
    /// Key and value of records.
    pub contents: bool,
    /// The largest batch that is read, compressed or decompressed.
    pub max_batch_bytes: usize,
}

/// The lines of batches and records.
pub struct Lines {
    pub text: Vec<u8>,
    pub first_offset: Option<i64>,
    pub last_offset: Option<i64>,
    /// Pairs of offsets of consecutive records between which there is a gap.
    pub gaps: Vec<(i64, i64)>,
}

/// Prints batches from the beginning of `buffer` on, until something stops it. A wrong CRC does not. A damaged batch is
/// printed up to the damage. Batches before v2 and control batches stop it with Limit: they are not printed here. `text` is
/// empty memory for reuse.
pub fn format_batches(buffer: &[u8], base_position: i64, options: &Options, text: Vec<u8>) -> (Lines, Stopped) {
    let mut lines = RecordLines::new(options, text);
    let stopped =
        with_decompressor(|decompressor| format_all(buffer, base_position, options, &mut lines, decompressor));
    let RecordLines { text, offsets, gaps, .. } = lines;
    (Lines { text, first_offset: offsets.first, last_offset: offsets.last, gaps }, stopped)
}

fn format_all(
    buffer: &[u8],
    base_position: i64,
    options: &Options,
    lines: &mut RecordLines,
    decompressor: &mut Decompressor,
) -> Stopped {
    let (mut at, mut next_offset) = (0, None);
    loop {
        let position = base_position.saturating_add(at as i64);
        let stopped = |status, needed_bytes, damage| Stopped { status, position, next_offset, needed_bytes, damage };
        let prefix = match next(buffer, at, options.max_batch_bytes) {
            Next::Batch(prefix) => prefix,
            Next::End => return stopped(Status::End, 0, None),
            Next::Zeros => return stopped(Status::Zeros, 0, None),
            Next::Partial { needed } => return stopped(Status::Partial, needed, None),
            Next::Damaged { fault, size_bytes, offset } => {
                return stopped(Status::Damaged, 0, Some(Damage { fault, position, size_bytes, offset }));
            }
        };
        let rest = &buffer[at..];
        if rest.len() < prefix.header_bytes() {
            return stopped(Status::Partial, prefix.header_bytes(), None);
        }
        let header = match rest.first_chunk() {
            Some(header) if prefix.magic == 2 => V2Header::parse(header),
            _ => return stopped(Status::Limit, 0, None),
        };
        if header.control() {
            return stopped(Status::Limit, 0, None);
        }
        let Some(batch) = rest.get(..prefix.total) else { return stopped(Status::Partial, prefix.total, None) };
        write_batch(&mut lines.text, &header, batch, position);
        if options.records
            && let Err(fault) = write_records(lines, &header, &prefix, rest, options, decompressor)
        {
            let (size_bytes, offset) = (prefix.total as i64, prefix.offset);
            return stopped(Status::Damaged, 0, Some(Damage { fault, position, size_bytes, offset }));
        }
        next_offset = Some(header.last_offset().wrapping_add(1));
        at += prefix.total;
    }
}

/// Writes the lines of the records of the batch with which `rest` begins.
fn write_records(
    lines: &mut RecordLines,
    header: &V2Header,
    prefix: &Prefix,
    rest: &[u8],
    options: &Options,
    decompressor: &mut Decompressor,
) -> Result<(), Fault> {
    lines.begin_batch(header.log_append_time());
    if header.record_count == 0 {
        return Ok(());
    }
    let (readable, section_bytes) = v2::section(header, rest, prefix.total, decompressor, options.max_batch_bytes)?;
    v2::read_records(header, readable, section_bytes, ALL, None, lines)
}

const ALL: OffsetRange = OffsetRange { first: i64::MIN, last: i64::MAX };

/// Writes the line of a batch.
fn write_batch(text: &mut Vec<u8>, header: &V2Header, batch: &[u8], position: i64) {
    let horizon = match header.has_delete_horizon() {
        true => format!("OptionalLong[{}]", header.base_timestamp),
        false => "OptionalLong.empty".to_owned(),
    };
    // Writing to a vector does not fail.
    let _ = writeln!(
        text,
        "baseOffset: {} lastOffset: {} count: {} baseSequence: {} lastSequence: {} producerId: {} producerEpoch: {} \
         partitionLeaderEpoch: {} isTransactional: {} isControl: {} deleteHorizonMs: {horizon} position: {position} {}: {} \
         size: {} magic: 2 compresscodec: {} crc: {} isvalid: {}",
        header.base_offset,
        header.last_offset(),
        header.record_count,
        header.base_sequence,
        header.sequence(header.last_offset_delta),
        header.producer_id,
        header.producer_epoch,
        header.leader_epoch,
        header.transactional(),
        header.control(),
        if header.log_append_time() { "LogAppendTime" } else { "CreateTime" },
        header.max_timestamp,
        batch.len(),
        header.codec().name(),
        header.crc,
        header.check_crc(batch).is_ok(),
    );
}
