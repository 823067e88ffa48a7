//! What every writer of batches writes alike: the header of a v2 batch, and messages and wrappers of magic 0 and 1.

use crate::codec::{Codec, Compressor};
use crate::columns::Record;
use crate::crc::{crc32, crc32c};
use crate::header::{LEGACY_CRC_FROM, LOG_APPEND_TIME, V2_CRC_FROM, V2Header};

/// RecordBatch.NO_TIMESTAMP.
pub const NO_TIMESTAMP: i64 = -1;

impl V2Header {
    /// Fills in the header of a batch, whose records are there, with its size and its CRC. `self.crc` means nothing.
    pub fn write(&self, batch: &mut [u8]) {
        let mut put = |at: usize, bytes: &[u8]| batch[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.base_offset.to_be_bytes());
        put(12, &self.leader_epoch.to_be_bytes());
        put(16, &[2]);
        put(21, &self.attributes.to_be_bytes());
        put(23, &self.last_offset_delta.to_be_bytes());
        put(27, &self.base_timestamp.to_be_bytes());
        put(35, &self.max_timestamp.to_be_bytes());
        put(43, &self.producer_id.to_be_bytes());
        put(51, &self.producer_epoch.to_be_bytes());
        put(53, &self.base_sequence.to_be_bytes());
        put(57, &self.record_count.to_be_bytes());
        let size = batch.len() as i32 - 12;
        batch[8..12].copy_from_slice(&size.to_be_bytes());
        let crc = crc32c(&batch[V2_CRC_FROM..]);
        batch[17..21].copy_from_slice(&crc.to_be_bytes());
    }
}

/// What a wrapper of compressed messages is, beside what it holds.
pub struct Wrapper {
    /// 0 or 1.
    pub magic: i8,
    /// Not none.
    pub codec: Codec,
    /// Some: it is marked LogAppendTime (magic 1), and has this timestamp.
    pub append_time: Option<i64>,
}

impl Wrapper {
    /// Appends a wrapper of messages, at least one; how many bytes they came to when compressed. Offsets within are
    /// relative to the first one's with magic 1, where only their distance to the last one counts (KIP-31).
    pub fn write(
        &self,
        records: &[Record],
        compressor: &mut Compressor,
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> usize {
        let Wrapper { magic, codec, append_time } = *self;
        let flags = if append_time.is_some() { LOG_APPEND_TIME as i8 } else { 0 };
        let zero = if magic == 0 { 0 } else { records[0].offset };
        plain.clear();
        for record in records {
            message(magic, flags, &Record { offset: record.offset.wrapping_sub(zero), ..*record }, plain);
        }
        let mut value = Vec::new();
        compressor.compress(codec, magic, plain, &mut value);
        let latest = records.iter().map(|record| record.timestamp_ms).max().unwrap_or(NO_TIMESTAMP);
        let outer = Record {
            key: None,
            value: Some(&value),
            offset: records[records.len() - 1].offset,
            timestamp_ms: append_time.unwrap_or(latest.max(NO_TIMESTAMP)),
            sequence: -1,
        };
        message(magic, codec.id() as i8 | flags, &outer, out);
        value.len()
    }
}

/// Appends a message of magic 0 or 1.
pub fn message(magic: i8, attributes: i8, record: &Record, out: &mut Vec<u8>) {
    let begins = out.len();
    out.extend(record.offset.to_be_bytes());
    out.extend([0; 8]); // size, CRC
    out.extend([magic as u8, attributes as u8]);
    if magic > 0 {
        out.extend(record.timestamp_ms.to_be_bytes());
    }
    for field in [record.key, record.value] {
        out.extend(field.map_or(-1, |bytes| bytes.len() as i32).to_be_bytes());
        out.extend_from_slice(field.unwrap_or_default());
    }
    let message = &mut out[begins..];
    let size = message.len() as i32 - 12;
    message[8..12].copy_from_slice(&size.to_be_bytes());
    let crc = crc32(&message[LEGACY_CRC_FROM..]);
    message[12..16].copy_from_slice(&crc.to_be_bytes());
}
