//! Find the next whole batch after damaged bytes.

use crate::big_endian::{i32_at, i64_at};
use crate::codec::Codec;
use crate::crc::RangeCrcs;
use crate::header::{
    LEGACY_CRC_FROM, LegacyHeader, MAGIC_AT, MAGIC_END, MIN_SIZE, Next, Prefix, V2_CRC_FROM, V2_HEADER, V2Header, next,
};
use crate::legacy::key_and_value;

/// Index of the first plausible batch from `start` on: its header is one that brokers write, its offset is at least
/// `min_offset` and below `max_offset`, and its CRC is right. The CRC is not checked of a batch of up to `max_batch_bytes`
/// that ends after the buffer. The time is proportional to the size of the buffer, however many headers there are.
pub fn find_batch(
    buffer: &[u8],
    start: usize,
    min_offset: i64,
    max_offset: i64,
    max_batch_bytes: usize,
) -> Option<usize> {
    let most = buffer.len().checked_sub(MAGIC_END)?;
    let mut crcs =
        Crcs { from: start, v2: RangeCrcs::crc32c(buffer.get(start..)?), legacy: RangeCrcs::crc32(&buffer[start..]) };
    (start..=most).find(|&at| {
        let rest = &buffer[at..];
        let most_bytes = max_batch_bytes.max(rest.len());
        rest[MAGIC_AT] <= 2
            && (min_offset..max_offset).contains(&i64_at(rest, 0))
            // `next` says what is wrong with a size, and reads all zeros that follow a size of zero. Both take time.
            && usize::try_from(i32_at(rest, 8)).is_ok_and(|size| (MIN_SIZE as usize..most_bytes).contains(&size))
            && match next(buffer, at, most_bytes) {
                Next::Batch(prefix) => {
                    rest.len() >= prefix.header_bytes() && is_plausible(rest, &prefix, at, &mut crcs)
                }
                _ => false,
            }
    })
}

/// The checksums of plausible batches, which may overlap.
struct Crcs<'a> {
    /// Index of the first byte that the checksums cover.
    from: usize,
    v2: RangeCrcs<'a>,
    legacy: RangeCrcs<'a>,
}

/// Whether the batch at index `at` is plausible. `rest` begins with its whole header.
fn is_plausible(rest: &[u8], prefix: &Prefix, at: usize, crcs: &mut Crcs) -> bool {
    let batch = rest.get(..prefix.total);
    let begins = at - crcs.from;
    let ends = begins + prefix.total;
    match rest.first_chunk::<V2_HEADER>() {
        Some(header) if prefix.magic == 2 => {
            let header = V2Header::parse(header);
            v2_is_plausible(&header, prefix.total)
                && (batch.is_none() || crcs.v2.of(begins + V2_CRC_FROM..ends) == header.crc)
        }
        _ => {
            let header = LegacyHeader::parse(rest);
            legacy_is_plausible(&header)
                && batch.is_none_or(|batch| {
                    key_and_value(&header, batch).is_ok()
                        && crcs.legacy.of(begins + LEGACY_CRC_FROM..ends) == header.crc
                })
        }
    }
}

/// Whether the header is one that brokers write. This is cheap and makes nearly all CRCs unnecessary.
fn v2_is_plausible(header: &V2Header, total: usize) -> bool {
    let most_records = match header.codec() {
        Codec::None => ((total - V2_HEADER) / 7) as i64,
        Codec::Unknown(_) => return false,
        _ => i64::from(header.last_offset_delta) + 1,
    };
    header.attributes & !0x7f == 0
        && header.last_offset_delta >= 0
        && (0..=most_records).contains(&i64::from(header.record_count))
}

fn legacy_is_plausible(header: &LegacyHeader) -> bool {
    let known = if header.magic == 0 { 0x07 } else { 0x0f };
    header.attributes & !known == 0 && matches!(header.codec(), Codec::None | Codec::Gzip | Codec::Snappy | Codec::Lz4)
}
