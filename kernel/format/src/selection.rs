//! Which records a call is asked for: by their offsets, and by the transactions they are of.

use crate::header::{LegacyHeader, V2Header};

/// The records from `start_offset` to before `end_offset`, as far as there are bounds, but for aborted ones.
#[derive(Default)]
pub struct Selection {
    pub start_offset: Option<i64>,
    pub end_offset: Option<i64>,
    pub aborted: Aborted,
}

impl Selection {
    /// Whether the header alone says that none of the batch's records are wanted.
    #[inline]
    pub fn passes_v2(&self, header: &V2Header) -> bool {
        // A negative delta is a lie that must be found out, not passed over.
        let below = self.is_below(header.last_offset()) && header.last_offset_delta >= 0;
        below || self.is_above(header.base_offset) || self.aborted.covers(header)
    }

    /// The same of a message, or of a wrapper, whose first offset its header does not tell.
    pub fn passes_legacy(&self, header: &LegacyHeader) -> bool {
        let below = self.is_below(header.offset) && !header.lacks_offset();
        below || (!header.is_wrapper() && self.is_above(header.offset))
    }

    /// Whether a record of a batch that is not passed by is wanted.
    #[inline(always)]
    pub fn has(&self, offset: i64) -> bool {
        !self.is_below(offset) && !self.is_above(offset)
    }

    /// The offsets for which `has` is true.
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

/// The offsets wanted, both inclusive.
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

/// Transactions whose batches are passed over.
#[derive(Default)]
pub struct Aborted {
    /// Producer id, first offset, last offset; sorted by the first two.
    ranges: Vec<[i64; 3]>,
}

impl Aborted {
    /// From triples of native 64-bit integers. None if the bytes are not whole triples.
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

    pub fn covers(&self, header: &V2Header) -> bool {
        if self.ranges.is_empty() || !header.transactional() || header.control() {
            return false;
        }
        let key = (header.producer_id, header.base_offset);
        let behind = self.ranges.partition_point(|&[producer_id, first, _]| (producer_id, first) <= key);
        behind > 0 && {
            let [producer_id, _, last] = self.ranges[behind - 1];
            producer_id == header.producer_id && header.base_offset <= last
        }
    }
}
