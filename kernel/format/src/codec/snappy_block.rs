//! A fast reader of snappy blocks. Its fast loop reads literals and copies of usual lengths without a branch between the two,
//! because their order is not predictable. A slow path reads elements that are longer or near an end of the block. Blocks that
//! may be damaged are left to the snap crate.

use std::hint::select_unpredictable;

use crate::copy;
#[cfg(target_arch = "x86_64")]
use crate::cpu;

/// The longest element of the fast loop: 64 bytes copied, or 60 literal ones.
const WIDEST: usize = 64;
/// The nearest copy of the fast loop.
const NEAREST: usize = 32;
/// How many bytes one round of the fast loop may read.
const ROUND_INPUT: usize = 1 + WIDEST;

/// For each tag: the number of bytes of the element in the lowest 8 bits, and in the others the part of a copy's offset that
/// is in the tag, minus NEAREST. The offset of a literal is such that it is never too near. If the length of a literal is in
/// further bytes, its offset is always too near, so that the slow path reads it.
const ELEMENTS: [isize; 256] = elements();

const fn elements() -> [isize; 256] {
    let mut elements = [0; 256];
    let mut tag = 0;
    while tag < 256 {
        let upper = tag as isize >> 2;
        let (bytes, offset) = match tag & 3 {
            0 if upper < 60 => (upper + 1, NEAREST as isize),
            1 => (4 + (upper & 7), (upper >> 3) << 8),
            2 => (upper + 1, 0),
            _ => (0, isize::MIN >> 9),
        };
        elements[tag] = bytes | (offset - NEAREST as isize) << 8;
        tag += 1;
    }
    elements
}

/// How many elements at the beginning of a block are examined, and how many of them may be literals that are too long for the
/// fast loop.
const EXAMINED_ELEMENTS: usize = 32;
const MOST_LONG: usize = 3;

/// Whether snap is faster for blocks like this one, because of their long literals.
pub fn has_long_literals(elements: &[u8]) -> bool {
    let mut block = Block { input: elements, memory: &mut [], at: 0, filled: 0 };
    let mut long = 0;
    for _ in 0..EXAMINED_ELEMENTS {
        let Some(&tag) = elements.get(block.at) else { return false };
        block.at += 1;
        let upper = usize::from(tag >> 2);
        let content_bytes = match tag & 3 {
            0 if upper < 60 => upper + 1,
            0 => {
                long += 1;
                let Some(length) = block.number(upper - 59) else { return false };
                length.saturating_add(1)
            }
            1 => 1,
            2 => 2,
            _ => 4,
        };
        if long > MOST_LONG {
            return true;
        }
        block.at = block.at.saturating_add(content_bytes);
    }
    false
}

/// Decompresses the elements of a block to `memory`, which they must fill. None if the block may be damaged.
pub fn decompress(elements: &[u8], memory: &mut [u8]) -> Option<()> {
    let block = Block { input: elements, memory, at: 0, filled: 0 };
    #[cfg(target_arch = "x86_64")]
    if cpu::has_avx2() {
        // SAFETY: the processor has these features.
        return unsafe { block.read_avx2() };
    }
    block.read()
}

/// Decompresses two blocks at once. That takes little longer than one block, because most of the time is spent waiting for the
/// position of the next element. None if either block may be damaged.
pub fn decompress_two(elements: [&[u8]; 2], memory: [&mut [u8]; 2]) -> Option<()> {
    let [first, second] = memory;
    let first = Block { input: elements[0], memory: first, at: 0, filled: 0 };
    let second = Block { input: elements[1], memory: second, at: 0, filled: 0 };
    #[cfg(target_arch = "x86_64")]
    if cpu::has_avx2() {
        // SAFETY: the processor has these features.
        return unsafe { Block::read_two_avx2(first, second) };
    }
    Block::read_two(first, second)
}

struct Block<'a> {
    input: &'a [u8],
    memory: &'a mut [u8],
    /// Index of the next byte of the input.
    at: usize,
    /// How much of the memory is filled.
    filled: usize,
}

impl<'a> Block<'a> {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn read_avx2(self) -> Option<()> {
        self.read()
    }

    #[inline(always)]
    fn read(mut self) -> Option<()> {
        while self.at < self.input.len() {
            if let Some(mut fast) = self.fast_loop() {
                while fast.read_element() {}
                (self.at, self.filled) = fast.position(&self);
            }
            self.slow_element()?;
        }
        (self.filled == self.memory.len()).then_some(())
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn read_two_avx2(first: Block<'a>, second: Block<'a>) -> Option<()> {
        Block::read_two(first, second)
    }

    #[inline(always)]
    fn read_two(mut first: Block<'a>, mut second: Block<'a>) -> Option<()> {
        // The fast loop needs this many bytes.
        for block in [&mut first, &mut second] {
            while block.filled < NEAREST && block.at < block.input.len() {
                block.slow_element()?;
            }
        }
        while let (Some(mut one), Some(mut two)) = (first.fast_loop(), second.fast_loop()) {
            let is_first_slow = loop {
                if !one.read_element() {
                    break true;
                }
                if !two.read_element() {
                    break false;
                }
            };
            (first.at, first.filled) = one.position(&first);
            (second.at, second.filled) = two.position(&second);
            // There is another element: the fast loop stops before the end of the input.
            let slow = if is_first_slow { &mut first } else { &mut second };
            slow.slow_element()?;
        }
        first.read()?;
        second.read()
    }

    /// The fast loop, if it can read the next element.
    #[inline(always)]
    fn fast_loop(&mut self) -> Option<FastLoop> {
        let last_at = self.input.len().checked_sub(ROUND_INPUT)?;
        let last_filled = self.memory.len().checked_sub(WIDEST)?;
        if self.at > last_at || self.filled > last_filled || self.filled < NEAREST {
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
                from: memory.addr(),
            })
        }
    }

    /// Reads the next element of any shape.
    fn slow_element(&mut self) -> Option<()> {
        let tag = self.input[self.at];
        self.at += 1;
        let upper = usize::from(tag >> 2);
        let (bytes, offset) = match tag & 3 {
            0 => return self.literal(upper),
            1 => (4 + (upper & 7), (upper >> 3) << 8 | self.number(1)?),
            2 => (upper + 1, self.number(2)?),
            _ => (upper + 1, self.number(4)?),
        };
        if offset == 0 || offset > self.filled || bytes > self.memory.len() - self.filled {
            return None;
        }
        copy::repeat(self.memory, self.filled, offset, bytes);
        self.filled += bytes;
        Some(())
    }

    fn literal(&mut self, upper: usize) -> Option<()> {
        let bytes = 1 + if upper < 60 { upper } else { self.number(upper - 59)? };
        let literal = self.input[self.at..].get(..bytes)?;
        self.memory[self.filled..].get_mut(..bytes)?.copy_from_slice(literal);
        self.at += bytes;
        self.filled += bytes;
        Some(())
    }

    /// Reads a little-endian number of at most four bytes.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        let number = self.input[self.at..].get(..bytes)?;
        self.at += bytes;
        Some(number.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    }
}

/// The state of the fast loop. At least ROUND_INPUT bytes of input follow `last_at`, and WIDEST bytes of memory `last_to`.
struct FastLoop {
    at: *const u8,
    last_at: *const u8,
    to: *mut u8,
    last_to: *mut u8,
    /// The address of the memory. `to` is at least NEAREST bytes after it.
    from: usize,
}

impl FastLoop {
    /// Reads the next element. Returns false, and reads nothing, if the element needs the slow path.
    #[inline(always)]
    fn read_element(&mut self) -> bool {
        let &mut FastLoop { at, to, .. } = self;
        if at > self.last_at || to > self.last_to {
            return false;
        }
        // SAFETY: ROUND_INPUT bytes are readable at `at`, and WIDEST bytes writable at `to`. A copy begins where the
        // block's memory does or later.
        unsafe {
            let tag = usize::from(at.read());
            let element = ELEMENTS[tag];
            let (kind, is_literal) = (tag & 3, tag & 3 == 0);
            let following = at.add(1);
            // The kind says how many bytes of a copy's offset follow the tag.
            let offset = following.cast::<u32>().read_unaligned().to_le() & !(u32::MAX << (8 * kind));
            let (nearest, further) = (to.sub(NEAREST), ((element >> 8) as usize).wrapping_add(offset as usize));
            if further > nearest.addr() - self.from {
                return false;
            }
            let source = select_unpredictable(is_literal, following, nearest.wrapping_sub(further));
            copy::copy32(source, to);
            copy::copy32(source.add(32), to.add(32));
            self.at = following.add(select_unpredictable(is_literal, (tag >> 2) + 1, kind));
            self.to = to.add((element & 0xff) as usize);
        }
        true
    }

    /// The indexes in the block's input and memory.
    fn position(&self, block: &Block) -> (usize, usize) {
        (self.at.addr() - block.input.as_ptr().addr(), self.to.addr() - block.memory.as_ptr().addr())
    }
}

#[cfg(test)]
mod tests {
    use snap::raw::{Decoder, Encoder, decompress_len};

    use super::*;
    use crate::codec::repeats::tests::{Noise, records};
    use crate::codec::samples;

    /// The elements of a block, without the length before them.
    fn elements_of(block: &[u8]) -> &[u8] {
        let length_bytes = block.iter().position(|&byte| byte < 0x80).map_or(block.len(), |last| last + 1);
        &block[length_bytes..]
    }

    /// Decompresses a block by all variants of the code, which must agree.
    fn by_us(elements: &[u8], bytes: usize) -> Option<Vec<u8>> {
        let [mut one, mut two, mut three] = [0xee; 3].map(|byte| vec![byte; bytes]);
        let found = decompress(elements, &mut one);
        assert_eq!(Block { input: elements, memory: &mut two, at: 0, filled: 0 }.read(), found);
        assert!(found.is_none() || two == one);
        assert_eq!(decompress_two([elements; 2], [&mut two, &mut three]), found);
        assert!(found.is_none() || (two == one && three == one));
        found.map(|()| one)
    }

    #[test]
    fn what_snap_compresses_is_read() {
        for content in samples::contents() {
            let block = Encoder::new().compress_vec(&content).unwrap();
            assert_eq!(by_us(elements_of(&block), content.len()).as_ref(), Some(&content));
            assert_eq!(by_us(elements_of(&block), content.len() + 1), None);
            if let Some(less) = content.len().checked_sub(1) {
                assert_eq!(by_us(elements_of(&block), less), None);
            }
        }
    }

    #[test]
    fn what_is_read_of_damaged_blocks_is_what_snap_reads() {
        let mut read = 0;
        for content in samples::contents() {
            for damaged in samples::damaged(&Encoder::new().compress_vec(&content).unwrap()) {
                let Ok(bytes) = decompress_len(&damaged) else { continue };
                if (1..1 << 20).contains(&bytes)
                    && let Some(out) = by_us(elements_of(&damaged), bytes)
                {
                    assert_eq!(Decoder::new().decompress_vec(&damaged).ok(), Some(out));
                    read += 1;
                }
            }
        }
        assert!(read > 100, "{read}");
    }

    #[test]
    fn blocks_of_long_literals_are_told_from_others() {
        let mut random = samples::Random(2);
        let noise: Vec<u8> = (0..20_000).map(|_| random.below(256) as u8).collect();
        // 100 bytes of noise, and 20 that are there already.
        let half: Vec<u8> = noise.chunks(100).flat_map(|chunk| [chunk, &noise[..20]].concat()).collect();
        let alike = records(&mut Noise(6), 20_000);
        for (content, expected) in [(&half, true), (&alike, false), (&vec![0; 20_000], false)] {
            let block = Encoder::new().compress_vec(content).unwrap();
            assert_eq!(has_long_literals(elements_of(&block)), expected);
        }
        for content in samples::contents() {
            let block = Encoder::new().compress_vec(&content).unwrap();
            samples::damaged(&block).iter().for_each(|damaged| _ = has_long_literals(elements_of(damaged)));
        }
    }

    #[test]
    fn lengths_and_offsets_of_every_width() {
        let literal: Vec<u8> = (0..300u32).map(|index| (index * 7) as u8).collect();
        // Literals with lengths of one to four bytes, then copies with offsets of four, two and one.
        for width in 1..=4 {
            let mut block = vec![(59 + width) << 2];
            block.extend(&299u32.max(256 * u32::from(width == 1)).to_le_bytes()[..usize::from(width)]);
            if width == 1 {
                block[1] = 255;
            }
            let bytes = if width == 1 { 256 } else { 300 };
            block.extend(&literal[..bytes]);
            block.extend([63 << 2 | 3, 200, 0, 0, 0, 9 << 2 | 2, 100, 0, 1, 40]);
            let mut expected = literal[..bytes].to_vec();
            for (offset, count) in [(200, 64), (100, 10), (40, 4)] {
                (0..count).for_each(|_| expected.push(expected[expected.len() - offset]));
            }
            assert_eq!(by_us(&block, expected.len()), Some(expected));
        }
    }
}
