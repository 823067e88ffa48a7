//! Find repetitions in a block of records: the common part of the LZ4 and the snappy compressor.
//!
//! Fast compressors of both formats look up each position in a table of the last positions of the same bytes, until they
//! find a match. But records are similar: after new bytes, the next match is most often at the same distance as the last
//! one, at the same field of the previous record. So 64 bytes at that distance are compared first, and the table is used
//! only if nothing matches there. At the end of a match, one look-up in the table finds a position at which a longer match
//! may begin; if that position has the whole match and more, it is used instead. This makes up for matches that were missed
//! before, and saves a sequence.
//!
//! Nearly all branches are predictable. Most of the time is spent waiting for the position of the next sequence, so two
//! blocks at once take little longer than one. Meanwhile the memory that is read next can be prefetched.

use std::marker::PhantomData;

#[cfg(target_arch = "x86_64")]
use crate::cpu;
use crate::memory::prefetch;

/// The largest block.
pub const MOST_BYTES: usize = 1 << 16;
/// LZ4 requires that the last match begins this many bytes before the end of the block,
const LAST_START: usize = 12;
/// and that this many bytes at the end are in no match.
const LAST_LITERALS: usize = 5;
const SHORTEST_MATCH: usize = 4;
/// With this size, the tables of two blocks and the compared bytes fit in the first-level cache.
const TABLE_BITS: u32 = 12;
/// How many bytes are compared at once, and how many equal bytes are worth a match.
const WINDOW: usize = 64;
const SHORTEST_RUN: u32 = 5;
/// The previous record is at least this far away.
const SHORTEST_RECORD: usize = 16;
/// After two to this power of look-ups without a match, each further look-up skips one more byte.
const PATIENCE: u32 = 6;

/// A match, and the bytes before it that are in no match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Where the bytes in no match begin.
    pub literals: usize,
    /// Where they end, and the match begins.
    pub start: usize,
    /// How far back the same bytes are, from 1 to MOST_BYTES - 1.
    pub distance: usize,
    /// At least 4.
    pub bytes: usize,
}

/// How many bytes copies may write after the end of a block.
pub const SLACK: usize = 32;

/// How to write sequences.
///
/// # Safety
/// No block of `block_bytes` bytes takes more than `most_bytes(block_bytes)` bytes, however it is divided into sequences. No
/// method writes more than SLACK bytes after the address it returns, which is never before `to`.
pub unsafe trait Format {
    /// The largest compressed size of a block.
    fn most_bytes(block_bytes: usize) -> usize;

    /// Writes the beginning of a block. Returns where it ends.
    ///
    /// # Safety
    /// There is room for `most_bytes` of the whole block and SLACK bytes.
    unsafe fn begin(block: &[u8], to: *mut u8) -> *mut u8;

    /// Writes a sequence. Returns where it ends.
    ///
    /// # Safety
    /// There is room as for `begin`, and everything before the sequence was written before `to`.
    unsafe fn sequence(block: &[u8], sequence: Sequence, to: *mut u8) -> *mut u8;

    /// Writes the bytes from `literals` on, with which the block ends. Returns where they end.
    ///
    /// # Safety
    /// As for `sequence`.
    unsafe fn end(block: &[u8], literals: usize, to: *mut u8) -> *mut u8;
}

/// A block to be compressed.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// At most MOST_BYTES bytes.
    pub block: &'a [u8],
    /// At least as many bytes that are read soon, and are prefetched meanwhile.
    pub ahead: &'a [u8],
}

impl<'a> From<&'a [u8]> for Input<'a> {
    /// Prefetches nothing else.
    fn from(block: &'a [u8]) -> Self {
        Input { block, ahead: block }
    }
}

/// Statistics of a block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    pub sequences: usize,
    /// How many of them were not at the expected distance.
    pub searched: usize,
}

/// Compresses a block and appends it to `out`.
pub fn compress<F: Format>(finder: &mut Finder, input: Input, out: &mut Vec<u8>) -> Shape {
    #[cfg(target_arch = "x86_64")]
    if cpu::has_avx2() {
        // SAFETY: the processor has these features.
        return unsafe { one_avx2::<F>(finder, input, out) };
    }
    one::<F, false>(finder, input, out)
}

/// Compresses two blocks at once and appends each to one of `outs`.
pub fn compress_two<F: Format>(finders: &mut [Finder; 2], inputs: [Input; 2], outs: [&mut Vec<u8>; 2]) {
    #[cfg(target_arch = "x86_64")]
    if cpu::has_avx2() {
        // SAFETY: the processor has these features.
        return unsafe { two_avx2::<F>(finders, inputs, outs) };
    }
    two::<F, false>(finders, inputs, outs);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn one_avx2<F: Format>(finder: &mut Finder, input: Input, out: &mut Vec<u8>) -> Shape {
    one::<F, true>(finder, input, out)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn two_avx2<F: Format>(finders: &mut [Finder; 2], inputs: [Input; 2], outs: [&mut Vec<u8>; 2]) {
    two::<F, true>(finders, inputs, outs);
}

#[inline(always)]
fn one<F: Format, const AVX2: bool>(finder: &mut Finder, input: Input, out: &mut Vec<u8>) -> Shape {
    let mut walk = Walk::<F, AVX2>::new(finder, input, out);
    while walk.step() {}
    walk.end()
}

#[inline(always)]
fn two<F: Format, const AVX2: bool>(finders: &mut [Finder; 2], inputs: [Input; 2], outs: [&mut Vec<u8>; 2]) {
    let ([finder, other_finder], [input, other_input], [out, other_out]) = (finders, inputs, outs);
    let mut walk = Walk::<F, AVX2>::new(finder, input, out);
    let mut other = Walk::<F, AVX2>::new(other_finder, other_input, other_out);
    while walk.step() && other.step() {}
    while walk.step() {}
    while other.step() {}
    walk.end();
    other.end();
}

/// Iterates over the sequences of a block.
struct Walk<'a, F, const AVX2: bool> {
    finder: &'a mut Finder,
    block: Block<'a>,
    /// Memory that is prefetched as the walk progresses.
    ahead: &'a [u8],
    out: &'a mut Vec<u8>,
    /// Where in `out` the next sequence is written. There is room for all sequences.
    to: *mut u8,
    /// Where the last match ended.
    at: usize,
    /// The distance at which the next match is expected.
    distance: usize,
    /// A match is expected before this index only. It is 0 until there is a distance.
    windows_end: usize,
    shape: Shape,
    format: PhantomData<F>,
}

impl<'a, F: Format, const AVX2: bool> Walk<'a, F, AVX2> {
    #[inline(always)]
    fn new(finder: &'a mut Finder, input: Input<'a>, out: &'a mut Vec<u8>) -> Self {
        let Input { block, ahead } = input;
        assert!(block.len() <= MOST_BYTES && ahead.len() >= block.len());
        finder.begin();
        out.reserve(F::most_bytes(block.len()) + SLACK);
        // SAFETY: so much is reserved.
        let to = unsafe { F::begin(block, out.as_mut_ptr().add(out.len())) };
        let block = Block { bytes: block, last_start: block.len().saturating_sub(LAST_START) };
        Walk {
            finder,
            block,
            ahead,
            out,
            to,
            at: 0,
            distance: 0,
            windows_end: 0,
            shape: Shape::default(),
            format: PhantomData,
        }
    }

    /// Writes the next sequence. Returns false if there is none.
    #[inline(always)]
    fn step(&mut self) -> bool {
        let (finder, block) = (&mut *self.finder, self.block);
        // Most sequences are shorter than a cache line, so few lines are skipped.
        prefetch(self.ahead.as_ptr().wrapping_add(self.at));
        let expected =
            if self.at < self.windows_end { finder.expected::<AVX2>(block, self.at, self.distance) } else { None };
        let first = match expected {
            Some(found) => found,
            None => {
                let Some(found) = finder.search(block, self.at) else { return false };
                self.shape.searched += 1;
                if found.distance >= SHORTEST_RECORD {
                    self.windows_end = block.windows_end();
                }
                found
            }
        };
        let in_windows = first.end <= self.windows_end;
        let Match { start, end, distance } = if in_windows { finder.longer::<AVX2>(block, first) } else { first };
        let sequence = Sequence { literals: self.at, start, distance, bytes: end - start };
        // SAFETY: the block takes at most most_bytes, for which there is room.
        self.to = unsafe { F::sequence(block.bytes, sequence, self.to) };
        self.shape.sequences += 1;
        self.at = end;
        if distance >= SHORTEST_RECORD {
            self.distance = distance;
        }
        true
    }

    #[inline(always)]
    fn end(self) -> Shape {
        // SAFETY: as in `step`; everything up to `end` was written.
        unsafe {
            let end = F::end(self.block.bytes, self.at, self.to);
            self.out.set_len(end.offset_from_unsigned(self.out.as_ptr()));
        }
        self.shape
    }
}

pub struct Finder {
    /// The last index of five bytes with a hash. The upper half of an entry is more of the hash, combined with the stamp of
    /// the block; the lower half is the index. The stamp differs between blocks, so that the table need not be cleared.
    table: Box<[u32; 1 << TABLE_BITS]>,
    stamp: u16,
}

impl Default for Finder {
    fn default() -> Self {
        Finder { table: Box::new([0; 1 << TABLE_BITS]), stamp: 0 }
    }
}

#[derive(Clone, Copy)]
struct Match {
    start: usize,
    end: usize,
    distance: usize,
}

impl Finder {
    /// Forgets all previous blocks.
    pub fn clear(&mut self) {
        if self.stamp > 0 {
            self.table.fill(0);
            self.stamp = 0;
        }
    }

    /// Must be called before each block.
    fn begin(&mut self) {
        if self.stamp == u16::MAX {
            self.clear();
        }
        self.stamp += 1;
    }

    /// A match at the expected distance that begins in the window at `at`.
    #[inline(always)]
    fn expected<const AVX2: bool>(&mut self, block: Block, at: usize, distance: usize) -> Option<Match> {
        let equal = block.equal::<AVX2>(at, distance);
        let pairs = equal & equal >> 1;
        let fours = pairs & pairs >> 2;
        let runs = fours & fours >> (SHORTEST_RUN - 4);
        if runs == 0 {
            return None;
        }
        let start = at + runs.trailing_zeros() as usize;
        // Adding the first bit of a run carries into the bit after its last one.
        let after_run = equal.wrapping_add(runs & runs.wrapping_neg()) & !equal;
        let mut end = at + after_run.trailing_zeros() as usize;
        if after_run == 0 {
            end = block.common_end(end, distance);
        }
        Some(Match { start, end, distance })
    }

    /// Looks up byte after byte to find the next match.
    #[inline(never)]
    fn search(&mut self, block: Block, literals: usize) -> Option<Match> {
        let (mut at, mut lookups) = (literals, 0);
        while at + 3 <= block.last_start {
            let word = block.word(at);
            let distances = [0, 1, 2, 3].map(|i| self.seen_before(word >> (8 * i), at + i));
            if let Some((mut start, distance)) = (at..).zip(distances).find_map(|(at, distance)| Some((at, distance?)))
            {
                let end = block.common_end(start, distance);
                if end >= start + SHORTEST_MATCH {
                    while start > literals.max(distance) && block.bytes[start - 1] == block.bytes[start - 1 - distance]
                    {
                        start -= 1;
                    }
                    return Some(Match { start, end, distance });
                }
            }
            at += 4 + (lookups >> PATIENCE);
            lookups += 4;
        }
        None
    }

    /// A longer match that includes the byte after this one, or else the same match. It ends before `windows_end`.
    #[inline(always)]
    fn longer<const AVX2: bool>(&mut self, block: Block, found: Match) -> Match {
        let last = found.end - 1;
        if let Some(distance) = self.seen_before(block.word(last), last).filter(|&distance| distance <= found.start) {
            let end = block.common_end_in_window::<AVX2>(found.start, distance);
            if end > found.end {
                return Match { end, distance, ..found };
            }
        }
        found
    }

    /// How far before `at` the first five bytes of `word` probably were last. Remembers that they are at `at`.
    #[inline(always)]
    fn seen_before(&mut self, word: u64, at: usize) -> Option<usize> {
        let hash = (word << 24).wrapping_mul(889_523_592_379);
        let new = ((hash >> 16) as u32 & 0xffff_0000) ^ u32::from(self.stamp) << 16 | at as u32;
        let old = std::mem::replace(&mut self.table[(hash >> (u64::BITS - TABLE_BITS)) as usize], new);
        // For an entry with another upper half, or with a later index, the distance is not from 1 to `at`.
        let distance = new.wrapping_sub(old);
        (distance.wrapping_sub(1) < at as u32).then_some(distance as usize)
    }
}

#[derive(Clone, Copy)]
struct Block<'a> {
    bytes: &'a [u8],
    /// The last index at which a match may begin.
    last_start: usize,
}

impl Block<'_> {
    /// Before this index, a whole window fits before the last match.
    fn windows_end(self) -> usize {
        self.last_start.saturating_sub(WINDOW)
    }

    #[inline(always)]
    fn word(self, at: usize) -> u64 {
        debug_assert!(at <= self.last_start);
        // SAFETY: a match may begin here, so LAST_START bytes follow.
        unsafe { self.bytes.as_ptr().add(at).cast::<u64>().read_unaligned() }
    }

    /// Where the bytes from `start` on stop being equal to those `distance` before. A window fits at `start`.
    #[inline(always)]
    fn common_end_in_window<const AVX2: bool>(self, start: usize, distance: usize) -> usize {
        match self.equal::<AVX2>(start, distance) {
            u64::MAX => self.common_end(start + WINDOW, distance),
            equal => start + equal.trailing_ones() as usize,
        }
    }

    /// Where the bytes from `start` on stop being equal to those `distance` before. Not after the last LAST_LITERALS bytes
    /// begin, and not before `start`.
    #[inline(never)]
    fn common_end(self, start: usize, distance: usize) -> usize {
        let mut at = start;
        let end = self.bytes.len() - LAST_LITERALS;
        while at + WINDOW <= self.bytes.len() {
            let equal = self.equal::<false>(at, distance);
            if equal != u64::MAX {
                return (at + equal.trailing_ones() as usize).min(end).max(start);
            }
            at += WINDOW;
        }
        while at < end && self.bytes[at] == self.bytes[at - distance] {
            at += 1;
        }
        at.min(end).max(start)
    }

    /// One bit for each byte of the window: whether it is equal to the byte `distance` before.
    #[inline(always)]
    fn equal<const AVX2: bool>(self, at: usize, distance: usize) -> u64 {
        debug_assert!(distance <= at && at + WINDOW <= self.bytes.len());
        #[cfg(target_arch = "x86_64")]
        // SAFETY: WINDOW bytes are readable at both addresses. With AVX2, the processor has it.
        unsafe {
            use std::arch::x86_64::*;
            let (here, before) = (self.bytes.as_ptr().add(at), self.bytes.as_ptr().add(at - distance));
            if AVX2 {
                let half = |offset: usize| {
                    let one = _mm256_loadu_si256(here.add(offset).cast());
                    let other = _mm256_loadu_si256(before.add(offset).cast());
                    u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(one, other)) as u32) << offset
                };
                return half(0) | half(32);
            }
            let quarter = |offset: usize| {
                let (one, other) =
                    (_mm_loadu_si128(here.add(offset).cast()), _mm_loadu_si128(before.add(offset).cast()));
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

    /// Similar records with numbers, names and noise.
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

    /// Blocks of all kinds and lengths, and difficult ones: interrupted periods, long and far matches, matches up to the end.
    /// Under Miri there are few of them.
    pub fn blocks() -> Vec<Vec<u8>> {
        let (step, large, broken, longest) = if cfg!(miri) { (29, 1, 8, 500) } else { (1, 6, 1500, 5000) };
        let mut noise = Noise(1);
        let short = || (0..300).step_by(step);
        let mut blocks: Vec<Vec<u8>> = short().map(|bytes| records(&mut noise, bytes)).collect();
        blocks.extend(short().map(|bytes| noise.bytes(bytes)));
        blocks.extend(short().map(|bytes| vec![7; bytes]));
        for bytes in [4095, 4096, 32_767, 32_768, 65_535, 65_536].into_iter().take(large) {
            blocks.extend([records(&mut noise, bytes), noise.bytes(bytes), vec![0; bytes]]);
        }
        for _ in 0..broken {
            let (period, bytes) = (1 + noise.next() as usize % 300, noise.next() as usize % longest);
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

    /// Lists sequences.
    struct List;

    // SAFETY: a sequence has SHORTEST_MATCH bytes at least, and takes 32; the end takes 8.
    unsafe impl Format for List {
        fn most_bytes(block_bytes: usize) -> usize {
            (block_bytes / SHORTEST_MATCH + 1) * 32
        }

        unsafe fn begin(_: &[u8], to: *mut u8) -> *mut u8 {
            to
        }

        unsafe fn sequence(_: &[u8], one: Sequence, to: *mut u8) -> *mut u8 {
            let numbers = [one.literals, one.start, one.distance, one.bytes];
            // SAFETY: a sequence has SHORTEST_MATCH bytes at least.
            unsafe {
                to.cast::<[usize; 4]>().write_unaligned(numbers);
                to.add(32)
            }
        }

        unsafe fn end(_: &[u8], literals: usize, to: *mut u8) -> *mut u8 {
            // SAFETY: there is room for one number more.
            unsafe {
                to.cast::<usize>().write_unaligned(literals);
                to.add(8)
            }
        }
    }

    /// The sequences, and the index of the bytes after the last one.
    fn listed(finder: &mut Finder, block: &[u8]) -> (Vec<Sequence>, usize) {
        let mut out = Vec::new();
        let shape = compress::<List>(finder, block.into(), &mut out);
        let numbers: Vec<usize> =
            out.chunks_exact(8).map(|bytes| usize::from_ne_bytes(bytes.try_into().unwrap())).collect();
        let (sequences, end) = numbers.as_chunks::<4>();
        assert_eq!(sequences.len(), shape.sequences);
        let sequences =
            sequences.iter().map(|&[literals, start, distance, bytes]| Sequence { literals, start, distance, bytes });
        (sequences.collect(), end[0])
    }

    #[test]
    fn sequences_are_matches_and_what_is_between_them() {
        let mut finder = Finder::default();
        for block in blocks() {
            let (sequences, end) = listed(&mut finder, &block);
            let mut at = 0;
            for Sequence { literals, start, distance, bytes } in sequences {
                assert_eq!(literals, at);
                assert!(literals <= start && bytes >= SHORTEST_MATCH && (1..=start).contains(&distance));
                assert!(start + LAST_START <= block.len() && start + bytes + LAST_LITERALS <= block.len());
                assert_eq!(block[start..start + bytes], block[start - distance..start - distance + bytes]);
                at = start + bytes;
            }
            assert_eq!(at, end);
        }
    }

    #[test]
    fn nothing_depends_on_blocks_before_once_they_are_forgotten() {
        let mut noise = Noise(2);
        let (one, other) = (records(&mut noise, 20_000), records(&mut noise, 20_000));
        let found = |finder: &mut Finder| listed(finder, &one).0;
        let mut finder = Finder::default();
        let alone = found(&mut finder);
        assert!(alone.len() > 500);
        listed(&mut finder, &other);
        assert_eq!(found(&mut finder), alone);
        // Stamps begin again.
        finder.stamp = u16::MAX - 1;
        listed(&mut finder, &other);
        listed(&mut finder, &other);
        assert_eq!(finder.stamp, 1);
        assert_eq!(found(&mut finder), alone);
    }

    #[test]
    fn two_at_once_are_as_one_after_the_other_by_any_registers() {
        let mut finders = <[Finder; 2]>::default();
        let (blocks, ahead) = (blocks(), vec![0; MOST_BYTES]);
        for (one_block, other_block) in blocks.iter().zip(blocks.iter().skip(blocks.len() / 3)) {
            let alone = [one_block, other_block].map(|block| {
                let mut out = b"before".to_vec();
                finders[0].clear();
                one::<List, false>(&mut finders[0], block[..].into(), &mut out);
                out
            });
            finders.iter_mut().for_each(Finder::clear);
            let (mut out, mut other_out) = (b"before".to_vec(), b"before".to_vec());
            let inputs = [one_block, other_block].map(|block| Input { block, ahead: &ahead });
            compress_two::<List>(&mut finders, inputs, [&mut out, &mut other_out]);
            assert!([out, other_out] == alone);
        }
    }
}
