//! Check that the batches of a segment are in the order of their offsets, which no CRC covers.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::big_endian::i32_at;
use crate::damage::{Fault, Kind};
use crate::header::{Next, Prefix, next};

/// What is known about the offsets of the following batches.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    /// No batch begins before this offset, the one after the previous batches.
    next: i64,
    /// All offsets are below this one, with which the next segment begins.
    end: i64,
    /// To read a header that the buffer does not contain.
    file: &'a File,
}

/// A batch and the offsets in its header. For a wrapper, both are its last offset, because its first is not known.
pub struct Claim<'a> {
    pub first: i64,
    pub last: i64,
    /// The buffer from the beginning of the batch on.
    pub rest: &'a [u8],
    pub total: usize,
    pub position: i64,
}

impl<'a> Order<'a> {
    pub fn new(next: i64, end: i64, file: &'a File) -> Self {
        Order { next, end, file }
    }

    /// The offset after the previous batches.
    pub fn next_offset(&self) -> i64 {
        self.next
    }

    /// The offset with which the next segment begins.
    pub fn end_offset(&self) -> i64 {
        self.end
    }

    /// The file to which the positions refer.
    pub fn file(&self) -> &File {
        self.file
    }

    /// Checks that the batch is in order.
    #[inline]
    pub fn check(&self, claim: &Claim) -> Result<(), Fault> {
        let fits = claim.first == self.next && claim.first <= claim.last && claim.last < self.end;
        if fits { Ok(()) } else { self.check_closely(claim) }
    }

    /// Checks that the records in a wrapper follow the previous batch. Their offsets are only known after decompression.
    pub fn check_wrapped(&self, first: i64, last: i64) -> Result<(), Fault> {
        if first >= self.next {
            return Ok(());
        }
        Err(out_of_order(&format!("from {} on, after the previous batch", self.next), first, last))
    }

    /// Records that a batch was accepted: the next one begins at `next_offset` or later.
    ///
    /// Returns where it may begin: an earlier batch may end at a greater offset.
    pub fn accept(&mut self, next_offset: i64) -> i64 {
        self.next = self.next.max(next_offset);
        self.next
    }

    fn check_closely(&self, claim: &Claim) -> Result<(), Fault> {
        let (next, &Claim { first, last, .. }) = (self.next, claim);
        let expected = if first < next {
            format!("from {next} on, after the previous batch")
        } else if last < first {
            format!("from {first} on")
        } else if last >= self.end {
            format!("from {next} to before {}, the limit of its segment", self.end)
        } else if let Some(following) = self.skipped_batch(claim) {
            format!("from {next} to before {following}, where the next batch begins")
        } else {
            return Ok(());
        };
        Err(out_of_order(&expected, first, last))
    }

    /// The offset of the next batch if this batch has a wrong offset beyond it. That is so if the next batch fits after the
    /// previous ones and does not fit between this batch and the batch after the next.
    fn skipped_batch(&self, claim: &Claim) -> Option<i64> {
        if claim.first == self.next {
            return None;
        }
        let second = self.header(claim, claim.total)?;
        let overlaps = second.offset <= claim.last && second.offset != claim.first; // the same offset: this is a duplicate
        if !overlaps || second.offset < self.next {
            return None;
        }
        let third = self.header(claim, claim.total + second.total);
        let has_room = third.is_some_and(|third| third.offset.saturating_sub(claim.last) > second.offsets);
        (!has_room).then_some(second.offset)
    }

    /// The header `at` bytes after the beginning of the batch. None if no batch can begin with these bytes.
    fn header(&self, claim: &Claim, at: usize) -> Option<Following> {
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
                Some(Following { offset, total, offsets: i64::from(i32_at(delta, 0)).max(0) + 1 })
            }
            Next::Batch(Prefix { offset, total, .. }) => Some(Following { offset, total, offsets: 1 }),
            _ => None,
        }
    }
}

fn out_of_order(expected: &str, first: i64, last: i64) -> Fault {
    Fault::new(Kind::Order, format!("expected a batch with offsets {expected}, found {first} to {last}"))
}

/// Fields of the header of a following batch. A wrapper counts as one offset, because its header does not contain more.
struct Following {
    offset: i64,
    total: usize,
    offsets: i64,
}

/// Index of the last offset delta in a v2 batch.
const DELTA_AT: usize = 23;
const DELTA_END: usize = DELTA_AT + 4;
