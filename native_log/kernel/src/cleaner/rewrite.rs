//! A buffer of batches, written again without the records that do not survive.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use roaring::RoaringTreemap;

use super::cursor::{Cursor, Header, Stop};
use super::filter::Filter;
use crate::decode::{DECOMPRESSOR, Status, Stopped};
use crate::header::{MAGIC_END, V2_HEADER};

/// So much of a file is read at a time where batches are small, and of what follows one that was passed over.
const CHUNK: usize = 64 << 10;
const PEEK: usize = 4 << 10;
/// A batch of so many bytes is read by itself, if it has to be.
const LARGE_BATCH: usize = 16 << 10;

/// What a call is asked for; the names are those of native_log.records.rewrite.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    pub base_position: i64,
    pub survivors: &'a RoaringTreemap,
    pub survivors_end: i64,
    pub now_ms: i64,
    pub delete_horizon_ms: Option<i64>,
    /// One for each batch; None: FILTER for all.
    pub verdicts: Option<&'a [u8]>,
    pub legacy_tombstones_kept: bool,
    pub nulled: Option<&'a RoaringTreemap>,
    pub check_crcs: bool,
    pub max_batch_bytes: usize,
    /// Stops before a batch once there are so many bytes of output.
    pub max_bytes: usize,
    /// Some: stops before batches of transactions, control batches, and those with one of these (ascending) last offsets.
    pub judged: Option<&'a [i64]>,
}

impl Options<'_> {
    fn stops_before(&self, header: &Header, output_bytes: usize) -> bool {
        let is_judged = |judged: &[i64]| match header {
            Header::V2(header) if header.transactional() || header.control() => true,
            Header::V2(header) => judged.binary_search(&header.last_offset()).is_ok(),
            Header::Legacy(header) => judged.binary_search(&header.offset).is_ok(),
        };
        output_bytes >= self.max_bytes || self.judged.is_some_and(is_judged)
    }
}

/// What is done with a batch: flags.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict(u8);

impl Verdict {
    /// Keep no record.
    pub fn discard(self) -> bool {
        self.0 & 1 != 0
    }

    /// If no record is kept, write the header alone.
    pub fn retain_empty(self) -> bool {
        self.0 & 2 != 0
    }

    /// Give the batch a delete horizon if it has none.
    pub fn set_horizon(self) -> bool {
        self.0 & 4 != 0
    }
}

/// Sums over batches; the names are those of RewriteStats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub batches_read: u64,
    pub batches_kept: u64,
    pub batches_copied: u64,
    pub batches_emptied: u64,
    pub records_read: u64,
    pub records_kept: u64,
    pub bytes_read: u64,
    pub bytes_kept: u64,
    pub tombstones_kept: u64,
    pub tombstones_dropped: u64,
    pub horizons_set: u64,
}

/// Appends what is left of the batches in `buffer` to `out`.
pub fn rewrite(buffer: &[u8], options: &Options, out: &mut Vec<u8>) -> (Stopped, Stats) {
    DECOMPRESSOR.with_borrow_mut(|decompressor| {
        let mut filter = Filter::new(options, decompressor, out);
        let stopped = filter_batches(buffer, options.base_position, options, &mut filter);
        (stopped, filter.finish())
    })
}

/// The same of a file from `base_position` to `end`. What is dropped by its header is not read, where batches are large;
/// the rest is used while it is in the processor's cache. Verdicts there are none.
pub fn rewrite_file(file: &File, end: u64, options: &Options, out: &mut Vec<u8>) -> io::Result<(Stopped, Stats)> {
    DECOMPRESSOR.with_borrow_mut(|decompressor| {
        let mut filter = Filter::new(options, decompressor, out);
        let (mut chunk, mut wanted) = (Vec::new(), CHUNK);
        let mut position = options.base_position as u64;
        let mut next_offset = None;
        loop {
            let bytes = usize::try_from(end.saturating_sub(position)).unwrap_or(usize::MAX).min(wanted);
            if chunk.len() < bytes {
                chunk.resize(bytes, 0);
            }
            file.read_exact_at(&mut chunk[..bytes], position)?;
            let mut stopped = filter_batches(&chunk[..bytes], position as i64, options, &mut filter);
            next_offset = stopped.next_offset.or(next_offset);
            stopped.next_offset = next_offset;
            let (read_to, behind) = (position + bytes as u64, stopped.position as u64);
            wanted = match stopped.status {
                Status::End if behind > read_to => PEEK,
                Status::End => CHUNK,
                Status::Partial if stopped.needed_bytes < LARGE_BATCH => CHUNK,
                // With the header that follows, which says whether that batch has to be read.
                Status::Partial => stopped.needed_bytes + V2_HEADER,
                // Maybe the first bytes of an offset.
                Status::Zeros if read_to - behind < MAGIC_END as u64 => CHUNK,
                _ => return Ok((stopped, filter.finish())),
            };
            if behind >= end || behind + stopped.needed_bytes as u64 > end || (behind == position && read_to == end) {
                return Ok((stopped, filter.finish()));
            }
            position = behind;
        }
    })
}

fn filter_batches(buffer: &[u8], base_position: i64, options: &Options, filter: &mut Filter) -> Stopped {
    let mut cursor = Cursor::new(buffer, base_position, options.max_batch_bytes);
    let mut verdicts = options.verdicts.map(|verdicts| verdicts.iter());
    let stop = loop {
        let (prefix, header) = match cursor.header() {
            Ok(found) => found,
            Err(stop) => break stop,
        };
        if options.stops_before(&header, filter.output_bytes()) {
            break Stop::Status(Status::Limit);
        }
        let verdict = match verdicts.as_mut().map(Iterator::next) {
            None => Verdict::default(),
            Some(Some(&flags)) => Verdict(flags),
            Some(None) => break Stop::Status(Status::Limit),
        };
        let used = match &header {
            Header::V2(header) => filter.v2_batch(header, &prefix, verdict, &cursor),
            Header::Legacy(header) => filter.legacy_batch(header, &prefix, verdict, &cursor),
        };
        match used {
            Ok(next_offset) => cursor.advance(&prefix, next_offset),
            Err(stop) => break stop,
        }
    };
    cursor.stopped(stop)
}
