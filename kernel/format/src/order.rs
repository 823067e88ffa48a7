//! Whether the batches of a segment come in the order of their offsets, which no CRC covers.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::big_endian::i32_at;
use crate::damage::{Fault, Kind};
use crate::header::{Next, Prefix, next};

/// What is known of the offsets of the batches that follow.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    /// No batch begins below it: the offset behind the batches before.
    next: i64,
    /// No batch reaches it: where the next segment begins.
    end: i64,
    /// Where to find a header that the buffer does not hold.
    file: &'a File,
}

/// A batch, and the offsets that its header claims. Of a wrapper only the last one is known: both are that.
pub struct Claim<'a> {
    pub first: i64,
    pub last: i64,
    /// The buffer from the batch on.
    pub rest: &'a [u8],
    pub total: usize,
    pub position: i64,
}

impl<'a> Order<'a> {
    pub fn new(next: i64, end: i64, file: &'a File) -> Self {
        Order { next, end, file }
    }

    /// Whether the batch is in order.
    #[inline]
    pub fn check(&self, claim: &Claim) -> Result<(), Fault> {
        let fits = claim.first == self.next && claim.first <= claim.last && claim.last < self.end;
        if fits { Ok(()) } else { self.check_closely(claim) }
    }

    /// Whether the records in a wrapper, which alone tell their offsets, lie behind the batch before.
    pub fn check_wrapped(&self, first: i64, last: i64) -> Result<(), Fault> {
        if first >= self.next {
            return Ok(());
        }
        Err(out_of_order(&format!("from {} on, behind the batch before", self.next), first, last))
    }

    /// The batch was accepted; the one behind it begins at `next_offset` or later.
    pub fn accept(&mut self, next_offset: i64) {
        self.next = self.next.max(next_offset);
    }

    fn check_closely(&self, claim: &Claim) -> Result<(), Fault> {
        let (next, &Claim { first, last, .. }) = (self.next, claim);
        let expected = if first < next {
            format!("from {next} on, behind the batch before")
        } else if last < first {
            format!("from {first} on")
        } else if last >= self.end {
            format!("from {next} to before {}, where the next segment begins", self.end)
        } else if let Some(behind) = self.leapt_over(claim) {
            format!("from {next} to before {behind}, where the batch behind begins")
        } else {
            return Ok(());
        };
        Err(out_of_order(&expected, first, last))
    }

    /// The offset of the batch behind, if the one at hand has leapt over it: that one fits to what came before, and has no
    /// room between the one at hand and what follows.
    fn leapt_over(&self, claim: &Claim) -> Option<i64> {
        if claim.first == self.next {
            return None;
        }
        let second = self.header(claim, claim.total)?;
        let overlaps = second.offset <= claim.last && second.offset != claim.first; // the same: it is there twice
        if !overlaps || second.offset < self.next {
            return None;
        }
        let third = self.header(claim, claim.total + second.total);
        let has_room = third.is_some_and(|third| third.offset.saturating_sub(claim.last) > second.offsets);
        (!has_room).then_some(second.offset)
    }

    /// The header that stands `at` bytes behind the beginning of the batch; None if no batch can begin so.
    fn header(&self, claim: &Claim, at: usize) -> Option<Behind> {
        let mut bytes = [0; DELTA_END];
        let known = match claim.rest.get(at..).filter(|rest| rest.len() >= DELTA_END) {
            Some(rest) => rest,
            None => {
                let read = self.file.read_at(&mut bytes, (claim.position as u64).saturating_add(at as u64)).ok()?;
                &bytes[..read]
            }
        };
        match next(&known[..known.len().min(DELTA_END)], 0, usize::MAX) {
            Next::Batch(Prefix { offset, total, magic: 2 }) => {
                let delta = known.get(DELTA_AT..DELTA_END)?;
                Some(Behind { offset, total, offsets: i64::from(i32_at(delta, 0)).max(0) + 1 })
            }
            Next::Batch(Prefix { offset, total, .. }) => Some(Behind { offset, total, offsets: 1 }),
            _ => None,
        }
    }
}

fn out_of_order(expected: &str, first: i64, last: i64) -> Fault {
    Fault::new(Kind::Order, format!("expected a batch with offsets {expected}, found {first} to {last}"))
}

/// What is asked of a header behind the batch at hand. A wrapper is taken for one offset: it does not tell how many.
struct Behind {
    offset: i64,
    total: usize,
    offsets: i64,
}

/// Where a v2 batch has the difference of its last and its base offset.
const DELTA_AT: usize = 23;
const DELTA_END: usize = DELTA_AT + 4;
