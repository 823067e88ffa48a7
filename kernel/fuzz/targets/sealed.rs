//! Batches of any bytes with right CRCs, so that the check of CRCs does not end each run.

use kafka_log_format::crc::{crc32, crc32c};
use kafka_log_format::header::{LEGACY_CRC_FROM, MAGIC_AT, PREFIX_BYTES, V2_CRC_FROM, V2_HEADER};

/// The buffer with right CRCs of its batches, up to the first batch with an impossible size.
pub fn sealed(buffer: &[u8]) -> Vec<u8> {
    let mut buffer = buffer.to_vec();
    let mut rest = &mut buffer[..];
    while let Some(size) = rest.get(8..PREFIX_BYTES) {
        let size = u32::from_be_bytes([size[0], size[1], size[2], size[3]]) as usize;
        let total = size.saturating_add(PREFIX_BYTES);
        if total < V2_CRC_FROM || total > rest.len() {
            break;
        }
        let (batch, following) = std::mem::take(&mut rest).split_at_mut(total);
        if batch[MAGIC_AT] < 2 {
            let crc = crc32(&batch[LEGACY_CRC_FROM..]);
            batch[LEGACY_CRC_FROM - 4..LEGACY_CRC_FROM].copy_from_slice(&crc.to_be_bytes());
        } else if total >= V2_HEADER {
            let crc = crc32c(&batch[V2_CRC_FROM..]);
            batch[V2_CRC_FROM - 4..V2_CRC_FROM].copy_from_slice(&crc.to_be_bytes());
        }
        rest = following;
    }
    buffer
}
