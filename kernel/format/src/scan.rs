//! The headers of batches, one row for each batch.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::ops::{Range, RangeInclusive};

use crate::big_endian::i16_at;
use crate::chunk::{Chunk, with_chunk};
use crate::codec::Codec;
use crate::damage::{Damage, Fault, Kind, Skipped};
use crate::header::{LegacyHeader, MAGIC_AT, Next, Prefix, V2_HEADER, V2Header, next, next_newer, unknown_magic};
use crate::order::{Claim, Order};
use crate::skip::{Claimed, NEAR_BYTES, Skipper};
use crate::status::{Status, Stopped};
use crate::varint::{read_i32, read_i64};

/// More than the longest fields of a control record up to and including its key.
const CONTROL_BYTES: usize = 32;
/// A scan that has skipped damage this many times stops with Limit, because each description takes a few hundred bytes.
const MOST_SKIPPED: usize = 4096;
/// The most bytes of a batch that are needed unless its CRC is checked.
const HEADER_BYTES: usize = V2_HEADER + CONTROL_BYTES;

/// The header of one batch. Python's BATCH_SCHEMA has the same fields in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRow {
    pub position: i64,
    pub size_in_bytes: i32,
    pub magic: i32,
    /// None for a wrapper: its first offset is in the compressed part.
    pub base_offset: Option<i64>,
    pub last_offset: i64,
    /// None for a wrapper.
    pub record_count: Option<i32>,
    pub codec: Codec,
    pub timestamp_type: i32,
    pub base_timestamp: Option<i64>,
    pub max_timestamp: i64,
    pub delete_horizon_ms: Option<i64>,
    pub leader_epoch: i32,
    pub producer_id: i64,
    pub producer_epoch: i32,
    pub base_sequence: i32,
    pub last_sequence: i32,
    pub is_transactional: bool,
    pub is_control: bool,
    pub control_type: Option<i32>,
    pub attributes: i32,
    pub crc: i64,
    /// Whether the CRC is right. None unless CRCs are checked.
    pub is_valid: Option<bool>,
}

/// Reads one row for each batch from the beginning of `buffer` on, until something stops it. A wrong CRC, an unknown codec
/// or an impossible record count does not stop it.
pub fn scan(
    buffer: &[u8],
    base_position: i64,
    check_crcs: bool,
    max_batch_bytes: usize,
    order: Option<Order>,
) -> (Vec<BatchRow>, Stopped) {
    let options = Options { check_crcs, order, ..Options::new(base_position, usize::MAX, max_batch_bytes) };
    let Ok(scanned) = scan_from(Buffer(buffer), options, |_, _| false);
    (scanned.rows, scanned.stopped)
}

/// Does the same with a file from `position` to `end`, reading only the headers: one small read for each batch.
/// Stops with Limit after `max_rows` rows. Fails with UnexpectedEof if the file ends before `end`.
pub fn scan_headers(
    file: &File,
    position: u64,
    end: u64,
    max_rows: usize,
    max_batch_bytes: usize,
    order: Option<Order>,
) -> io::Result<(Vec<BatchRow>, Stopped)> {
    let options = Options { order, ..Options::new(position as i64, max_rows, max_batch_bytes) };
    let sizes = HEADER_BYTES..=HEADER_BYTES;
    let scanned = with_chunk(|chunk| scan_file(file, end, options, chunk, sizes, |_, _| false))?;
    Ok((scanned.rows, scanned.stopped))
}

/// Does the same with a file from `options.base_position` to `end`, which is read by way of `chunk`. If CRCs are not
/// checked, bytes of a batch after the chunk that has its header are not read.
///
/// The first chunk has the smallest of the sizes in `chunk_bytes`, and each further one twice as many bytes, up to the
/// largest; or as many as a batch needs. `is_last` says of each batch whether to stop after it. It takes the bytes from the
/// beginning of the batch on.
pub(crate) fn scan_file(
    file: &File,
    end: u64,
    options: Options,
    chunk: &mut Chunk,
    chunk_bytes: RangeInclusive<usize>,
    is_last: impl FnMut(&BatchRow, &[u8]) -> bool,
) -> io::Result<Scanned> {
    let position = options.base_position as u64;
    let (chunk_bytes, most_chunk_bytes) = chunk_bytes.into_inner();
    let chunks = Chunks { file, position, end, chunk, held: position..position, chunk_bytes, most_chunk_bytes };
    scan_from(chunks, options, is_last)
}

/// Options of a scan.
pub(crate) struct Options<'a> {
    pub base_position: i64,
    pub check_crcs: bool,
    /// Whether a batch of a higher magic than 2 with a right CRC has a row. It is read as one of magic 2, as a broker does. CRCs
    /// must be checked.
    pub accept_newer: bool,
    pub max_rows: usize,
    pub max_batch_bytes: usize,
    pub order: Option<Order<'a>>,
    /// Some: continue after damage, wrong CRCs included, if the next batch is near. CRCs and order must be checked.
    pub skipper: Option<&'a Skipper>,
}

impl Options<'_> {
    pub fn new(base_position: i64, max_rows: usize, max_batch_bytes: usize) -> Self {
        Options {
            base_position,
            check_crcs: false,
            accept_newer: false,
            max_rows,
            max_batch_bytes,
            order: None,
            skipper: None,
        }
    }
}

/// The batches that were scanned.
pub(crate) struct Scanned {
    pub rows: Vec<BatchRow>,
    /// The damage between them.
    pub skipped: Vec<Skipped>,
    pub stopped: Stopped,
}

/// The bytes that are scanned.
trait Source {
    type Error;

    /// The bytes from index `at` on: at least as many as a header may take, or all up to the end.
    fn header(&mut self, at: usize) -> Result<&[u8], Self::Error>;

    /// The bytes from index `at` on: at least `total`, or fewer if the end comes before.
    fn batch(&mut self, at: usize, total: usize) -> Result<&[u8], Self::Error>;

    /// The bytes from the batch at index `at` on: as `batch` if `is_whole`, otherwise as `header`.
    #[inline(always)]
    fn batch_or_header(&mut self, at: usize, total: usize, is_whole: bool) -> Result<&[u8], Self::Error> {
        if is_whole { self.batch(at, total) } else { self.header(at) }
    }
}

struct Buffer<'a>(&'a [u8]);

impl Source for Buffer<'_> {
    type Error = Infallible;

    fn header(&mut self, at: usize) -> Result<&[u8], Infallible> {
        Ok(self.0.get(at..).unwrap_or_default())
    }

    fn batch(&mut self, at: usize, _total: usize) -> Result<&[u8], Infallible> {
        self.header(at)
    }
}

/// A file that is read in chunks. Where only headers are scanned, the bytes between chunks are not read.
struct Chunks<'a> {
    file: &'a File,
    position: u64,
    end: u64,
    chunk: &'a mut Chunk,
    /// The positions of the bytes in `chunk`.
    held: Range<u64>,
    /// Size of the next chunk, unless a batch is larger.
    chunk_bytes: usize,
    most_chunk_bytes: usize,
}

impl Chunks<'_> {
    /// The bytes from `position` on, at least `least` of the `left` ones.
    fn at_least(&mut self, position: u64, least: usize, left: usize) -> io::Result<&[u8]> {
        let kept = self.held.end.saturating_sub(position) as usize;
        if kept < least || position > self.held.end {
            let bytes = self.chunk_bytes.max(least).min(left);
            self.chunk_bytes = (2 * self.chunk_bytes).min(self.most_chunk_bytes);
            self.chunk.fill(self.file, position, kept, bytes)?;
            self.held = position..position + bytes as u64;
        }
        Ok(&self.chunk.bytes()[(position - self.held.start) as usize..])
    }

    fn left(&self, position: u64) -> usize {
        usize::try_from(self.end.saturating_sub(position)).unwrap_or(usize::MAX)
    }
}

impl Source for Chunks<'_> {
    type Error = io::Error;

    fn header(&mut self, at: usize) -> io::Result<&[u8]> {
        let position = self.position.saturating_add(at as u64);
        let left = self.left(position);
        let least = left.min(HEADER_BYTES);
        Ok(&self.at_least(position, least, left)?[..least])
    }

    fn batch(&mut self, at: usize, total: usize) -> io::Result<&[u8]> {
        let position = self.position.saturating_add(at as u64);
        let left = self.left(position);
        // Of a batch that ends after the end, no more is read than its header.
        let least = if total <= left { total } else { left.min(HEADER_BYTES) };
        self.at_least(position, least, left)
    }
}

fn scan_from<S: Source>(
    source: S,
    options: Options,
    mut is_last: impl FnMut(&BatchRow, &[u8]) -> bool,
) -> Result<Scanned, S::Error> {
    let (order, is_full) = (options.order, options.max_rows == 0);
    let mut scan = Scan { source, options, order, at: 0, is_full, rows: Vec::new(), skipped: Vec::new() };
    let End { status, needed_bytes, damage } = loop {
        if let Some(end) = scan.step(&mut is_last)? {
            break end;
        }
    };
    let position = scan.position();
    let Scan { rows, skipped, order, .. } = scan;
    let next_offset = rows.last().map(|row| {
        let after_last = row.last_offset.wrapping_add(1);
        order.map_or(after_last, |mut order| order.accept(after_last))
    });
    Ok(Scanned { rows, skipped, stopped: Stopped { status, position, next_offset, needed_bytes, damage } })
}

struct Scan<'a, S> {
    source: S,
    options: Options<'a>,
    order: Option<Order<'a>>,
    /// Index of the next batch.
    at: usize,
    is_full: bool,
    rows: Vec<BatchRow>,
    skipped: Vec<Skipped>,
}

/// Why a scan ends.
struct End {
    status: Status,
    needed_bytes: usize,
    damage: Option<Damage>,
}

impl End {
    fn new(status: Status) -> Self {
        End { status, needed_bytes: 0, damage: None }
    }

    fn partial(needed_bytes: usize) -> Self {
        End { needed_bytes, ..End::new(Status::Partial) }
    }
}

impl<S: Source> Scan<'_, S> {
    fn position(&self) -> i64 {
        self.options.base_position.saturating_add(self.at as i64)
    }

    /// Takes the next batch, or skips damage. Returns why the scan ends, if it does.
    #[inline(always)]
    fn step(&mut self, is_last: &mut impl FnMut(&BatchRow, &[u8]) -> bool) -> Result<Option<End>, S::Error> {
        let rest = self.source.header(self.at)?;
        if (self.is_full || self.skipped.len() >= MOST_SKIPPED) && !rest.is_empty() {
            return Ok(Some(End::new(Status::Limit)));
        }
        match next(rest, 0, self.options.max_batch_bytes) {
            Next::Batch(prefix) => self.batch(&prefix, is_last),
            Next::End => Ok(Some(End::new(Status::End))),
            Next::Zeros => Ok(Some(End::new(Status::Zeros))),
            Next::Partial { needed } => Ok(Some(End::partial(needed))),
            Next::Damaged { fault, size_bytes, offset } => {
                match next_newer(rest, self.options.max_batch_bytes).filter(|_| self.options.accept_newer) {
                    Some(prefix) => self.batch(&prefix, is_last),
                    None => self.damaged(Damage { fault, position: self.position(), size_bytes, offset }),
                }
            }
        }
    }

    #[inline(always)]
    fn batch(
        &mut self,
        prefix: &Prefix,
        is_last: &mut impl FnMut(&BatchRow, &[u8]) -> bool,
    ) -> Result<Option<End>, S::Error> {
        let (position, check_crcs) = (self.position(), self.options.check_crcs);
        let damage = |fault| Damage { fault, position, size_bytes: prefix.total as i64, offset: prefix.offset };
        let header = self.source.header(self.at)?;
        if header.len() < prefix.header_bytes() {
            return Ok(Some(End::partial(prefix.header_bytes())));
        }
        // Only a right CRC proves that a batch of another magic is a newer one.
        let magic = header[MAGIC_AT] as i8;
        let newer = (magic != prefix.magic).then(|| damage(unknown_magic(magic)));
        if let Some((skipper, order)) = self.options.skipper.zip(self.order) {
            match skipper.claimed(prefix, header, position, &order) {
                Claimed::False(fault) => {
                    let damage = newer.clone().filter(|_| fault.kind == Kind::Crc).unwrap_or_else(|| damage(fault));
                    if self.skip(damage)?.is_none() {
                        return Ok(None);
                    }
                }
                // The caller must decide, and continues from here.
                Claimed::Unknown if !self.skipped.is_empty() => return Ok(Some(End::new(Status::Limit))),
                Claimed::Unknown | Claimed::Trusted => {}
            }
        }
        let rest = self.source.batch_or_header(self.at, prefix.total, check_crcs)?;
        let row = match row(prefix, rest, position, check_crcs) {
            Ok(row) => row,
            Err(needed) => return Ok(Some(End::partial(needed))),
        };
        if let Some(damage) = newer.filter(|_| row.is_valid == Some(false)) {
            return self.damaged(damage);
        }
        if let Some(order) = &mut self.order {
            if let Err(fault) = check_order(order, &row, rest) {
                return self.damaged(damage(fault));
            }
            if row.is_valid == Some(false) && self.options.skipper.is_some() {
                let wrong = Fault::new(Kind::Crc, WRONG_CRC);
                if self.skip(damage(wrong))?.is_none() {
                    return Ok(None);
                }
            } else {
                order.accept(row.last_offset.wrapping_add(1));
            }
        }
        let rest = self.source.batch_or_header(self.at, prefix.total, check_crcs)?;
        self.is_full = is_last(&row, rest) || self.rows.len() + 1 >= self.options.max_rows;
        self.at += prefix.total;
        self.rows.push(row);
        Ok(None)
    }

    /// Skips damage, or ends the scan.
    fn damaged(&mut self, damage: Damage) -> Result<Option<End>, S::Error> {
        let damage = self.skip(damage)?;
        Ok(damage.map(|damage| End { damage: Some(damage), ..End::new(Status::Damaged) }))
    }

    /// Skips damage up to the next batch. Returns the damage if the caller must find that.
    fn skip(&mut self, damage: Damage) -> Result<Option<Damage>, S::Error> {
        let Some((skipper, order)) = self.options.skipper.zip(self.order) else { return Ok(Some(damage)) };
        let near = self.source.batch(self.at, NEAR_BYTES)?;
        Ok(match skipper.skip(damage, near, &order, self.options.max_batch_bytes, self.rows.len()) {
            Ok((skipped, bytes)) => {
                self.skipped.push(skipped);
                self.at += bytes;
                None
            }
            Err(damage) => Some(damage),
        })
    }
}

/// segment.damage has the same message.
const WRONG_CRC: &str =
    "expected the checksum of the header, found another one; the batch changed after it was written";

/// Checks that the batch of `row`, with which `rest` begins, is in order.
fn check_order(order: &Order, row: &BatchRow, rest: &[u8]) -> Result<(), Fault> {
    let last = row.last_offset;
    let lacks_offset = row.base_offset.is_none() && row.magic == 1 && last == 0;
    if lacks_offset {
        return Ok(());
    }
    let (first, total) = (row.base_offset.unwrap_or(last), row.size_in_bytes as usize);
    order.check(&Claim { first, last, rest, total, position: row.position })
}

/// The row of the batch with which `rest` begins, and which has its whole header there. The error is how many bytes are
/// needed for the row.
fn row(prefix: &Prefix, rest: &[u8], position: i64, check_crcs: bool) -> Result<BatchRow, usize> {
    match rest.first_chunk::<V2_HEADER>() {
        Some(header) if prefix.magic == 2 => v2_row(&V2Header::parse(header), prefix, rest, position, check_crcs),
        _ => legacy_row(&LegacyHeader::parse(rest), prefix, rest, position, check_crcs),
    }
}

fn v2_row(header: &V2Header, prefix: &Prefix, rest: &[u8], position: i64, check_crcs: bool) -> Result<BatchRow, usize> {
    let has_control_record = header.control() && header.record_count > 0;
    let needed = match (check_crcs, has_control_record) {
        (true, _) => prefix.total,
        (_, true) => prefix.total.min(V2_HEADER + CONTROL_BYTES),
        _ => V2_HEADER,
    };
    let known = rest.get(..needed).ok_or(needed)?;
    let horizon = header.has_delete_horizon();
    Ok(BatchRow {
        position,
        size_in_bytes: prefix.total as i32,
        magic: 2,
        base_offset: Some(header.base_offset),
        last_offset: header.last_offset(),
        record_count: Some(header.record_count),
        codec: header.codec(),
        timestamp_type: i32::from(header.log_append_time()),
        base_timestamp: (!horizon).then_some(header.base_timestamp),
        max_timestamp: header.max_timestamp,
        delete_horizon_ms: horizon.then_some(header.base_timestamp),
        leader_epoch: header.leader_epoch,
        producer_id: header.producer_id,
        producer_epoch: header.producer_epoch.into(),
        base_sequence: header.base_sequence,
        last_sequence: header.sequence(header.last_offset_delta),
        is_transactional: header.transactional(),
        is_control: header.control(),
        control_type: match has_control_record && header.codec() == Codec::None {
            true => control_type(&known[V2_HEADER..known.len().min(V2_HEADER + CONTROL_BYTES)]),
            false => None,
        },
        attributes: header.attributes.into(),
        crc: header.crc.into(),
        is_valid: check_crcs.then(|| header.check_crc(known).is_ok()),
    })
}

fn legacy_row(
    header: &LegacyHeader,
    prefix: &Prefix,
    rest: &[u8],
    position: i64,
    check_crcs: bool,
) -> Result<BatchRow, usize> {
    let needed = if check_crcs { prefix.total } else { prefix.header_bytes() };
    let known = rest.get(..needed).ok_or(needed)?;
    let plain = !header.is_wrapper();
    Ok(BatchRow {
        position,
        size_in_bytes: prefix.total as i32,
        magic: header.magic.into(),
        base_offset: plain.then_some(header.offset),
        last_offset: header.offset,
        record_count: plain.then_some(1),
        codec: header.codec(),
        timestamp_type: header.timestamp_type(),
        base_timestamp: None,
        max_timestamp: header.timestamp,
        delete_horizon_ms: None,
        leader_epoch: -1,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        last_sequence: -1,
        is_transactional: false,
        is_control: false,
        control_type: None,
        attributes: header.attributes.into(),
        crc: header.crc.into(),
        is_valid: check_crcs.then(|| header.check_crc(known).is_ok()),
    })
}

/// Type of a control record (ControlRecordType): 0 ABORT, 1 COMMIT ... None if the key contains no type.
fn control_type(record: &[u8]) -> Option<i32> {
    let mut at = 0;
    read_i32(record, &mut at)?; // length
    at += 1; // attributes
    read_i64(record, &mut at)?; // timestamp delta
    read_i32(record, &mut at)?; // offset delta
    let key_bytes = read_i32(record, &mut at)?;
    let key = record.get(at..at + 4)?;
    (key_bytes >= 4 && i16_at(key, 0) >= 0).then(|| i16_at(key, 2).into())
}
