//! What every writer of batches writes alike: the header of a v2 batch, and a message of magic 0 or 1.

use crate::columns::Record;
use crate::crc::{crc32, crc32c};
use crate::header::{LEGACY_CRC_FROM, V2_CRC_FROM, V2Header};

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
