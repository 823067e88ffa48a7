//! Find the batch that follows damage, if it is near.

use std::os::unix::fs::FileExt;

use super::{NEAR_BYTES, Skipper};
use crate::codec::Decompressor;
use crate::compaction::section::wrapper_content;
use crate::crc::{CRC32, CRC32C};
use crate::damage::{Damage, Kind};
use crate::find::find_batch;
use crate::header::{LEGACY_CRC_FROM, LegacyHeader, Next, Prefix, V0_SMALLEST, V2_CRC_FROM, V2_HEADER, V2Header, next};
use crate::legacy;
use crate::order::Order;

/// A whole batch with a right checksum.
#[derive(Clone, Copy)]
pub struct ValidBatch {
    /// Index of its first byte, from the start of the damage.
    pub at: usize,
    pub first_offset: i64,
}

/// More bytes are needed to find the next batch.
struct Undecided;

/// The header of a batch that may begin at an index.
struct Claim {
    at: usize,
    prefix: Prefix,
    /// As many bytes as the largest header has.
    header: [u8; V2_HEADER],
}

impl Claim {
    fn end(&self) -> usize {
        self.at + self.prefix.total
    }

    fn v2(&self) -> Option<V2Header> {
        (self.prefix.magic == 2).then(|| V2Header::parse(&self.header))
    }

    fn legacy(&self) -> LegacyHeader {
        LegacyHeader::parse(&self.header)
    }

    fn last_offset(&self) -> i64 {
        self.v2().map_or(self.prefix.offset, |header| header.last_offset())
    }
}

/// The bytes near the damage, and what is known of the file.
pub struct Near<'a> {
    /// The bytes from the start of the damage.
    bytes: &'a [u8],
    /// Position of the damage.
    position: i64,
    /// How many bytes the file has from there.
    left: usize,
    max_batch_bytes: usize,
    order: &'a Order<'a>,
    skipper: &'a Skipper,
}

impl<'a> Near<'a> {
    /// `rest` begins with the damage, whose position in the file is `position`.
    pub fn new(
        skipper: &'a Skipper,
        rest: &'a [u8],
        position: i64,
        order: &'a Order<'a>,
        max_batch_bytes: usize,
    ) -> Self {
        let bytes = &rest[..rest.len().min(NEAR_BYTES)];
        Near { bytes, position, left: skipper.left(position), max_batch_bytes, order, skipper }
    }

    /// The batch that follows the damage. None if more bytes are needed to find it, or to describe the damage.
    pub fn next_batch(&self, damage: &Damage) -> Option<ValidBatch> {
        self.try_next_batch(damage).ok()
    }

    fn try_next_batch(&self, damage: &Damage) -> Result<ValidBatch, Undecided> {
        let total = usize::try_from(damage.size_bytes).unwrap_or_default();
        if total == 0 {
            return self.find(1);
        }
        let damaged = self.claim(0)?;
        let is_too_large = damage.kind() == Kind::TooLarge && total <= self.left;
        // The message about a batch with offsets of the next segment is longer.
        let is_of_next_segment = damage.kind() == Kind::Order
            && damaged.as_ref().is_none_or(|damaged| damaged.last_offset() >= self.order.end_offset());
        if is_too_large || is_of_next_segment {
            return Err(Undecided);
        }
        let is_whole = match &damaged {
            Some(damaged) if damage.kind() != Kind::Crc => self.has_valid_crc(damaged)?,
            _ => false,
        };
        let Some(following) = self.valid_batch(total)?.filter(|batch| self.is_in_order(batch)) else {
            return self.find(if is_whole { total } else { 1 });
        };
        let ends_before = |damaged: Claim| damaged.last_offset() == following.first_offset.wrapping_sub(1);
        if is_whole || damaged.is_some_and(ends_before) {
            return Ok(following);
        }
        Ok(self.find_before(&following)?.unwrap_or(following))
    }

    fn is_in_order(&self, batch: &ValidBatch) -> bool {
        (self.order.next_offset()..self.order.end_offset()).contains(&batch.first_offset)
    }

    /// The first batch from `start` on whose offset is in order.
    fn find(&self, mut start: usize) -> Result<ValidBatch, Undecided> {
        let (next_offset, end_offset) = (self.order.next_offset(), self.order.end_offset());
        loop {
            let most = self.max_batch_bytes.min(self.left.saturating_sub(start));
            let at = find_batch(self.bytes, start, next_offset, end_offset, most).ok_or(Undecided)?;
            match self.valid_batch(at)? {
                Some(batch) => return Ok(batch),
                // The batch ends after the near bytes, so `find_batch` did not check its CRC.
                None => start = at + 1,
            }
        }
    }

    /// The first batch after the first byte that ends before `following` begins, and whose offsets are lower.
    fn find_before(&self, following: &ValidBatch) -> Result<Option<ValidBatch>, Undecided> {
        let bytes = &self.bytes[..following.at.min(self.bytes.len())];
        let most = self.max_batch_bytes.min(following.at);
        let mut start = 1;
        while let Some(at) = find_batch(bytes, start, self.order.next_offset(), following.first_offset, most) {
            if let Some(claim) = self.claim(at)?.filter(|claim| claim.end() <= following.at)
                && let Some(batch) = self.validated(&claim)?
            {
                return Ok(Some(batch));
            }
            start = at + 1;
        }
        if following.at <= self.bytes.len() { Ok(None) } else { Err(Undecided) }
    }

    /// The batch at index `at`. None unless it is whole and has a right checksum.
    fn valid_batch(&self, at: usize) -> Result<Option<ValidBatch>, Undecided> {
        self.claim(at)?.map_or(Ok(None), |claim| self.validated(&claim))
    }

    /// The claimed batch; None unless its checksum is right.
    fn validated(&self, claim: &Claim) -> Result<Option<ValidBatch>, Undecided> {
        if !self.has_valid_crc(claim)? {
            return Ok(None);
        }
        let is_wrapper = claim.prefix.magic < 2 && claim.legacy().is_wrapper();
        let first_offset = if is_wrapper { self.first_wrapped_offset(claim)? } else { claim.prefix.offset };
        Ok(Some(ValidBatch { at: claim.at, first_offset }))
    }

    /// The first offset of a wrapper, which only its records have.
    fn first_wrapped_offset(&self, claim: &Claim) -> Result<i64, Undecided> {
        let message = self.bytes.get(claim.at..claim.end()).ok_or(Undecided)?;
        let header = claim.legacy();
        let mut decompressor = Decompressor::default(); // that of the thread may be in use
        let content = wrapper_content(&header, message, &mut decompressor, self.max_batch_bytes);
        let records = content.and_then(|content| legacy::wrapped_records(&header, content, false));
        records.map(|records| records.offsets.first).map_err(|_| Undecided)
    }

    fn has_valid_crc(&self, claim: &Claim) -> Result<bool, Undecided> {
        let (stored, from, checksum) = match claim.v2() {
            Some(header) => (header.crc, V2_CRC_FROM, &CRC32C),
            None => (claim.legacy().crc, LEGACY_CRC_FROM, &CRC32),
        };
        let computed = match self.bytes.get(claim.at + from..claim.end()) {
            Some(bytes) => Some((checksum.of)(bytes)),
            None => self.skipper.far_crc(self.order.file(), &claim.prefix, self.position_of(claim.at)),
        };
        computed.map(|computed| computed == stored).ok_or(Undecided)
    }

    /// What the header at index `at` says. None if no whole batch can begin there.
    fn claim(&self, at: usize) -> Result<Option<Claim>, Undecided> {
        if at.saturating_add(V0_SMALLEST) > self.left {
            return Ok(None);
        }
        let header = self.header(at)?;
        Ok(match next(&header, 0, self.max_batch_bytes.min(self.left - at)) {
            Next::Batch(prefix) => Some(Claim { at, prefix, header }),
            _ => None,
        })
    }

    fn header(&self, at: usize) -> Result<[u8; V2_HEADER], Undecided> {
        if let Some(header) = self.bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            return Ok(*header);
        }
        if !self.skipper.has_whole_file() || self.left - at < V2_HEADER {
            return Err(Undecided);
        }
        let mut header = [0; V2_HEADER];
        let read = self.order.file().read_exact_at(&mut header, self.position_of(at));
        read.map(|()| header).map_err(|_| Undecided)
    }

    fn position_of(&self, at: usize) -> u64 {
        self.position.saturating_add(at as i64) as u64
    }
}
