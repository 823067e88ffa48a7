//! The partition of a key, as Kafka's default partitioner has it (BuiltInPartitioner.partitionForKey).

use crate::encode::columns::Binary;

const SEED: u32 = 0x9747_b28c;
const MIX: u32 = 0x5bd1_e995;

/// Utils.murmur2.
pub fn murmur2(data: &[u8]) -> i32 {
    let mut hash = SEED ^ data.len() as u32;
    let (words, tail) = data.as_chunks::<4>();
    for &word in words {
        let mut word = u32::from_le_bytes(word).wrapping_mul(MIX);
        word ^= word >> 24;
        hash = hash.wrapping_mul(MIX) ^ word.wrapping_mul(MIX);
    }
    if !tail.is_empty() {
        for (at, &byte) in tail.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * at);
        }
        hash = hash.wrapping_mul(MIX);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MIX);
    (hash ^ hash >> 15) as i32
}

/// The hash of each key, null for null.
pub fn hashes(keys: &Binary, rows: usize) -> Vec<Option<i32>> {
    (0..rows).map(|row| keys.get(row).map(murmur2)).collect()
}

/// The partition of each key, of so many, at least one; null for null.
pub fn partitions(keys: &Binary, rows: usize, count: i32) -> Vec<Option<i32>> {
    (0..rows).map(|row| keys.get(row).map(|key| (murmur2(key) & i32::MAX) % count)).collect()
}

#[cfg(test)]
mod tests {
    use super::murmur2;

    /// The first six are those of Kafka's UtilsTest.
    #[test]
    fn known_hashes() {
        let known: [(&[u8], i32); 13] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
            (b"", 275_646_681),
            (b"a", -1_563_381_124),
            (b"ab", 316_155_434),
            (b"abcd", -1_323_649_548),
            (b"key", -1_079_937_367),
            (b"\xff", -311_467_685),
            (b"\0\0\0\0", 850_957_120),
        ];
        for (key, hash) in known {
            assert_eq!(murmur2(key), hash, "{key:?}");
        }
    }
}
