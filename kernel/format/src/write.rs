//! Write the header of a v2 batch, and messages and wrappers of magic 0 and 1.

use crate::codec::{Codec, Compressor};
use crate::crc::{crc32, crc32c};
use crate::damage::{Fault, Kind};
use crate::header::{
    LEGACY_CRC_FROM, LOG_APPEND_TIME, MAX_TOTAL, PREFIX_BYTES, V0_SMALLEST, V1_SMALLEST, V2_CRC_FROM, V2Header,
};
use crate::record::Record;

/// RecordBatch.NO_TIMESTAMP.
pub const NO_TIMESTAMP: i64 = -1;

impl V2Header {
    /// Writes the header of a batch in front of its records, with its size and its CRC. `self.crc` is ignored.
    /// Fails if the size of the batch has more than 31 bits.
    pub fn write(&self, batch: &mut [u8]) -> Result<(), Fault> {
        let size = size_field(batch.len())?;
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
        put(8, &size.to_be_bytes());
        let crc = crc32c(&batch[V2_CRC_FROM..]);
        batch[17..21].copy_from_slice(&crc.to_be_bytes());
        Ok(())
    }
}

/// The size field of a batch or message of `total` bytes.
fn size_field(total: usize) -> Result<i32, Fault> {
    if total > MAX_TOTAL {
        let message =
            format!("expected to write a batch of at most {MAX_TOTAL} bytes, found {total}; use smaller batches");
        return Err(Fault::new(Kind::TooLarge, message));
    }
    Ok((total - PREFIX_BYTES) as i32)
}

/// The properties of a wrapper of compressed messages.
pub struct Wrapper {
    /// 0 or 1.
    pub magic: i8,
    /// Any but none.
    pub codec: Codec,
    /// Some: the wrapper has LogAppendTime (with magic 1) and this timestamp.
    pub append_time: Option<i64>,
}

impl Wrapper {
    /// Appends a wrapper of at least one message. Returns the compressed size of the messages. With magic 1, inner offsets
    /// are relative to the first one; readers only use their distance to the last one (KIP-31).
    /// Fails if the size of a message or of the wrapper has more than 31 bits.
    pub fn write<'a>(
        &self,
        records: impl Iterator<Item = Record<'a>>,
        compressor: &mut Compressor,
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<usize, Fault> {
        let Wrapper { magic, codec, append_time } = *self;
        let flags = if append_time.is_some() { LOG_APPEND_TIME as i8 } else { 0 };
        let (mut first_offset, mut last_offset, mut latest) = (None, 0, NO_TIMESTAMP);
        plain.clear();
        for record in records {
            let zero = if magic == 0 { 0 } else { *first_offset.get_or_insert(record.offset) };
            (last_offset, latest) = (record.offset, latest.max(record.timestamp_ms));
            message(magic, flags, &Record { offset: record.offset.wrapping_sub(zero), ..record }, plain)?;
        }
        let mut value = Vec::new();
        compressor.compress(codec, magic, plain, &mut value);
        let timestamp_ms = append_time.unwrap_or(latest);
        let outer = Record { key: None, value: Some(&value), offset: last_offset, timestamp_ms, sequence: -1 };
        message(magic, codec.id() as i8 | flags, &outer, out)?;
        Ok(value.len())
    }
}

/// Appends a message of magic 0 or 1. Fails if its size has more than 31 bits.
pub fn message(magic: i8, attributes: i8, record: &Record, out: &mut Vec<u8>) -> Result<(), Fault> {
    let header_bytes = if magic > 0 { V1_SMALLEST } else { V0_SMALLEST };
    let content_bytes: usize = [record.key, record.value].into_iter().flatten().map(<[u8]>::len).sum();
    let size = size_field(header_bytes + content_bytes)?;
    let begins = out.len();
    out.extend(record.offset.to_be_bytes());
    out.extend(size.to_be_bytes());
    out.extend([0; 4]); // CRC
    out.extend([magic as u8, attributes as u8]);
    if magic > 0 {
        out.extend(record.timestamp_ms.to_be_bytes());
    }
    for field in [record.key, record.value] {
        out.extend(field.map_or(-1, |bytes| bytes.len() as i32).to_be_bytes());
        out.extend_from_slice(field.unwrap_or_default());
    }
    let message = &mut out[begins..];
    let crc = crc32(&message[LEGACY_CRC_FROM..]);
    message[12..16].copy_from_slice(&crc.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{MAGIC_END, V2_HEADER};

    #[test]
    fn sizes_of_more_than_31_bits_are_faults() {
        // Zeros that are only read take no memory.
        let mut zeros = vec![0; MAX_TOTAL + 1];
        let header = V2Header::parse(&[0; V2_HEADER]);
        assert_eq!(header.write(&mut zeros).unwrap_err().kind, Kind::TooLarge);
        let value = Some(&zeros[..MAX_TOTAL - V0_SMALLEST + 1]);
        let record = Record { key: None, value, offset: 0, timestamp_ms: 0, sequence: -1 };
        let mut out = Vec::new();
        assert_eq!(message(0, 0, &record, &mut out).unwrap_err().kind, Kind::TooLarge);
        assert!(out.is_empty());
        assert_eq!(size_field(MAX_TOTAL), Ok(i32::MAX - PREFIX_BYTES as i32));
        assert_eq!(size_field(MAGIC_END), Ok(5));
    }
}
