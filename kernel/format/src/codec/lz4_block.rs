//! A reader of LZ4 blocks that is faster than liblz4 for similar records: it reads two blocks at once. Its fast loop reads
//! short sequences without branches that are hard to predict. A slow path reads sequences that are longer, near an end of
//! the block, or wrong.
//!
//! A sequence is a token, literals, and a match: bytes that are copied from earlier output. The token has four bits for the
//! length of the literals and four for that of the match; longer lengths continue in the following bytes. The fast loop
//! copies whole registers. The next copy overwrites the bytes that are too many.

use std::hint::select_unpredictable;

use crate::copy;
#[cfg(target_arch = "x86_64")]
use crate::cpu;

/// A length in the token that continues in the following bytes.
const LONG: usize = 15;
/// The shortest match. The token contains the length minus this.
const SHORTEST_MATCH: usize = 4;
/// The longest and the nearest match that the fast loop copies.
const WIDEST_MATCH: usize = 64;
const NEAREST_MATCH: usize = 32;
/// How many bytes one round of the fast loop may read and write.
const ROUND_INPUT: usize = 32;
const ROUND_OUTPUT: usize = 16 + WIDEST_MATCH + LAST_SEQUENCE;
/// liblz4 requires that a sequence this near to the end of the input, or of the output, is the last one.
const LAST_INPUT: usize = 8;
const LAST_SEQUENCE: usize = 12;
/// No match writes to this many bytes at the end.
const LAST_LITERALS: usize = 5;
/// liblz4 requires this many bytes of input after the length of a match.
const BEHIND_LENGTH: usize = 4;

/// The first sequences of a block are not typical, because there is little to refer to yet.
const SKIPPED_SEQUENCES: usize = 32;
/// How many of the next sequences `is_regular` examines, how many of these the fast loop may be unable to read, and how many
/// bytes they must have on average.
const EXAMINED_SEQUENCES: usize = 96;
const MOST_SLOW: usize = 1;
const LEAST_BYTES: usize = 16;

/// Whether `decompress_two` is faster than liblz4 for blocks like this one. It is faster if the fast loop can read nearly all
/// sequences, and if they are so long that a match seldom waits for bytes that the previous sequence has just written. That
/// is so for records with the same fields in the same order. For most other data liblz4 is up to three times faster.
pub fn is_regular(input: &[u8]) -> bool {
    let mut block = Block { input, memory: &mut [], at: 0, filled: 0, oldest: 0 };
    let (mut slow, mut bytes) = (0, 0);
    for number in 0..SKIPPED_SEQUENCES + EXAMINED_SEQUENCES {
        let Some((literals, offset, matched)) = block.next_lengths() else { return false };
        if number >= SKIPPED_SEQUENCES {
            bytes += literals + matched;
            slow += usize::from(literals >= LONG || offset < NEAREST_MATCH || matched > WIDEST_MATCH);
            if slow > MOST_SLOW {
                return false;
            }
        }
    }
    bytes >= LEAST_BYTES * EXAMINED_SEQUENCES
}

/// Decompresses two blocks at once that do not refer to each other. That takes little longer than one block, because most of
/// the time is spent waiting for the position of the next sequence. The first block is written to `memory` at `from` and may
/// refer to the bytes from `oldest` on; the second one is written after the capacity of the first. Returns the index at which
/// each block ends, or None for a damaged one. Panics if the capacities are not within the memory, or `oldest` is after `from`.
pub fn decompress_two(
    inputs: [&[u8]; 2],
    memory: &mut [u8],
    oldest: usize,
    from: usize,
    capacities: [usize; 2],
) -> [Option<usize>; 2] {
    assert!(oldest <= from);
    let middle = from + capacities[0];
    let (first, second) = memory.split_at_mut(middle);
    let first = Block { input: inputs[0], memory: first, at: 0, filled: from, oldest };
    let second = Block { input: inputs[1], memory: &mut second[..capacities[1]], at: 0, filled: 0, oldest: 0 };
    #[cfg(target_arch = "x86_64")]
    let ends = match cpu::has_avx2() {
        // SAFETY: the processor has these features.
        true => unsafe { Block::read_two_avx2(first, second) },
        false => Block::read_two(first, second),
    };
    #[cfg(not(target_arch = "x86_64"))]
    let ends = Block::read_two(first, second);
    [ends[0], ends[1].map(|end| middle + end)]
}

struct Block<'a> {
    input: &'a [u8],
    /// All memory up to the end of the block's capacity.
    memory: &'a mut [u8],
    /// Index of the next byte of the input.
    at: usize,
    /// How much of the memory is filled.
    filled: usize,
    /// Index of the first byte to which matches may refer.
    oldest: usize,
}

impl<'a> Block<'a> {
    #[inline(always)]
    fn read(mut self) -> Option<usize> {
        loop {
            if let Some(mut fast) = self.fast_loop() {
                while fast.read_sequence() {}
                (self.at, self.filled) = fast.position(&self);
            }
            if self.slow_sequence()? {
                return Some(self.filled);
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn read_two_avx2(first: Block<'a>, second: Block<'a>) -> [Option<usize>; 2] {
        Block::read_two(first, second)
    }

    #[inline(always)]
    fn read_two(mut first: Block<'a>, mut second: Block<'a>) -> [Option<usize>; 2] {
        match (first.begin(), second.begin()) {
            (Some(false), Some(false)) => {}
            (Some(true), Some(false)) => return [Some(first.filled), second.read()],
            (Some(false), Some(true)) => return [first.read(), Some(second.filled)],
            (Some(true), Some(true)) => return [Some(first.filled), Some(second.filled)],
            _ => return [None; 2],
        }
        while let (Some(mut one), Some(mut two)) = (first.fast_loop(), second.fast_loop()) {
            let is_first_slow = loop {
                if !one.read_sequence() {
                    break true;
                }
                if !two.read_sequence() {
                    break false;
                }
            };
            (first.at, first.filled) = one.position(&first);
            (second.at, second.filled) = two.position(&second);
            let slow = if is_first_slow { &mut first } else { &mut second };
            match slow.slow_sequence() {
                Some(false) => {}
                Some(true) if is_first_slow => return [Some(first.filled), second.read()],
                Some(true) => return [first.read(), Some(second.filled)],
                None => return [None; 2],
            }
        }
        [first.read(), second.read()]
    }

    /// Reads sequences until there are as many bytes as the fast loop needs. Returns whether the block has ended.
    fn begin(&mut self) -> Option<bool> {
        while self.filled - self.oldest < NEAREST_MATCH {
            if self.slow_sequence()? {
                return Some(true);
            }
        }
        Some(false)
    }

    /// The fast loop, if it can read the next sequence.
    #[inline(always)]
    fn fast_loop(&mut self) -> Option<FastLoop> {
        let last_at = self.input.len().checked_sub(ROUND_INPUT)?;
        let last_filled = self.memory.len().checked_sub(ROUND_OUTPUT)?;
        if self.at > last_at || self.filled > last_filled || self.filled - self.oldest < NEAREST_MATCH {
            return None;
        }
        let (input, memory) = (self.input.as_ptr(), self.memory.as_mut_ptr());
        // SAFETY: all of these are within the input and the memory.
        unsafe {
            Some(FastLoop {
                at: input.add(self.at),
                last_at: input.add(last_at),
                to: memory.add(self.filled),
                last_to: memory.add(last_filled),
                nearest: memory.add(self.oldest).addr() + NEAREST_MATCH,
            })
        }
    }

    /// Reads the next sequence of any shape. Returns whether it was the last one.
    fn slow_sequence(&mut self) -> Option<bool> {
        let token = usize::from(*self.input.get(self.at)?);
        self.at += 1;
        let literals = self.length(token >> 4)?;
        let rest = self.input.get(self.at..)?;
        if literals > rest.len() || literals > self.memory.len() - self.filled {
            return None;
        }
        self.memory[self.filled..self.filled + literals].copy_from_slice(&rest[..literals]);
        let is_near_end =
            rest.len() - literals < LAST_INPUT || self.memory.len() - self.filled - literals < LAST_SEQUENCE;
        self.at += literals;
        self.filled += literals;
        if is_near_end {
            return (self.at == self.input.len()).then_some(true);
        }
        let offset = usize::from(u16::from_le_bytes([self.input[self.at], self.input[self.at + 1]]));
        self.at += 2;
        let bytes = SHORTEST_MATCH + self.length(token & 15)?;
        if token & 15 == LONG && self.at + BEHIND_LENGTH > self.input.len() {
            return None;
        }
        if offset == 0 || offset > self.filled - self.oldest || bytes + LAST_LITERALS > self.memory.len() - self.filled
        {
            return None;
        }
        copy::repeat(self.memory, self.filled, offset, bytes);
        self.filled += bytes;
        Some(false)
    }

    /// How many literals the next sequence has, how far back its match is, and how long. None at the end of the block.
    fn next_lengths(&mut self) -> Option<(usize, usize, usize)> {
        let token = usize::from(*self.input.get(self.at)?);
        self.at += 1;
        let literals = self.length(token >> 4)?;
        self.at += literals;
        let offset = self.input.get(self.at..)?.first_chunk()?;
        self.at += 2;
        let matched = SHORTEST_MATCH + self.length(token & 15)?;
        Some((literals, usize::from(u16::from_le_bytes(*offset)), matched))
    }

    /// The length that begins with these four bits of a token.
    fn length(&mut self, bits: usize) -> Option<usize> {
        let mut length = bits;
        if bits == LONG {
            loop {
                let byte = *self.input.get(self.at)?;
                self.at += 1;
                length += usize::from(byte);
                if byte != 255 {
                    break;
                }
            }
        }
        Some(length)
    }
}

/// The state of the fast loop. At least ROUND_INPUT bytes of input follow `last_at`, and ROUND_OUTPUT bytes of memory
/// `last_to`.
struct FastLoop {
    at: *const u8,
    last_at: *const u8,
    to: *mut u8,
    last_to: *mut u8,
    /// The lowest address to which a match can be copied.
    nearest: usize,
}

impl FastLoop {
    /// Reads the next sequence. Returns false, and reads nothing, if the sequence needs the slow path.
    #[inline(always)]
    fn read_sequence(&mut self) -> bool {
        let &mut FastLoop { at, to, .. } = self;
        if at > self.last_at || to > self.last_to {
            return false;
        }
        // SAFETY: ROUND_INPUT bytes are readable at `at`, of which at most 18 are, and ROUND_OUTPUT bytes writable at
        // `to`. A match begins where the block's memory does or later.
        unsafe {
            let token = usize::from(at.read());
            if token >= LONG << 4 {
                return false;
            }
            copy::copy16(at.add(1), to);
            let literals = token >> 4;
            let literals_end = at.add(literals);
            let match_to = to.add(literals);
            let offset = usize::from(literals_end.add(1).cast::<u16>().read_unaligned().to_le());
            // Too near, or too far.
            if offset.wrapping_sub(NEAREST_MATCH) > match_to.addr() - self.nearest {
                return false;
            }
            let is_long = token & 15 == LONG;
            let more = select_unpredictable(is_long, usize::from(literals_end.add(3).read()), 0);
            let bytes = (token & 15) + SHORTEST_MATCH + more;
            if bytes > WIDEST_MATCH {
                return false;
            }
            let source = match_to.sub(offset);
            copy::copy32(source, match_to);
            copy::copy32(source.add(32), match_to.add(32));
            self.to = match_to.add(bytes);
            self.at = literals_end.add(3 + usize::from(is_long));
        }
        true
    }

    /// The indexes in the block's input and memory.
    fn position(&self, block: &Block) -> (usize, usize) {
        (self.at.addr() - block.input.as_ptr().addr(), self.to.addr() - block.memory.as_ptr().addr())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use lz4_sys::{LZ4_compress_default, LZ4_compressBound, LZ4_decompress_safe};

    use super::*;
    use crate::codec::repeats::tests::{Noise, records};
    use crate::codec::samples;

    fn compress(content: &[u8]) -> Vec<u8> {
        // SAFETY: the room has the size given, which is what liblz4 asks for.
        unsafe {
            let mut block = vec![0u8; LZ4_compressBound(content.len() as i32) as usize];
            let (from, to) = (content.as_ptr().cast(), block.as_mut_ptr().cast());
            let written = LZ4_compress_default(from, to, content.len() as i32, block.len() as i32);
            block.truncate(written as usize);
            block
        }
    }

    fn by_liblz4(input: &[u8], capacity: usize) -> Option<Vec<u8>> {
        let mut out = vec![0u8; capacity];
        // SAFETY: both ranges have the sizes given.
        let written = unsafe {
            let (from, to) = (input.as_ptr().cast(), out.as_mut_ptr().cast());
            LZ4_decompress_safe(from, to, input.len() as i32, capacity as i32)
        };
        out.truncate(usize::try_from(written).ok()?);
        Some(out)
    }

    /// Decompresses one block alone.
    pub fn decompress(input: &[u8], memory: &mut [u8], oldest: usize, from: usize, capacity: usize) -> Option<usize> {
        Block { input, memory: &mut memory[..from + capacity], at: 0, filled: from, oldest }.read()
    }

    /// Decompresses a block alone, and twice at once by both variants of the code. All must agree.
    fn by_us(input: &[u8], capacity: usize) -> Option<Vec<u8>> {
        let from = 7; // anything but the beginning
        let mut memory = vec![0xee; from + capacity + 10];
        let end = decompress(input, &mut memory, from, from, capacity);
        assert!(memory[..from].iter().all(|&byte| byte == 0xee));
        let content = end.map(|end| memory[from..end].to_vec());
        let mut both = vec![0xee; from + 2 * capacity + 10];
        let ends = decompress_two([input; 2], &mut both, from, from, [capacity; 2]);
        assert_eq!(ends, [end, end.map(|end| end + capacity)]);
        let (one, two) = both.split_at_mut(from + capacity);
        let block = |memory, filled| Block { input, memory, at: 0, filled, oldest: filled };
        let generic = Block::read_two(block(one, from), block(&mut two[..capacity], 0));
        assert_eq!(generic, [end, end.map(|end| end - from)]);
        for (memory, from) in [(&*one, from), (&*two, 0)] {
            assert!(content.as_ref().is_none_or(|content| memory[from..].starts_with(content)));
        }
        content
    }

    #[test]
    fn what_liblz4_compresses_is_read() {
        for content in samples::contents() {
            let block = compress(&content);
            for capacity in [content.len(), content.len() + 1, content.len() + 1000] {
                assert_eq!(by_us(&block, capacity).as_ref(), Some(&content));
            }
            if let Some(less) = content.len().checked_sub(1) {
                assert_eq!(by_us(&block, less), None);
            }
        }
    }

    #[test]
    fn what_is_read_of_damaged_blocks_is_what_liblz4_reads() {
        let mut read = 0;
        for content in samples::contents() {
            for damaged in samples::damaged(&compress(&content)) {
                let capacity = content.len().max(1);
                if let Some(out) = by_us(&damaged, capacity) {
                    assert_eq!(by_liblz4(&damaged, capacity), Some(out));
                    read += 1;
                }
            }
        }
        assert!(read > 100, "{read}");
    }

    /// Sequences with right and wrong lengths and offsets, truncated anywhere.
    fn invented(random: &mut samples::Random) -> Vec<u8> {
        let mut block = Vec::new();
        for _ in 0..random.below(6) {
            let [literals, bytes] = [0, 1].map(|_| [random.below(15), 15, 15 + random.below(600)][random.below(3)]);
            block.push((literals.min(LONG) << 4 | bytes.min(LONG)) as u8);
            put_length(literals, &mut block);
            block.extend((0..literals).map(|_| random.below(256) as u8));
            block.extend((random.below(80) as u16).to_le_bytes());
            put_length(bytes, &mut block);
        }
        let literals = random.below(10);
        block.push((literals << 4) as u8);
        block.extend((0..literals).map(|_| random.below(256) as u8));
        if random.below(2) == 0 {
            block.truncate(random.below(block.len() + 1));
        }
        block
    }

    fn put_length(length: usize, block: &mut Vec<u8>) {
        if let Some(rest) = length.checked_sub(LONG) {
            block.extend(vec![255; rest / 255]);
            block.push((rest % 255) as u8);
        }
    }

    #[test]
    fn what_is_read_of_invented_blocks_is_what_liblz4_reads() {
        let mut random = samples::Random(3);
        let mut read = 0;
        for _ in 0..20_000 {
            let block = invented(&mut random);
            let capacity = [100, 1000, 5000][random.below(3)];
            if let Some(out) = by_us(&block, capacity) {
                assert_eq!(by_liblz4(&block, capacity), Some(out), "{block:02x?}");
                read += 1;
            }
        }
        assert!(read > 1000, "{read}");
    }

    #[test]
    fn two_blocks_are_read_as_each_of_them_is() {
        let contents = samples::contents();
        let mut read = 0;
        for (one, two) in contents.iter().zip(contents.iter().rev()) {
            let (first, second) = (compress(one), compress(two));
            let damaged = samples::damaged(&first).swap_remove(2);
            for blocks in [[&first, &second], [&second, &first], [&damaged, &second], [&second, &damaged]] {
                let capacities = blocks.map(|block| if *block == second { two.len() } else { one.len() });
                let from = 5;
                let mut memory = vec![0xee; from + capacities[0] + capacities[1]];
                let ends = decompress_two(blocks.map(|block| &block[..]), &mut memory, from, from, capacities);
                for (index, begins) in [from, from + capacities[0]].into_iter().enumerate() {
                    if let Some(end) = ends[index] {
                        assert_eq!(Some(memory[begins..end].to_vec()), by_us(blocks[index], capacities[index]));
                        read += 1;
                    }
                }
            }
        }
        assert!(read > 200, "{read}");
    }

    #[test]
    fn only_records_that_are_alike_are_regular() {
        let mut noise = Noise(5);
        let (alike, noise) = (records(&mut noise, 60_000), noise.bytes(60_000));
        let text: Vec<u8> = (0..9000u32).flat_map(|at| (at * at % 7919).to_string().into_bytes()).collect();
        assert!(is_regular(&compress(&alike)));
        for other in [&noise, &text, &vec![0; 60_000], &alike[..1000].to_vec()] {
            assert!(!is_regular(&compress(other)));
        }
        let block = compress(&alike);
        assert!((0..1000).all(|bytes| !is_regular(&block[..bytes])));
    }

    #[test]
    fn matches_reach_back_into_what_was_there() {
        let mut memory = vec![0; 300];
        memory[..100].copy_from_slice(&std::array::from_fn::<u8, 100, _>(|index| index as u8));
        // No literals, a match of 40 bytes that is 90 back; then six literals.
        let block = [0x0f, 90, 0, 40 - 19, 0x60, 1, 2, 3, 4, 5, 6];
        assert_eq!(decompress(&block, &mut memory, 10, 100, 136), Some(146));
        assert_eq!(memory[100..140], std::array::from_fn::<u8, 40, _>(|index| index as u8 + 10));
        assert_eq!(decompress(&block, &mut memory, 11, 100, 136), None);
    }
}
