//! The options of a rewrite, and its statistics.

use roaring::RoaringTreemap;

use super::cursor::BatchHeader;

/// Options of `rewrite`, with the names of native_log.records.rewrite.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    pub base_position: i64,
    pub survivors: &'a RoaringTreemap,
    pub survivors_end: i64,
    pub now_ms: i64,
    pub delete_horizon_ms: Option<i64>,
    /// One verdict for each batch. None: no flags for all of them.
    pub verdicts: Option<&'a [u8]>,
    pub legacy_tombstones_kept: bool,
    pub nulled: Option<&'a RoaringTreemap>,
    pub check_crcs: bool,
    pub max_batch_bytes: usize,
    /// Stop before the next batch once there are this many bytes of output.
    pub max_bytes: usize,
    /// Some: stop before transactional batches, control batches, and batches with one of these (ascending) last offsets.
    pub judged: Option<&'a [i64]>,
}

impl Options<'_> {
    /// Whether the call stops before a batch with this header.
    pub fn stops_before(&self, header: &BatchHeader, output_bytes: usize) -> bool {
        let is_judged = |judged: &[i64]| match header {
            BatchHeader::V2(header) if header.transactional() || header.control() => true,
            BatchHeader::V2(header) => judged.binary_search(&header.last_offset()).is_ok(),
            BatchHeader::Legacy(header) => judged.binary_search(&header.offset).is_ok(),
        };
        output_bytes >= self.max_bytes || self.judged.is_some_and(is_judged)
    }
}

/// Flags that say what to do with a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict(u8);

impl Verdict {
    pub fn of(flags: u8) -> Self {
        Verdict(flags)
    }

    /// Drop all records.
    pub fn discard(self) -> bool {
        self.0 & 1 != 0
    }

    /// Keep the header if no record is kept.
    pub fn retain_empty(self) -> bool {
        self.0 & 2 != 0
    }

    /// Set a delete horizon if the batch has none.
    pub fn set_horizon(self) -> bool {
        self.0 & 4 != 0
    }
}

/// Statistics of a rewrite, with the names of Python's RewriteStats.
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
