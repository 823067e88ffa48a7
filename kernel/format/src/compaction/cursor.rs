//! The batches of a buffer, one after the other, with their headers.

use crate::damage::{Damage, Fault};
use crate::header::{LegacyHeader, Next, Prefix, V2_HEADER, V2Header, next};
use crate::order::{Claim, Order};
use crate::status::{Status, Stopped};

/// The header of the batch at hand.
#[derive(Clone, Copy, Debug)]
pub enum Header {
    V2(V2Header),
    Legacy(LegacyHeader),
}

impl Header {
    /// The first and the last offset of the batch; the last twice where only that is known, None where not even that is.
    fn offsets(&self) -> Option<(i64, i64)> {
        match self {
            Header::V2(header) => Some((header.base_offset, header.last_offset())),
            Header::Legacy(header) if header.lacks_offset() => None,
            Header::Legacy(header) => Some((header.offset, header.offset)),
        }
    }
}

/// Why there is no batch, or none to be used.
pub enum Stop {
    Status(Status),
    Partial { needed: usize },
    Damaged { fault: Fault, size_bytes: i64, offset: i64 },
}

/// Goes over a buffer batch by batch.
pub struct Cursor<'a> {
    buffer: &'a [u8],
    base_position: i64,
    max_batch_bytes: usize,
    at: usize,
    order: Option<Order<'a>>,
    /// Last offset + 1 of the last batch gone over.
    pub next_offset: Option<i64>,
}

impl<'a> Cursor<'a> {
    pub fn new(buffer: &'a [u8], base_position: i64, max_batch_bytes: usize, order: Option<Order<'a>>) -> Self {
        Cursor { buffer, base_position, max_batch_bytes, at: 0, order, next_offset: None }
    }

    /// The batch at hand, of which the header is in the buffer.
    pub fn header(&self) -> Result<(Prefix, Header), Stop> {
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
            Some(header) if prefix.magic == 2 => Header::V2(V2Header::parse(header)),
            _ => Header::Legacy(LegacyHeader::parse(rest)),
        };
        if let Some(order) = &self.order
            && let Some((first, last)) = header.offsets()
        {
            let claim = Claim { first, last, rest, total: prefix.total, position: self.position() };
            order.check(&claim).map_err(|fault| Stop::fault(fault, &prefix))?;
        }
        Ok((prefix, header))
    }

    /// See Order::check_wrapped.
    pub fn check_wrapped(&self, first: i64, last: i64) -> Result<(), Fault> {
        self.order.map_or(Ok(()), |order| order.check_wrapped(first, last))
    }

    /// All of the batch at hand.
    pub fn batch(&self, prefix: &Prefix) -> Result<&'a [u8], Stop> {
        self.rest().get(..prefix.total).ok_or(Stop::Partial { needed: prefix.total })
    }

    /// The batch at hand, behind which the offset `behind` comes, has been used or passed over.
    pub fn advance(&mut self, prefix: &Prefix, behind: i64, next_offset: i64) {
        self.at += prefix.total;
        if let Some(order) = &mut self.order {
            order.accept(behind);
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
    /// A fault in the batch at hand.
    pub fn fault(fault: Fault, prefix: &Prefix) -> Self {
        Stop::Damaged { fault, size_bytes: prefix.total as i64, offset: prefix.offset }
    }
}
