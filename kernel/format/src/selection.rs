//! Select records by their offsets, and by the outcome of their transactions.

use crate::header::{LegacyHeader, V2Header};

/// Selects the records from `start_offset` (inclusive) to `end_offset` (exclusive) that are not aborted. None: no bound.
#[derive(Default)]
pub struct Selection {
    pub start_offset: Option<i64>,
    pub end_offset: Option<i64>,
    pub aborted: Aborted,
}

impl Selection {
    /// Whether the offsets in the header show that no record of the batch is selected.
    #[inline]
    pub fn skips_v2(&self, header: &V2Header) -> bool {
        // A negative delta is damage, which must be reported, not skipped.
        let below = self.is_below(header.last_offset()) && header.last_offset_delta >= 0;
        below || self.is_above(header.base_offset)
    }

    /// Whether the header alone shows that the message, or no message in the wrapper, is selected. The header of a wrapper
    /// does not contain its first offset.
    pub fn skips_legacy(&self, header: &LegacyHeader) -> bool {
        let below = self.is_below(header.offset) && !header.lacks_offset();
        below || (!header.is_wrapper() && self.is_above(header.offset))
    }

    /// Whether a record is selected, if its batch is not skipped.
    #[inline(always)]
    pub fn contains(&self, offset: i64) -> bool {
        !self.is_below(offset) && !self.is_above(offset)
    }

    /// The offsets for which `contains` is true.
    pub fn range(&self) -> OffsetRange {
        let last = match self.end_offset {
            None => i64::MAX,
            Some(i64::MIN) => return OffsetRange { first: i64::MAX, last: i64::MIN },
            Some(end) => end - 1,
        };
        OffsetRange { first: self.start_offset.unwrap_or(i64::MIN), last }
    }

    #[inline(always)]
    fn is_below(&self, offset: i64) -> bool {
        self.start_offset.is_some_and(|start| offset < start)
    }

    #[inline(always)]
    fn is_above(&self, offset: i64) -> bool {
        self.end_offset.is_some_and(|end| offset >= end)
    }
}

/// A range of offsets, both inclusive.
#[derive(Clone, Copy, Debug)]
pub struct OffsetRange {
    pub first: i64,
    pub last: i64,
}

impl OffsetRange {
    #[inline(always)]
    pub fn contains(self, offset: i64) -> bool {
        self.first <= offset && offset <= self.last
    }
}

/// Aborted transactions, whose batches are skipped.
#[derive(Default)]
pub struct Aborted {
    /// Producer id, first offset, last offset; sorted by the first two.
    ranges: Vec<[i64; 3]>,
}

impl Aborted {
    /// Reads triples of 64-bit integers in native byte order. None if the bytes are not whole triples.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (triples, rest) = bytes.as_chunks::<24>();
        let field = |triple: &[u8; 24], at: usize| {
            let mut field = [0; 8];
            field.copy_from_slice(&triple[at..at + 8]);
            i64::from_ne_bytes(field)
        };
        let ranges = triples.iter().map(|triple| [0, 8, 16].map(|at| field(triple, at))).collect();
        rest.is_empty().then_some(Aborted { ranges })
    }

    /// Whether the batch belongs to an aborted transaction.
    pub fn covers(&self, header: &V2Header) -> bool {
        if self.ranges.is_empty() || !header.transactional() || header.control() {
            return false;
        }
        let key = (header.producer_id, header.base_offset);
        let index = self.ranges.partition_point(|&[producer_id, first, _]| (producer_id, first) <= key);
        index > 0 && {
            let [producer_id, _, last] = self.ranges[index - 1];
            producer_id == header.producer_id && header.base_offset <= last
        }
    }
}
