//! Check the CRCs and the records of the batches in a file without keeping the records.

use std::fs::File;
use std::io;
use std::ops::RangeInclusive;

use crate::chunk::with_chunk;
use crate::common_records::CommonRecords;
use crate::damage::Skipped;
use crate::decode::{self, decode};
use crate::order::Order;
use crate::record::{Record, RecordHeader};
use crate::scan::{self, BatchRow, Scanned, scan_file};
use crate::selection::Selection;
use crate::sink::{BatchValues, RecordSink};
use crate::skip::Skipper;
use crate::status::{Status, Stopped};

/// How much of a file is read at a time. A call that soon ends at damage must not read much more than it uses. The larger
/// chunks are small enough to be still in the processor's cache when they are checked, twice.
const CHUNK_BYTES: RangeInclusive<usize> = 64 << 10..=512 << 10;

/// What is checked, when to stop, and the largest batch that is read, compressed or decompressed.
pub struct Options<'a> {
    pub check_records: bool,
    /// Whether a batch of a higher magic than 2 with a right CRC is one whose records are invalid, and not damage.
    pub accept_newer: bool,
    pub max_rows: usize,
    pub max_bytes: u64,
    pub max_batch_bytes: usize,
    pub order: Option<Order<'a>>,
    pub skipper: Option<&'a Skipper>,
}

/// The batches that were checked.
pub struct Checked {
    pub rows: Vec<BatchRow>,
    pub stopped: Stopped,
    /// Positions of the batches with a right CRC whose records are invalid.
    pub invalid_records: Vec<i64>,
    /// The damage after which the check continued.
    pub skipped: Vec<Skipped>,
}

/// Scans a file from `position` to `end` and checks the CRC of each batch and, if `check_records`, its records. Stops with
/// Limit after a batch with a wrong CRC, after `max_rows` batches, and after batches of `max_bytes` bytes or more.
///
/// Records are invalid if they cannot be decoded, or if their offsets do not increase from the base offset of their batch to
/// its last offset, after those of the batch before. With a `skipper` and an order, the check continues after damage if the
/// next batch is near. Fails with UnexpectedEof if the file ends before `end`.
pub fn check_file(file: &File, position: i64, end: u64, options: &Options) -> io::Result<Checked> {
    let &Options { check_records, accept_newer, max_rows, max_bytes, max_batch_bytes, order, skipper } = options;
    let options = scan::Options {
        check_crcs: true,
        accept_newer,
        order,
        skipper,
        ..scan::Options::new(position, max_rows, max_batch_bytes)
    };
    let mut previous = order.map_or(-1, |order| order.next_offset().wrapping_sub(1));
    let (mut invalid_records, mut bytes) = (Vec::new(), 0);
    let is_last = |row: &BatchRow, rest: &[u8]| {
        let is_valid = row.is_valid == Some(true);
        let batch = &rest[..row.size_in_bytes as usize];
        if check_records && is_valid && !has_valid_records(row, batch, previous, max_batch_bytes) {
            invalid_records.push(row.position);
        }
        previous = row.last_offset;
        bytes += batch.len() as u64;
        !is_valid || bytes >= max_bytes
    };
    let scanned = with_chunk(|chunk| scan_file(file, end, options, chunk, CHUNK_BYTES, is_last))?;
    let Scanned { rows, skipped, stopped } = scanned;
    Ok(Checked { rows, stopped, invalid_records, skipped })
}

fn has_valid_records(row: &BatchRow, batch: &[u8], previous: i64, max_batch_bytes: usize) -> bool {
    let options = decode::Options {
        base_position: 0,
        selection: Selection::default(),
        conditions: None,
        order: None,
        max_rows: None,
        max_bytes: None,
        check_crcs: false,
        max_batch_bytes,
        control: true,
        skipper: None,
    };
    // The offset of a wrapper is that of its last message.
    let least = row.base_offset.unwrap_or(i64::MIN);
    let mut offsets = OffsetCheck { previous, least, most: row.last_offset, is_valid: true, records: 0 };
    decode(batch, &options, &mut offsets).status == Status::End && offsets.is_valid
}

/// Checks that offsets increase after `previous`, from `least` to at most `most`.
struct OffsetCheck {
    previous: i64,
    least: i64,
    most: i64,
    is_valid: bool,
    records: usize,
}

impl OffsetCheck {
    #[inline(always)]
    fn check(&mut self, offset: i64) {
        self.is_valid &= self.previous < offset && self.least <= offset && offset <= self.most;
        self.previous = offset;
        self.records += 1;
    }
}

impl RecordSink for OffsetCheck {
    fn record_count(&self) -> usize {
        self.records
    }

    fn size_bytes(&self) -> usize {
        0
    }

    fn has_room(&self, _records: usize, _bytes: usize) -> bool {
        true
    }

    fn append(&mut self, record: &Record, _headers: &[RecordHeader]) {
        self.check(record.offset);
    }

    fn append_common(&mut self, records: &mut CommonRecords) {
        let header = records.header();
        records.for_each_block::<true>(|block| block.iter().for_each(|record| self.check(record.offset(header))));
    }

    fn end_batch(&mut self, _batch: BatchValues) {}

    fn discard_batch(&mut self) {}
}
