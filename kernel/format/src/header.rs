//! The prefix that all formats share, and the headers of v2 batches and v0/v1 messages.

use crate::big_endian::{i16_at, i32_at, i64_at};
use crate::codec::Codec;
use crate::damage::{Fault, Kind};

/// Offset (i64) and size (i32). The size counts the bytes after these twelve.
pub const PREFIX_BYTES: usize = 12;
/// Index of the magic byte in all formats.
pub const MAGIC_AT: usize = 16;
/// Index of the byte after the magic byte.
pub const MAGIC_END: usize = MAGIC_AT + 1;
const NEWEST_MAGIC: i8 = 2;
/// The smallest size field of any format, that of an empty v0 message. To DataLogInputStream, less is corrupt.
pub const MIN_SIZE: i32 = 14;

/// The largest batch: the size of a segment has 31 bits.
pub const MAX_TOTAL: usize = i32::MAX as usize;

/// What is at a position where a batch is expected.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// The buffer ends here.
    End,
    /// Only zeros up to the end of the buffer: space that was preallocated and not yet written.
    Zeros,
    /// The first bytes of a batch; `needed` bytes are required.
    Partial {
        needed: usize,
    },
    Batch(Prefix),
    Damaged {
        fault: Fault,
        size_bytes: i64,
        offset: i64,
    },
}

/// The fields that every format begins with. They are checked as far as that is possible without the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// v2: base offset. v0/v1: offset of the message, or of a wrapper's last inner message.
    pub offset: i64,
    /// Size of the whole batch, the prefix included. It is at least the size of the format's header.
    pub total: usize,
    pub magic: i8,
}

impl Prefix {
    /// Bytes of the header of this format.
    pub fn header_bytes(&self) -> usize {
        match self.magic {
            0 => V0_HEADER,
            1 => V1_HEADER,
            _ => V2_HEADER,
        }
    }
}

/// Reads the prefix of the batch that begins at `at`.
pub fn next(buffer: &[u8], at: usize, max_batch_bytes: usize) -> Next {
    let Some(rest) = buffer.get(at..).filter(|rest| !rest.is_empty()) else {
        return Next::End;
    };
    let unwritten = rest.len() < PREFIX_BYTES || i32_at(rest, 8) < MIN_SIZE;
    if unwritten && rest.iter().all(|&byte| byte == 0) {
        return Next::Zeros;
    }
    if rest.len() < MAGIC_END {
        return Next::Partial { needed: MAGIC_END };
    }
    let (offset, size, magic) = (i64_at(rest, 0), i32_at(rest, 8), rest[MAGIC_AT] as i8);
    match check_prefix(size, magic, max_batch_bytes) {
        Ok(total) => Next::Batch(Prefix { offset, total, magic }),
        Err(fault) => {
            let size_bytes = if size >= MIN_SIZE { i64::from(size) + PREFIX_BYTES as i64 } else { 0 };
            Next::Damaged { fault, size_bytes, offset }
        }
    }
}

/// Reads the prefix of a batch of a higher magic than 2, as if it had magic 2. None if no such batch begins here.
pub fn next_newer(bytes: &[u8], max_batch_bytes: usize) -> Option<Prefix> {
    let mut start: [u8; MAGIC_END] = *bytes.first_chunk()?;
    if start[MAGIC_AT] as i8 <= NEWEST_MAGIC {
        return None;
    }
    start[MAGIC_AT] = NEWEST_MAGIC as u8;
    match next(&start, 0, max_batch_bytes) {
        Next::Batch(prefix) => Some(prefix),
        _ => None,
    }
}

pub fn unknown_magic(magic: i8) -> Fault {
    Fault::new(Kind::Magic, format!("expected magic 0, 1 or 2, found {magic}"))
}

fn check_prefix(size: i32, magic: i8, max_batch_bytes: usize) -> Result<usize, Fault> {
    if size < MIN_SIZE {
        let message = format!("expected a size field of at least {MIN_SIZE}, found {size}");
        return Err(Fault::new(Kind::Size, message));
    }
    let least = match magic {
        0 => V0_SMALLEST,
        1 => V1_SMALLEST,
        2 => V2_HEADER,
        _ => return Err(unknown_magic(magic)),
    };
    let total = size as usize + PREFIX_BYTES;
    if total > max_batch_bytes.min(MAX_TOTAL) {
        return Err(Fault::too_large(format_args!("one of {total}"), max_batch_bytes));
    }
    if total < least {
        let least = least - PREFIX_BYTES;
        let message = format!("expected a size field of at least {least} with magic {magic}, found {size}");
        return Err(Fault::new(Kind::Size, message));
    }
    Ok(total)
}

/// Size of the header of a v2 batch.
pub const V2_HEADER: usize = 61;
/// Index of the first byte that the CRC of a v2 batch covers.
pub const V2_CRC_FROM: usize = 21;
/// Index of the leader epoch in a v2 batch.
pub const LEADER_EPOCH_AT: usize = PREFIX_BYTES;

pub const LOG_APPEND_TIME: i16 = 1 << 3;
pub const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
pub const DELETE_HORIZON: i16 = 1 << 6;

/// The header of a v2 batch.
#[derive(Clone, Copy, Debug)]
pub struct V2Header {
    pub base_offset: i64,
    pub leader_epoch: i32,
    pub crc: u32,
    pub attributes: i16,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub record_count: i32,
}

impl V2Header {
    pub fn parse(b: &[u8; V2_HEADER]) -> Self {
        V2Header {
            base_offset: i64_at(b, 0),
            leader_epoch: i32_at(b, 12),
            crc: i32_at(b, 17) as u32,
            attributes: i16_at(b, 21),
            last_offset_delta: i32_at(b, 23),
            base_timestamp: i64_at(b, 27),
            max_timestamp: i64_at(b, 35),
            producer_id: i64_at(b, 43),
            producer_epoch: i16_at(b, 51),
            base_sequence: i32_at(b, 53),
            record_count: i32_at(b, 57),
        }
    }

    pub fn codec(&self) -> Codec {
        Codec::from_attributes(self.attributes as u8)
    }

    /// Last offset of the batch, even if compaction has removed the record with that offset.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.wrapping_add(i64::from(self.last_offset_delta))
    }

    pub fn log_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME != 0
    }

    pub fn transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    pub fn control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// Log cleaners set this flag since Kafka 3.1 (KIP-534). The base timestamp is then the delete horizon.
    pub fn has_delete_horizon(&self) -> bool {
        self.attributes & DELETE_HORIZON != 0
    }

    /// Timestamp of the record with this timestamp delta, in epoch ms.
    #[inline(always)]
    pub fn timestamp_of(&self, timestamp_delta: i64) -> i64 {
        match self.log_append_time() {
            true => self.max_timestamp,
            // This holds with a delete horizon too: deltas are relative to the value of that field.
            false => self.base_timestamp.wrapping_add(timestamp_delta),
        }
    }

    /// Sequence number of the record with this offset delta, or -1 if the batch has no sequence numbers.
    pub fn sequence(&self, offset_delta: i32) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        // DefaultRecordBatch.incrementSequence: 0 follows 2^31 - 1.
        if self.base_sequence > i32::MAX.wrapping_sub(offset_delta) {
            offset_delta.wrapping_sub(i32::MAX - self.base_sequence).wrapping_sub(1)
        } else {
            self.base_sequence.wrapping_add(offset_delta)
        }
    }

    pub fn check_crc(&self, batch: &[u8]) -> Result<(), Fault> {
        check_crc("CRC-32C of the batch", crate::crc::crc32c(&batch[V2_CRC_FROM..]), self.crc)
    }

    /// Does the same with the CRC of a batch that was not read as a whole.
    pub fn check_computed_crc(&self, computed: u32) -> Result<(), Fault> {
        check_crc("the checksum", computed, self.crc)
    }
}

/// Size of a v0 message before the length of its key.
pub const V0_HEADER: usize = 18;
/// Size of a v1 message before the length of its key.
pub const V1_HEADER: usize = 26;
/// Size of a v0 message without key and value: the header and two lengths.
pub const V0_SMALLEST: usize = V0_HEADER + 8;
/// Size of a v1 message without key and value.
pub const V1_SMALLEST: usize = V1_HEADER + 8;
/// Index of the first byte that the CRC of a v0/v1 message covers.
pub const LEGACY_CRC_FROM: usize = 16;

/// The header of a v0 or v1 message.
#[derive(Clone, Copy, Debug)]
pub struct LegacyHeader {
    pub offset: i64,
    pub crc: u32,
    pub magic: i8,
    pub attributes: i8,
    /// -1 in v0, which has no timestamps.
    pub timestamp: i64,
}

impl LegacyHeader {
    /// Parses a message of magic 0 or 1, which must contain its header.
    pub fn parse(message: &[u8]) -> Self {
        let magic = message[MAGIC_AT] as i8;
        LegacyHeader {
            offset: i64_at(message, 0),
            crc: i32_at(message, 12) as u32,
            magic,
            attributes: message[17] as i8,
            timestamp: if magic == 0 { -1 } else { i64_at(message, 18) },
        }
    }

    /// The codec of a wrapper. v0 and v1 have no codec after lz4, so 4 is as unknown as 5 to 7.
    pub fn codec(&self) -> Codec {
        Codec::from_attributes(self.attributes as u8)
    }

    /// Whether the message is compressed: its value then contains other messages.
    pub fn is_wrapper(&self) -> bool {
        self.codec() != Codec::None
    }

    /// Whether this is a wrapper that may have no offset of its own: some producers leave the offset 0 for the broker to
    /// set (KIP-31). The offsets of the inner messages are then absolute.
    pub fn lacks_offset(&self) -> bool {
        self.is_wrapper() && self.magic == 1 && self.offset == 0
    }

    /// -1 NoTimestampType (v0), 0 CreateTime, 1 LogAppendTime.
    pub fn timestamp_type(&self) -> i32 {
        match self.magic {
            0 => -1,
            _ => i32::from(i16::from(self.attributes) & LOG_APPEND_TIME != 0),
        }
    }

    pub fn header_bytes(&self) -> usize {
        if self.magic == 0 { V0_HEADER } else { V1_HEADER }
    }

    pub fn check_crc(&self, message: &[u8]) -> Result<(), Fault> {
        check_crc("CRC-32", crate::crc::crc32(&message[LEGACY_CRC_FROM..]), self.crc)
    }
}

fn check_crc(what: &str, computed: u32, stored: u32) -> Result<(), Fault> {
    if computed == stored {
        return Ok(());
    }
    let message = format!(
        "expected {what} {stored:#010x} by the header, found {computed:#010x}; the batch changed after it was written"
    );
    Err(Fault::new(Kind::Crc, message))
}
