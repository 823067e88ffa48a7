//! A buffer of batches, written again without the records that do not survive.

use roaring::RoaringTreemap;

use super::cursor::{Cursor, Header, Stop};
use super::filter::Filter;
use crate::decode::{DECOMPRESSOR, Status, Stopped};

/// What a call is asked for; the names are those of native_log.records.rewrite.
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
        let mut cursor = Cursor::new(buffer, options.base_position, options.max_batch_bytes);
        let mut filter = Filter::new(options, decompressor, out);
        let mut verdicts = options.verdicts.map(|verdicts| verdicts.iter());
        let stop = loop {
            let (prefix, header) = match cursor.header() {
                Ok(found) => found,
                Err(stop) => break stop,
            };
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
        let stats = filter.finish();
        (cursor.stopped(stop), stats)
    })
}
