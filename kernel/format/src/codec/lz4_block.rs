//! The fast reader of LZ4 blocks of records that are alike, two blocks at once. Its loop takes short sequences without a
//! branch that could be predicted wrongly, and leaves what is longer, nearer to an end, or wrong to others.
//!
//! A sequence is a token, literals, and a match: bytes that are copied from further up. The lengths of both are four
//! bits of the token, and bytes behind it where these are not enough. Copies are of whole registers; what is copied
//! too much, the next one overwrites.

use std::hint::select_unpredictable;

use crate::wide;

/// Literals whose length the token has alone: less than this.
const LONG: usize = 15;
/// The shortest match; the token counts from here.
const SHORTEST_MATCH: usize = 4;
/// The longest match the fast loop copies, and the nearest.
const WIDEST_MATCH: usize = 64;
const NEAREST_MATCH: usize = 32;
/// What one round of the fast loop may read, and write.
const ROUND_INPUT: usize = 32;
const ROUND_OUTPUT: usize = 16 + WIDEST_MATCH + LAST_SEQUENCE;
/// liblz4 wants a sequence this near to the input's end to be the last one, and the same of the output's.
const LAST_INPUT: usize = 8;
const LAST_SEQUENCE: usize = 12;
/// No match writes to so many last bytes.
const LAST_LITERALS: usize = 5;
/// liblz4 wants so many bytes of input behind the bytes of a match's length.
const BEHIND_LENGTH: usize = 4;

/// The first sequences of a block are not like the rest: there is little to refer to yet.
const SKIPPED_SEQUENCES: usize = 32;
/// The sequences behind them that `is_regular` examines, how many of them the fast loop may refuse, and the least bytes
/// they have on average.
const EXAMINED_SEQUENCES: usize = 96;
const MOST_REFUSED: usize = 1;
const LEAST_BYTES: usize = 16;

/// Whether `decompress_two` is faster than liblz4 for blocks like this one. It is, if the fast loop takes nearly all
/// sequences, and they are so long that a match seldom waits for bytes that the previous sequence has just written:
/// records with the same fields in the same order. For most other data liblz4 is up to three times faster.
pub fn is_regular(input: &[u8]) -> bool {
    let mut block = Block { input, memory: &mut [], at: 0, filled: 0, oldest: 0 };
    let (mut refused, mut bytes) = (0, 0);
    for number in 0..SKIPPED_SEQUENCES + EXAMINED_SEQUENCES {
        let Some((literals, offset, matched)) = block.next_lengths() else { return false };
        if number >= SKIPPED_SEQUENCES {
            bytes += literals + matched;
            refused += usize::from(literals >= LONG || offset < NEAREST_MATCH || matched > WIDEST_MATCH);
            if refused > MOST_REFUSED {
                return false;
            }
        }
    }
    bytes >= LEAST_BYTES * EXAMINED_SEQUENCES
}

/// Decompresses two blocks that do not refer to each other at once, which takes little longer than one: most of the time
/// goes into waiting for what tells where the next sequence is. The first, if all is well, fills its `capacity`, and the
/// second follows it. Where each of them ends; `None` as above.
pub fn decompress_two(
    inputs: [&[u8]; 2],
    memory: &mut [u8],
    oldest: usize,
    from: usize,
    capacities: [usize; 2],
) -> [Option<usize>; 2] {
    let middle = from + capacities[0];
    let (first, second) = memory.split_at_mut(middle);
    let first = Block { input: inputs[0], memory: first, at: 0, filled: from, oldest };
    let second = Block { input: inputs[1], memory: &mut second[..capacities[1]], at: 0, filled: 0, oldest: 0 };
    #[cfg(target_arch = "x86_64")]
    let ends = match wide::has_avx2() {
        // SAFETY: the processor has it.
        true => unsafe { Block::read_two_avx2(first, second) },
        false => Block::read_two(first, second),
    };
    #[cfg(not(target_arch = "x86_64"))]
    let ends = Block::read_two(first, second);
    [ends[0], ends[1].map(|end| middle + end)]
}

struct Block<'a> {
    input: &'a [u8],
    /// Up to where the block may be decompressed.
    memory: &'a mut [u8],
    /// Of the input.
    at: usize,
    /// Of the memory.
    filled: usize,
    oldest: usize,
}

impl<'a> Block<'a> {
    #[inline(always)]
    fn read(mut self) -> Option<usize> {
        loop {
            if let Some(mut usual) = self.usual() {
                while usual.take_sequence() {}
                (self.at, self.filled) = usual.position(&self);
            }
            if self.any_sequence()? {
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
        while let (Some(mut one), Some(mut two)) = (first.usual(), second.usual()) {
            let is_first_unusual = loop {
                if !one.take_sequence() {
                    break true;
                }
                if !two.take_sequence() {
                    break false;
                }
            };
            (first.at, first.filled) = one.position(&first);
            (second.at, second.filled) = two.position(&second);
            let unusual = if is_first_unusual { &mut first } else { &mut second };
            match unusual.any_sequence() {
                Some(false) => {}
                Some(true) if is_first_unusual => return [Some(first.filled), second.read()],
                Some(true) => return [first.read(), Some(second.filled)],
                None => return [None; 2],
            }
        }
        [first.read(), second.read()]
    }

    /// Takes sequences until there are as many bytes as the fast loop needs to begin with; whether that was the last.
    fn begin(&mut self) -> Option<bool> {
        while self.filled - self.oldest < NEAREST_MATCH {
            if self.any_sequence()? {
                return Some(true);
            }
        }
        Some(false)
    }

    /// To take sequences as long as they are short ones, far from the ends.
    #[inline(always)]
    fn usual(&mut self) -> Option<Usual> {
        let last_at = self.input.len().checked_sub(ROUND_INPUT)?;
        let last_filled = self.memory.len().checked_sub(ROUND_OUTPUT)?;
        if self.at > last_at || self.filled > last_filled || self.filled - self.oldest < NEAREST_MATCH {
            return None;
        }
        let (input, memory) = (self.input.as_ptr(), self.memory.as_mut_ptr());
        // SAFETY: all of these are within the input and the memory.
        unsafe {
            Some(Usual {
                at: input.add(self.at),
                last_at: input.add(last_at),
                to: memory.add(self.filled),
                last_to: memory.add(last_filled),
                nearest: memory.add(self.oldest).addr() + NEAREST_MATCH,
            })
        }
    }

    /// Takes the next sequence, whatever it is like; whether it was the last.
    fn any_sequence(&mut self) -> Option<bool> {
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
        wide::repeat(self.memory, self.filled, offset, bytes);
        self.filled += bytes;
        Some(false)
    }

    /// How many literals the next sequence has, and how far back and how long its match is. None at the block's end.
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

    /// The length that four bits of a token begin.
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

/// The fast loop's own view of a block, of which ROUND_INPUT and ROUND_OUTPUT bytes are left at least behind `last_at`
/// and `last_to`.
struct Usual {
    at: *const u8,
    last_at: *const u8,
    to: *mut u8,
    last_to: *mut u8,
    /// The address that a match to it may be a nearest one of, and no further one.
    nearest: usize,
}

impl Usual {
    /// Takes the next sequence; false if it is an unusual one, or too near to an end.
    #[inline(always)]
    fn take_sequence(&mut self) -> bool {
        let &mut Usual { at, to, .. } = self;
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
            wide::copy16(at.add(1), to);
            let literals = token >> 4;
            let behind = at.add(literals);
            let match_to = to.add(literals);
            let offset = usize::from(behind.add(1).cast::<u16>().read_unaligned().to_le());
            // Too near, or too far.
            if offset.wrapping_sub(NEAREST_MATCH) > match_to.addr() - self.nearest {
                return false;
            }
            let is_long = token & 15 == LONG;
            let more = select_unpredictable(is_long, usize::from(behind.add(3).read()), 0);
            let bytes = (token & 15) + SHORTEST_MATCH + more;
            if bytes > WIDEST_MATCH {
                return false;
            }
            let source = match_to.sub(offset);
            wide::copy32(source, match_to);
            wide::copy32(source.add(32), match_to.add(32));
            self.to = match_to.add(bytes);
            self.at = behind.add(3 + usize::from(is_long));
        }
        true
    }

    /// How far it came in the block's input and memory.
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

    /// Decompresses one block alone, as the rest of the longer one of two.
    pub fn decompress(input: &[u8], memory: &mut [u8], oldest: usize, from: usize, capacity: usize) -> Option<usize> {
        Block { input, memory: &mut memory[..from + capacity], at: 0, filled: from, oldest }.read()
    }

    /// Alone, and twice at once by both variants of the code. All must agree.
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

    /// Sequences of lengths and offsets that may be right or wrong, cut anywhere.
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
