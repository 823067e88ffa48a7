//! What a rewrite is asked for, batch by batch and as a whole, and the sums that it comes to.

use roaring::RoaringTreemap;

use super::cursor::Header;

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
    /// Whether the call ends before a batch of this header, with so many bytes written.
    pub fn stops_before(&self, header: &Header, output_bytes: usize) -> bool {
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
    pub fn of(flags: u8) -> Self {
        Verdict(flags)
    }

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
