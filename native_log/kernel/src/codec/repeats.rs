//! What repeats within a block of records: the common part of compressing to LZ4 and to snappy.
//!
//! Fast compressors of both formats look up byte after byte in a table of where the same bytes were last, until a match
//! is found. But records are alike: behind bytes that are new comes, most often, what came at the same place of the
//! record that the last match was in. So that place is looked at first, in 64 bytes at once, and only what is not found
//! there is searched for. And where a match ends, the table is asked once for what goes on as this one would have had
//! to: if there is such a place, with all of the match before it, that is the better one. It makes up for what is
//! overlooked, and saves a sequence.
//!
//! Nearly all branches go one way, or the way they went a record ago; the time goes into waiting for what tells where
//! the next sequence is.

/// Blocks are no longer than this.
pub const MOST_BYTES: usize = 1 << 16;
/// LZ4 wants the last match to begin so many bytes before the block's end,
const LAST_START: usize = 12;
/// and so many at its end in no match.
const LAST_LITERALS: usize = 5;
const SHORTEST_MATCH: usize = 4;
const TABLE_BITS: u32 = 13;
/// Bytes that are compared at once, and the least of them that are worth a match.
const WINDOW: usize = 64;
const SHORTEST_RUN: u32 = 5;
/// Nearer than this lies no record before.
const SHORTEST_RECORD: usize = 16;
/// After so many look-ups in vain, as a power of two, the next ones leave out a byte more each.
const PATIENCE: u32 = 6;

/// A match, and the bytes before it that are in none.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    /// Where the bytes begin that are in no match.
    pub literals: usize,
    /// Where they end, and the match begins.
    pub start: usize,
    /// How far before it the same bytes are, from 1 to MOST_BYTES - 1.
    pub distance: usize,
    /// At least 4.
    pub bytes: usize,
}

/// How a block was found to be.
pub struct Shape {
    /// Where the bytes begin that are in no match at its end.
    pub literals: usize,
    pub sequences: usize,
    /// Those of them that were where they were expected.
    pub expected: usize,
}

pub struct Finder {
    /// By a hash of five bytes, where they were last: more of the hash and the block's stamp in the upper half, in the
    /// lower the place. By the stamp places in other blocks are told apart, so that nothing has to be cleared.
    table: Box<[u32; 1 << TABLE_BITS]>,
    stamp: u16,
}

impl Default for Finder {
    fn default() -> Self {
        Finder { table: Box::new([0; 1 << TABLE_BITS]), stamp: 0 }
    }
}

/// Where a match is, and how long.
#[derive(Clone, Copy)]
struct Match {
    start: usize,
    distance: usize,
    bytes: usize,
}

impl Finder {
    /// Forgets all blocks, so that nothing depends on them.
    pub fn clear(&mut self) {
        if self.stamp > 0 {
            self.table.fill(0);
            self.stamp = 0;
        }
    }

    /// Calls `found` with sequence after sequence, one behind the other.
    #[inline(always)]
    pub fn sequences(&mut self, block: &[u8], mut found: impl FnMut(Sequence)) -> Shape {
        assert!(block.len() <= MOST_BYTES);
        let mut shape = Shape { literals: 0, sequences: 0, expected: 0 };
        if block.len() <= LAST_START + WINDOW {
            return shape;
        }
        if self.stamp == u16::MAX {
            self.clear();
        }
        self.stamp += 1;
        let block = Block { bytes: block, last_start: block.len() - LAST_START };
        let (mut at, mut distance) = (0, 0);
        loop {
            let expected =
                if distance > 0 && block.has_window(at) { self.expected(&block, at, distance) } else { None };
            shape.expected += usize::from(expected.is_some());
            let Some(first) = expected.or_else(|| self.search(&block, at)) else {
                return shape;
            };
            let best = self.longer(&block, first);
            found(Sequence { literals: shape.literals, start: best.start, distance: best.distance, bytes: best.bytes });
            shape.sequences += 1;
            at = best.start + best.bytes;
            shape.literals = at;
            if best.distance >= SHORTEST_RECORD {
                distance = best.distance;
            }
        }
    }

    /// What begins right at `at`, or else behind it where the last match was, WINDOW bytes far at most.
    #[inline(always)]
    fn expected(&mut self, block: &Block, at: usize, distance: usize) -> Option<Match> {
        if let Some(distance) = self.replace(block.word(at), at) {
            let bytes = block.common(at, distance);
            if bytes >= SHORTEST_MATCH {
                return Some(Match { start: at, distance, bytes });
            }
        }
        let equal = block.equal(at, distance);
        let pairs = equal & equal >> 1;
        let fours = pairs & pairs >> 2;
        let runs = fours & fours >> (SHORTEST_RUN - 4);
        if runs == 0 {
            return None;
        }
        let skipped = runs.trailing_zeros();
        let start = at + skipped as usize;
        let mut bytes = (equal >> skipped).trailing_ones() as usize;
        if skipped as usize + bytes >= WINDOW {
            bytes += block.common(start + bytes, distance);
        }
        Some(Match { start, distance, bytes })
    }

    /// The next match, byte after byte, that no one expected.
    #[inline(always)]
    fn search(&mut self, block: &Block, literals: usize) -> Option<Match> {
        let (mut at, mut lookups) = (literals, 0);
        while at + 3 <= block.last_start {
            let word = block.word(at);
            let distances = [0, 1, 2, 3].map(|i| self.replace(word >> (8 * i), at + i));
            if let Some((mut start, distance)) = (at..).zip(distances).find_map(|(at, distance)| Some((at, distance?)))
            {
                let mut bytes = block.common(start, distance);
                if bytes >= SHORTEST_MATCH {
                    while start > literals.max(distance) && block.bytes[start - 1] == block.bytes[start - 1 - distance]
                    {
                        (start, bytes) = (start - 1, bytes + 1);
                    }
                    return Some(Match { start, distance, bytes });
                }
            }
            at += 4 + (lookups >> PATIENCE);
            lookups += 4;
        }
        None
    }

    /// The same match, or a longer one with the bytes that this one ends before.
    #[inline(always)]
    fn longer(&mut self, block: &Block, found: Match) -> Match {
        let last = found.start + found.bytes - 1;
        if !block.has_window(last) {
            return found;
        }
        if let Some(distance) = self.replace(block.word(last), last).filter(|&distance| distance <= found.start) {
            let bytes = block.common(found.start, distance);
            if bytes > found.bytes {
                return Match { distance, bytes, ..found };
            }
        }
        found
    }

    /// How far before `at`, maybe, the first five bytes of `word` were, which now are at `at`.
    #[inline(always)]
    fn replace(&mut self, word: u64, at: usize) -> Option<usize> {
        let hash = (word << 24).wrapping_mul(889_523_592_379);
        let new = ((hash >> 16) as u32 & 0xffff_0000) ^ u32::from(self.stamp) << 16 | at as u32;
        let old = std::mem::replace(&mut self.table[(hash >> (u64::BITS - TABLE_BITS)) as usize], new);
        // Of an entry that differs in the upper half, or is of a place behind, this is not from 1 to `at`.
        let distance = new.wrapping_sub(old);
        (distance.wrapping_sub(1) < at as u32).then_some(distance as usize)
    }
}

struct Block<'a> {
    bytes: &'a [u8],
    /// The last place where a match may begin.
    last_start: usize,
}

impl Block<'_> {
    /// Whether a window begins at `at` after which a match can still begin.
    #[inline(always)]
    fn has_window(&self, at: usize) -> bool {
        at + WINDOW <= self.last_start
    }

    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        debug_assert!(at <= self.last_start);
        // SAFETY: a match may begin here, so that LAST_START bytes are behind it.
        unsafe { self.bytes.as_ptr().add(at).cast::<u64>().read_unaligned() }
    }

    /// How many bytes from `start` on are those `distance` before.
    #[inline(always)]
    fn common(&self, start: usize, distance: usize) -> usize {
        let mut at = start;
        let end = self.bytes.len() - LAST_LITERALS;
        while at + WINDOW <= self.bytes.len() {
            let equal = self.equal(at, distance);
            if equal != u64::MAX {
                return (at + equal.trailing_ones() as usize).min(end).saturating_sub(start);
            }
            at += WINDOW;
        }
        while at < end && self.bytes[at] == self.bytes[at - distance] {
            at += 1;
        }
        at.min(end).saturating_sub(start)
    }

    /// A bit for each byte of the window: whether it is the one `distance` before.
    #[inline(always)]
    fn equal(&self, at: usize, distance: usize) -> u64 {
        debug_assert!(distance <= at && at + WINDOW <= self.bytes.len());
        #[cfg(target_arch = "x86_64")]
        // SAFETY: at both places WINDOW bytes are readable.
        unsafe {
            use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8};
            let quarter = |offset: usize| {
                let one = _mm_loadu_si128(self.bytes.as_ptr().add(at + offset).cast());
                let other = _mm_loadu_si128(self.bytes.as_ptr().add(at - distance + offset).cast());
                u64::from(_mm_movemask_epi8(_mm_cmpeq_epi8(one, other)) as u32) << offset
            };
            quarter(0) | quarter(16) | quarter(32) | quarter(48)
        }
        #[cfg(not(target_arch = "x86_64"))]
        (0..WINDOW).fold(0, |bits, i| bits | u64::from(self.bytes[at + i] == self.bytes[at - distance + i]) << i)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Bytes of no pattern.
    pub struct Noise(pub u32);

    impl Noise {
        pub fn next(&mut self) -> u32 {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            self.0 >> 8
        }

        pub fn bytes(&mut self, count: usize) -> Vec<u8> {
            (0..count).map(|_| (self.next() >> 4) as u8).collect()
        }
    }

    /// Records that are alike, with numbers, names and noise in them.
    pub fn records(noise: &mut Noise, bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while out.len() < bytes {
            let state = ["paid", "created", "shipped", "cancelled"][noise.next() as usize % 4];
            let (user, price) = (noise.next() % 100_000, noise.next() % 1_000_000);
            out.extend(format!("{{\"user\":\"u{user:05}\",\"state\":\"{state}\",\"price\":{price},\"id\":\"").bytes());
            out.extend(noise.bytes(9));
            out.extend(b"\"}\0\0\x01");
        }
        out.truncate(bytes);
        out
    }

    /// Blocks of all kinds and lengths, and such as are made to go wrong: periods that break, long matches, far ones,
    /// matches up to the end.
    pub fn blocks() -> Vec<Vec<u8>> {
        let mut noise = Noise(1);
        let mut blocks: Vec<Vec<u8>> = (0..300).map(|bytes| records(&mut noise, bytes)).collect();
        blocks.extend((0..300).map(|bytes| noise.bytes(bytes)));
        blocks.extend((0..300).map(|bytes| vec![7; bytes]));
        for bytes in [4095, 4096, 32_767, 32_768, 65_535, 65_536] {
            blocks.extend([records(&mut noise, bytes), noise.bytes(bytes), vec![0; bytes]]);
        }
        for _ in 0..1500 {
            let (period, bytes) = (1 + noise.next() as usize % 300, noise.next() as usize % 5000);
            let mut block: Vec<u8> = noise.bytes(period).into_iter().cycle().take(bytes).collect();
            for _ in 0..noise.next() % 60 {
                let at = noise.next() as usize % (bytes + 1);
                match noise.next() % 4 {
                    0 => block.truncate(at.max(block.len() / 2)),
                    1 => {
                        block.splice(at.min(block.len())..at.min(block.len()), noise.bytes(1 + at % 40)).for_each(drop)
                    }
                    2 => block.iter_mut().skip(at).step_by(1 + period / 2).for_each(|byte| *byte ^= 1),
                    _ => block.extend_from_within(at.min(block.len())..),
                }
                block.truncate(MOST_BYTES);
            }
            blocks.push(block);
        }
        blocks
    }

    #[test]
    fn sequences_are_matches_and_what_is_between_them() {
        let mut finder = Finder::default();
        for block in blocks() {
            let mut sequences = Vec::new();
            let shape = finder.sequences(&block, |sequence| sequences.push(sequence));
            assert_eq!(sequences.len(), shape.sequences);
            let mut at = 0;
            for Sequence { literals, start, distance, bytes } in sequences {
                assert_eq!(literals, at);
                assert!(literals <= start && bytes >= SHORTEST_MATCH && (1..=start).contains(&distance));
                assert!(start + LAST_START <= block.len() && start + bytes + LAST_LITERALS <= block.len());
                assert_eq!(block[start..start + bytes], block[start - distance..start - distance + bytes]);
                at = start + bytes;
            }
            assert_eq!(at, shape.literals);
        }
    }

    #[test]
    fn nothing_depends_on_blocks_before_once_they_are_forgotten() {
        let mut noise = Noise(2);
        let (one, other) = (records(&mut noise, 20_000), records(&mut noise, 20_000));
        let found = |finder: &mut Finder| {
            let mut sequences = Vec::new();
            finder.sequences(&one, |sequence| sequences.push((sequence.start, sequence.distance, sequence.bytes)));
            sequences
        };
        let mut finder = Finder::default();
        let alone = found(&mut finder);
        assert!(alone.len() > 500);
        finder.sequences(&other, |_| ());
        assert_eq!(found(&mut finder), alone);
        // Stamps begin anew.
        finder.stamp = u16::MAX - 1;
        finder.sequences(&other, |_| ());
        finder.sequences(&other, |_| ());
        assert_eq!(finder.stamp, 1);
        assert_eq!(found(&mut finder), alone);
        assert_eq!(found(&mut finder), alone);
    }
}
