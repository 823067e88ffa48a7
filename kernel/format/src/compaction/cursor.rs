//! The headers of the batches in a buffer, one after the other.

use crate::damage::{Damage, Fault};
use crate::header::{LegacyHeader, Next, Prefix, V2_HEADER, V2Header, next};
use crate::order::{Claim, Order};
use crate::status::{Status, Stopped};

/// The header of a batch.
#[derive(Clone, Copy, Debug)]
pub enum BatchHeader {
    V2(V2Header),
    Legacy(LegacyHeader),
}

impl BatchHeader {
    /// The first and the last offset of the batch. Both are the last offset if the first is not known. None if neither is.
    fn offsets(&self) -> Option<(i64, i64)> {
        match self {
            BatchHeader::V2(header) => Some((header.base_offset, header.last_offset())),
            BatchHeader::Legacy(header) if header.lacks_offset() => None,
            BatchHeader::Legacy(header) => Some((header.offset, header.offset)),
        }
    }
}

/// Why no batch can be used.
pub enum Stop {
    Status(Status),
    Partial { needed: usize },
    Damaged { fault: Fault, size_bytes: i64, offset: i64 },
}

/// Iterates over the batches of a buffer.
pub struct Cursor<'a> {
    buffer: &'a [u8],
    base_position: i64,
    max_batch_bytes: usize,
    at: usize,
    order: Option<Order<'a>>,
    /// Last offset + 1 of the last batch used or skipped.
    pub next_offset: Option<i64>,
}

impl<'a> Cursor<'a> {
    pub fn new(buffer: &'a [u8], base_position: i64, max_batch_bytes: usize, order: Option<Order<'a>>) -> Self {
        Cursor { buffer, base_position, max_batch_bytes, at: 0, order, next_offset: None }
    }

    /// The prefix and the header of the current batch.
    pub fn header(&self) -> Result<(Prefix, BatchHeader), Stop> {
        let prefix = match next(self.buffer, self.at, self.max_batch_bytes) {
            Next::Batch(prefix) => prefix,
            Next::End => return Err(Stop::Status(Status::End)),
            Next::Zeros => return Err(Stop::Status(Status::Zeros)),
            Next::Partial { needed } => return Err(Stop::Partial { needed }),
            Next::Damaged { fault, size_bytes, offset } => return Err(Stop::Damaged { fault, size_bytes, offset }),
        };
        let rest = self.rest();
        if rest.len() < prefix.header_bytes() {
            return Err(Stop::Partial { needed: prefix.header_bytes() });
        }
        let header = match rest.first_chunk::<V2_HEADER>() {
            Some(header) if prefix.magic == 2 => BatchHeader::V2(V2Header::parse(header)),
            _ => BatchHeader::Legacy(LegacyHeader::parse(rest)),
        };
        if let Some(order) = &self.order
            && let Some((first, last)) = header.offsets()
        {
            let claim = Claim { first, last, rest, total: prefix.total, position: self.position() };
            order.check(&claim).map_err(|fault| Stop::fault(fault, &prefix))?;
        }
        Ok((prefix, header))
    }

    /// Checks the offsets in a wrapper: see Order::check_wrapped.
    pub fn check_wrapped(&self, first: i64, last: i64) -> Result<(), Fault> {
        self.order.map_or(Ok(()), |order| order.check_wrapped(first, last))
    }

    /// The bytes of the current batch.
    pub fn batch(&self, prefix: &Prefix) -> Result<&'a [u8], Stop> {
        self.rest().get(..prefix.total).ok_or(Stop::Partial { needed: prefix.total })
    }

    /// Moves to the next batch, which begins at offset `following` or later. `next_offset` is where the caller continues.
    pub fn advance(&mut self, prefix: &Prefix, following: i64, next_offset: i64) {
        self.at += prefix.total;
        if let Some(order) = &mut self.order {
            order.accept(following);
        }
        self.next_offset = Some(next_offset);
    }

    pub fn position(&self) -> i64 {
        self.base_position.saturating_add(self.at as i64)
    }

    pub fn stopped(&self, stop: Stop) -> Stopped {
        let position = self.position();
        let (status, needed_bytes, damage) = match stop {
            Stop::Status(status) => (status, 0, None),
            Stop::Partial { needed } => (Status::Partial, needed, None),
            Stop::Damaged { fault, size_bytes, offset } => {
                (Status::Damaged, 0, Some(Damage { fault, position, size_bytes, offset }))
            }
        };
        Stopped { status, position, next_offset: self.next_offset, needed_bytes, damage }
    }

    fn rest(&self) -> &'a [u8] {
        self.buffer.get(self.at..).unwrap_or_default()
    }
}

impl Stop {
    /// A fault in the current batch.
    pub fn fault(fault: Fault, prefix: &Prefix) -> Self {
        Stop::Damaged { fault, size_bytes: prefix.total as i64, offset: prefix.offset }
    }
}
