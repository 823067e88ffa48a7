//! A buffer of batches, or part of a file, to the records in them.

use std::fs::File;
use std::io;

use crate::chunk::{Chunk, with_chunk};
use crate::codec::{Decompressor, SLACK, with_decompressor};
use crate::conditions::RecordConditions;
use crate::damage::{Damage, Fault, Kind};
use crate::header::{LegacyHeader, MAGIC_AT, MAGIC_END, Next, Prefix, V2_HEADER, V2Header, next};
use crate::legacy;
use crate::order::{Claim, Order};
use crate::selection::{OffsetRange, Selection};
use crate::sink::{BatchValues, RecordSink};
use crate::skip::{Claimed, Skipper};
use crate::status::{Status, Stopped};
use crate::v2;

/// Options of `decode` and `decode_file`.
pub struct Options<'a> {
    /// Position of the first byte of the input in its file.
    pub base_position: i64,
    pub selection: Selection,
    /// None: every record meets them. They do not apply to control records.
    pub conditions: Option<&'a RecordConditions>,
    /// None: do not check the order of batches.
    pub order: Option<Order<'a>>,
    /// Stop after the batch with which there are this many records or more.
    pub max_rows: Option<usize>,
    /// Stop after the batch with which the records have this size or more.
    pub max_bytes: Option<usize>,
    pub check_crcs: bool,
    /// The largest batch that is read, compressed or decompressed.
    pub max_batch_bytes: usize,
    /// Whether to read control records too.
    pub control: bool,
    /// Some: continue after damage if the next batch is near. CRCs and order must be checked.
    pub skipper: Option<&'a Skipper>,
}

/// How a batch was used.
enum Used {
    /// Its records were appended.
    Records { next_offset: i64 },
    /// It was skipped. `is_read`: whether all of it was read, and not only its header.
    Skipped { next_offset: i64, is_read: bool },
    /// It ends after the buffer.
    Partial { needed: usize },
}

/// Reads batches from the beginning of `buffer` until something stops it, and appends their records to `sink`.
pub fn decode<S: RecordSink>(buffer: &[u8], options: &Options, sink: &mut S) -> Stopped {
    with_decompressor(|decompressor| Decoder::new(options, sink, decompressor).run(buffer, 0))
}

/// Does the same with the bytes of `file` from the base position to `end`. The file is read in chunks that stay in the
/// processor's cache until they are decoded. Fails with UnexpectedEof if the file ends before `end`.
pub fn decode_file<S: RecordSink>(file: &File, end: u64, options: &Options, sink: &mut S) -> io::Result<Stopped> {
    with_decompressor(|decompressor| {
        with_chunk(|chunk| Decoder::new(options, sink, decompressor).run_file(file, end, chunk))
    })
}

/// How much of a file is read at a time unless a batch is larger. System calls of this size cost little, and the chunk
/// stays in the processor's cache until it is decoded.
const CHUNK_BYTES: usize = 1 << 20;
/// The smallest first chunk of a call with low limits.
const SMALLEST_CHUNK_BYTES: usize = 64 << 10;

/// Size of a call's first chunk; each further chunk is twice as large. A call that soon reaches its limits must not read
/// much more than it decodes, because the next call reads the rest again.
fn first_chunk_bytes(max_rows: Option<usize>, max_bytes: Option<usize>) -> usize {
    const ROW_BYTES: usize = 128; // an estimate
    let by_rows = max_rows.map_or(CHUNK_BYTES, |rows| rows.saturating_mul(ROW_BYTES));
    by_rows.min(max_bytes.unwrap_or(CHUNK_BYTES)).clamp(SMALLEST_CHUNK_BYTES, CHUNK_BYTES)
}

struct Decoder<'a, S> {
    options: &'a Options<'a>,
    range: OffsetRange,
    sink: &'a mut S,
    decompressor: &'a mut Decompressor,
    /// Position of the buffer's first byte.
    base_position: i64,
    next_offset: Option<i64>,
    order: Option<Order<'a>>,
    /// Whether the sink was informed about the size of the first batch.
    expected: bool,
    /// Whether this call has skipped damage.
    has_skipped: bool,
    /// Whether all of the batch before was read. If not, the size in its header may be wrong, so that the next position lies
    /// in the middle of a batch.
    is_read: bool,
}

impl<'a, S: RecordSink> Decoder<'a, S> {
    fn new(options: &'a Options<'a>, sink: &'a mut S, decompressor: &'a mut Decompressor) -> Self {
        Decoder {
            options,
            range: options.selection.range(),
            sink,
            decompressor,
            base_position: options.base_position,
            next_offset: None,
            order: options.order,
            expected: false,
            has_skipped: false,
            is_read: false,
        }
    }

    fn run_file(&mut self, file: &File, end: u64, chunk: &mut Chunk) -> io::Result<Stopped> {
        let mut chunk_bytes = first_chunk_bytes(self.options.max_rows, self.options.max_bytes);
        let (mut kept, mut bytes_to_read) = (0, chunk_bytes);
        loop {
            let position = self.base_position as u64;
            let left = usize::try_from(end.saturating_sub(position)).unwrap_or(usize::MAX);
            let bytes = bytes_to_read.max(kept).min(left);
            chunk.fill(file, position, kept, bytes)?;
            let stopped = self.run(chunk.bytes(), left - bytes);
            let used = (stopped.position - self.base_position) as usize;
            chunk_bytes = (2 * chunk_bytes).min(CHUNK_BYTES);
            bytes_to_read = match stopped.status {
                _ if bytes == left => return Ok(stopped),
                Status::End => chunk_bytes,
                Status::Partial if stopped.needed_bytes <= left - used => chunk_bytes.max(stopped.needed_bytes),
                // These may be the first bytes of a small offset. If not, the rest of the file must be zeros too.
                Status::Zeros if bytes - used < MAGIC_END => chunk_bytes,
                Status::Zeros => left,
                _ => return Ok(stopped),
            };
            // The part of a batch at the end of the chunk is not read again.
            kept = bytes.saturating_sub(used);
            self.base_position = stopped.position;
            if used < left && self.is_full() {
                return Ok(Stopped { status: Status::Limit, needed_bytes: 0, ..stopped });
            }
        }
    }

    /// Reads batches from the beginning of `buffer`. Further calls will read `to_come` more bytes.
    fn run(&mut self, buffer: &[u8], to_come: usize) -> Stopped {
        let mut at = 0;
        let mut before = None; // the bytes of the batch before
        loop {
            let (position, next_offset) = (self.position(at), self.next_offset);
            let stopped =
                |status, needed_bytes, damage| Stopped { status, position, next_offset, needed_bytes, damage };
            if at < buffer.len() && self.is_full() {
                return stopped(Status::Limit, 0, None);
            }
            let damage = match next(buffer, at, self.options.max_batch_bytes) {
                Next::Batch(prefix) => match self.batch(&prefix, &buffer[at..], position) {
                    Ok(Used::Partial { needed }) => return stopped(Status::Partial, needed, None),
                    Ok(Used::Skipped { next_offset: following, is_read }) => {
                        self.accept(following, is_read);
                        before = buffer.get(at..at + prefix.total);
                        at += prefix.total;
                        continue;
                    }
                    Ok(Used::Records { next_offset: following }) => {
                        self.accept(following, true);
                        if !self.expected {
                            self.expected = true;
                            self.sink.expect((buffer.len() - at + to_come) / prefix.total);
                        }
                        at += prefix.total;
                        continue;
                    }
                    Err(Stop::Full) => return stopped(Status::Limit, 0, None),
                    Err(Stop::Fault(fault)) => {
                        self.sink.discard_batch();
                        Damage { fault, position, size_bytes: prefix.total as i64, offset: prefix.offset }
                    }
                },
                Next::End => return stopped(Status::End, 0, None),
                Next::Zeros => return stopped(Status::Zeros, 0, None),
                Next::Partial { needed } => return stopped(Status::Partial, needed, None),
                Next::Damaged { fault, size_bytes, offset } => Damage { fault, position, size_bytes, offset },
            };
            self.is_read = self.is_read || before.is_some_and(has_right_crc);
            match self.skip(damage, &buffer[at..]) {
                Ok(bytes) => at += bytes,
                Err(damage) => return stopped(Status::Damaged, 0, Some(damage)),
            }
        }
    }

    /// The skipper and the current order, if damage may be skipped. Damage past the end of the selection is left to the caller.
    fn skipper(&self) -> Option<(&'a Skipper, Order<'a>)> {
        let Options { skipper, check_crcs, selection, .. } = self.options;
        let (skipper, order) = skipper.filter(|_| *check_crcs).zip(self.order)?;
        let is_past = selection.end_offset.is_some_and(|end| order.next_offset() >= end);
        (!is_past).then_some((skipper, order))
    }

    /// The bytes of the batch with which `rest` begins; None if some of them are missing.
    fn whole_batch<'b>(&self, prefix: &Prefix, rest: &'b [u8], position: i64) -> Result<Option<&'b [u8]>, Stop> {
        if let Some((skipper, order)) = self.skipper() {
            match skipper.claimed(prefix, rest, position, &order) {
                Claimed::False(fault) => return Err(Stop::Fault(fault)),
                // The caller must decide, and continues from here.
                Claimed::Unknown if self.has_skipped => return Err(Stop::Full),
                Claimed::Unknown | Claimed::Trusted => {}
            }
        }
        Ok(rest.get(..prefix.total))
    }

    /// Skips damage, and returns the number of bytes skipped. Returns the damage if the caller must find the next batch, or
    /// find out whether the damage begins with the batch before.
    fn skip(&mut self, damage: Damage, rest: &[u8]) -> Result<usize, Damage> {
        let Some((skipper, order)) = self.skipper().filter(|_| self.is_read) else { return Err(damage) };
        let rows = self.sink.record_count();
        let (skipped, bytes) = skipper.skip(damage, rest, &order, self.options.max_batch_bytes, rows)?;
        self.sink.skipped(skipped);
        self.has_skipped = true;
        Ok(bytes)
    }

    /// Records that a batch was used or skipped.
    fn accept(&mut self, next_offset: i64, is_read: bool) {
        self.next_offset = Some(match &mut self.order {
            Some(order) => order.accept(next_offset),
            None => next_offset,
        });
        self.is_read = is_read;
    }

    fn position(&self, at: usize) -> i64 {
        self.base_position.saturating_add(at as i64)
    }

    fn is_full(&self) -> bool {
        let records = self.sink.record_count();
        let Options { max_rows, max_bytes, .. } = self.options;
        records > 0
            && (max_rows.is_some_and(|most| records >= most)
                || max_bytes.is_some_and(|most| self.sink.size_bytes() >= most))
    }

    fn batch(&mut self, prefix: &Prefix, rest: &[u8], position: i64) -> Result<Used, Stop> {
        if rest.len() < prefix.header_bytes() {
            return Ok(Used::Partial { needed: prefix.header_bytes() });
        }
        match rest.first_chunk::<V2_HEADER>() {
            Some(header) if prefix.magic == 2 => self.v2_batch(V2Header::parse(header), prefix, rest, position),
            _ => self.legacy_batch(LegacyHeader::parse(rest), prefix, rest, position),
        }
    }

    fn v2_batch(&mut self, header: V2Header, prefix: &Prefix, rest: &[u8], position: i64) -> Result<Used, Stop> {
        let (options, total) = (self.options, prefix.total);
        // The next offset follows the last offset of the header, even if compaction has removed the last record.
        let next_offset = header.last_offset().wrapping_add(1);
        if let Some(order) = &self.order {
            let (first, last) = (header.base_offset, header.last_offset());
            order.check(&Claim { first, last, rest, total, position })?;
        }
        if options.selection.skips_v2(&header) {
            return Ok(Used::Skipped { next_offset, is_read: false });
        }
        // By its header such a batch has no rows. One flipped bit can do that to any batch, so the CRC is checked.
        let without_rows = header.record_count == 0
            || (header.control() && !options.control)
            || options.selection.aborted.covers(&header);
        if without_rows && !options.check_crcs {
            return Ok(Used::Skipped { next_offset, is_read: false });
        }
        let Some(batch) = self.whole_batch(prefix, rest, position)? else {
            return Ok(Used::Partial { needed: total });
        };
        if options.check_crcs {
            header.check_crc(batch)?;
        }
        if without_rows {
            return Ok(Used::Skipped { next_offset, is_read: true });
        }
        let conditions = options.conditions.filter(|_| !header.control());
        if conditions.is_some_and(|conditions| conditions.skips_v2(&header)) {
            return Ok(Used::Skipped { next_offset, is_read: true });
        }
        let (readable, section_bytes) = v2::section(&header, rest, total, self.decompressor, options.max_batch_bytes)?;
        if conditions.is_some_and(|conditions| !conditions.may_match(&readable[..section_bytes])) {
            return Ok(Used::Skipped { next_offset, is_read: true });
        }
        check_room(self.sink, header.record_count, section_bytes)?;
        v2::read_records(&header, readable, section_bytes, self.range, conditions, self.sink)?;
        self.sink.end_batch(BatchValues {
            timestamp_type: i32::from(header.log_append_time()),
            leader_epoch: header.leader_epoch,
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch.into(),
            is_transactional: header.transactional(),
            codec: header.codec(),
            magic: 2,
            batch_offset: header.base_offset,
            position,
        });
        Ok(Used::Records { next_offset })
    }

    fn legacy_batch(
        &mut self,
        header: LegacyHeader,
        prefix: &Prefix,
        rest: &[u8],
        position: i64,
    ) -> Result<Used, Stop> {
        let (options, total) = (self.options, prefix.total);
        if let Some(order) = self.order.as_ref().filter(|_| !header.lacks_offset()) {
            order.check(&Claim { first: header.offset, last: header.offset, rest, total, position })?;
        }
        if options.selection.skips_legacy(&header) {
            return Ok(Used::Skipped { next_offset: header.offset.wrapping_add(1), is_read: false });
        }
        let Some(message) = self.whole_batch(prefix, rest, position)? else {
            return Ok(Used::Partial { needed: total });
        };
        let (batch_offset, last_offset) = if header.is_wrapper() {
            self.wrapper(&header, message)?
        } else {
            legacy::read_message(&header, message, options.check_crcs, self.range, options.conditions, self.sink)?;
            (header.offset, header.offset)
        };
        self.sink.end_batch(BatchValues {
            timestamp_type: header.timestamp_type(),
            leader_epoch: -1,
            producer_id: -1,
            producer_epoch: -1,
            is_transactional: false,
            codec: header.codec(),
            magic: header.magic.into(),
            batch_offset,
            position,
        });
        Ok(Used::Records { next_offset: last_offset.wrapping_add(1) })
    }

    /// Reads a wrapper and returns its first and last offset. The CRC of the wrapper itself is not checked. The Java
    /// consumer does not check it either: it checks the records it returns, which are the inner messages
    /// (CompletedFetch.maybeEnsureValid).
    fn wrapper(&mut self, header: &LegacyHeader, message: &[u8]) -> Result<(i64, i64), Stop> {
        let options = self.options;
        let input = legacy::wrapped(header, message)?;
        let readable = self.decompressor.decompress(header.codec(), header.magic, input, options.max_batch_bytes)?;
        let content = &readable[..readable.len() - SLACK];
        check_room(self.sink, 0, content.len())?;
        let (check_crcs, conditions) = (options.check_crcs, options.conditions);
        let offsets = legacy::read_wrapper(header, content, check_crcs, self.range, conditions, self.sink)?;
        if let Some(order) = &self.order {
            order.check_wrapped(offsets.first, offsets.last)?;
        }
        Ok((offsets.first, if header.lacks_offset() { offsets.last } else { header.offset }))
    }
}

/// Why a batch was not used.
enum Stop {
    Fault(Fault),
    /// The sink has no room for it in this call.
    Full,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

/// Whether these bytes, as many as the header says, have the checksum in the header.
fn has_right_crc(batch: &[u8]) -> bool {
    match batch.first_chunk::<V2_HEADER>() {
        Some(header) if batch[MAGIC_AT] == 2 => V2Header::parse(header).check_crc(batch).is_ok(),
        _ => LegacyHeader::parse(batch).check_crc(batch).is_ok(),
    }
}

/// Checks that the sink has room for a batch. A batch without room is left for the next call, or is too large for any.
fn check_room<S: RecordSink>(sink: &S, record_count: i32, bytes: usize) -> Result<(), Stop> {
    let most = (bytes / 7).min(usize::try_from(record_count).unwrap_or(0).max(bytes / 26));
    if sink.has_room(most, bytes) {
        return Ok(());
    }
    if sink.record_count() > 0 {
        return Err(Stop::Full);
    }
    let message = format!(
        "expected columns of less than 2^31 bytes, found a batch of {bytes} bytes that may need more; select fewer columns"
    );
    Err(Stop::Fault(Fault::new(Kind::TooLarge, message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_limits_make_the_first_chunk_small() {
        assert_eq!(first_chunk_bytes(None, None), CHUNK_BYTES);
        assert_eq!(first_chunk_bytes(Some(usize::MAX), Some(usize::MAX)), CHUNK_BYTES);
        assert_eq!(first_chunk_bytes(Some(1), None), SMALLEST_CHUNK_BYTES);
        assert_eq!(first_chunk_bytes(None, Some(1)), SMALLEST_CHUNK_BYTES);
        assert_eq!(first_chunk_bytes(Some(1_000_000), Some(300_000)), 300_000);
        assert_eq!(first_chunk_bytes(Some(1000), Some(300_000)), 128_000);
    }
}
