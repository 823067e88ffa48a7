//! How far a call came in its input, and why it stopped there.

use crate::damage::Damage;

/// Why a call stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The input ends after a batch.
    End,
    /// The input ends within a batch.
    Partial,
    /// A limit of the call was reached.
    Limit,
    /// The offset map has no room for the next key.
    Full,
    /// Only zeros follow: space that a broker has preallocated and not yet written.
    Zeros,
    /// The next batch is damaged.
    Damaged,
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Status::End => "end",
            Status::Partial => "partial",
            Status::Limit => "limit",
            Status::Full => "full",
            Status::Zeros => "zeros",
            Status::Damaged => "damaged",
        }
    }
}

/// Where and why a call stopped. Python's Decoded and Scanned have the same fields.
#[derive(Debug, PartialEq, Eq)]
pub struct Stopped {
    pub status: Status,
    /// Position of the first byte that was not used. It is beyond the end of the input if the header alone was enough to
    /// skip a batch.
    pub position: i64,
    /// Last offset + 1 of the last batch used or skipped.
    pub next_offset: Option<i64>,
    /// With Partial: how many bytes from `position` on are needed.
    pub needed_bytes: usize,
    /// With Damaged: what is wrong.
    pub damage: Option<Damage>,
}
