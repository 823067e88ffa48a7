//! The partition of a key by Kafka's default partitioner (BuiltInPartitioner.partitionForKey).

const SEED: u32 = 0x9747_b28c;
const MIX: u32 = 0x5bd1_e995;

/// The hash of a key (Utils.murmur2).
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

/// The partition of a key in a topic with `count` partitions, at least one.
pub fn partition(key: &[u8], count: i32) -> i32 {
    (murmur2(key) & i32::MAX) % count
}

/// Rows grouped by partition: the indexes of all rows, and the number and row count of each partition with rows.
type RowsByPartition = (Vec<u32>, Vec<(usize, usize)>);

/// Groups rows by partition: the indexes of the rows of partition 0, then of partition 1, and so on. None if a row has a
/// partition outside of 0 to `count` - 1.
pub fn rows_by_partition(partitions: impl Iterator<Item = i32> + Clone, count: usize) -> Option<RowsByPartition> {
    let mut ends = vec![0_usize; count];
    let mut rows = 0;
    for partition in partitions.clone() {
        *ends.get_mut(usize::try_from(partition).ok()?)? += 1;
        rows += 1;
    }
    let counts = ends.iter().copied().enumerate().filter(|&(_, rows)| rows > 0).collect();
    let mut end = 0;
    for rows in &mut ends {
        (*rows, end) = (end, end + *rows);
    }
    let mut grouped = vec![0; rows];
    for (row, partition) in partitions.enumerate() {
        let index = &mut ends[partition as usize];
        grouped[*index] = row as u32;
        *index += 1;
    }
    Some((grouped, counts))
}

#[cfg(test)]
mod tests {
    use super::{murmur2, rows_by_partition};

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

    #[test]
    fn rows_are_grouped_in_order() {
        let partitions = [2, 0, 2, 5, 0];
        let grouped = rows_by_partition(partitions.into_iter(), 6).unwrap();
        assert_eq!(grouped, (vec![1, 4, 0, 2, 3], vec![(0, 2), (2, 2), (5, 1)]));
        assert_eq!(rows_by_partition([].into_iter(), 3), Some((vec![], vec![])));
        assert_eq!(rows_by_partition([0, 3].into_iter(), 3), None);
        assert_eq!(rows_by_partition([-1].into_iter(), 3), None);
    }
}
