//! The fast reader of snappy blocks: literals and copies of the usual lengths, which come in no order that could be
//! predicted, without a branch between them. What is longer, nearer to an end, or wrong, it leaves to others.

use std::hint::select_unpredictable;

use super::SLACK;
use crate::wide;

/// The longest element of the fast loop: 64 bytes copied, or 60 literal ones.
const WIDEST: usize = 64;
/// The nearest copy of the fast loop.
const NEAREST: usize = 32;
/// What one round of it may read.
const ROUND_INPUT: usize = 1 + WIDEST;

/// By tag: how many bytes it stands for, in 8 bits, and above them a copy's offset as far as the tag has it, less NEAREST.
/// Literals have an offset that is never too near; where more bytes tell the length, it is too near always.
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

/// Decompresses a block's elements to the `bytes` bytes of `memory` from `from` on. None if it is damaged, or of a shape
/// that only the snap crate should judge.
///
/// `memory` has SLACK bytes more than that: they may be written.
pub fn decompress(input: &[u8], memory: &mut [u8], from: usize, bytes: usize) -> Option<()> {
    let end = from + bytes;
    assert!(end + SLACK <= memory.len());
    let block = Block { input, memory, at: 0, filled: from, from, end };
    #[cfg(target_arch = "x86_64")]
    if wide::has_avx2() {
        // SAFETY: the processor has it.
        return unsafe { block.read_avx2() };
    }
    block.read()
}

struct Block<'a> {
    input: &'a [u8],
    memory: &'a mut [u8],
    /// Of the input.
    at: usize,
    /// Of the memory.
    filled: usize,
    from: usize,
    end: usize,
}

impl Block<'_> {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn read_avx2(self) -> Option<()> {
        self.read()
    }

    #[inline(always)]
    fn read(mut self) -> Option<()> {
        while self.at < self.input.len() {
            self.usual_elements();
            if self.at < self.input.len() {
                self.any_element()?;
            }
        }
        (self.filled == self.end).then_some(())
    }

    /// Takes elements as long as they are short ones, far from the ends.
    #[inline(always)]
    fn usual_elements(&mut self) {
        let (Some(last_at), Some(last_filled)) =
            (self.input.len().checked_sub(ROUND_INPUT), self.end.checked_sub(WIDEST))
        else {
            return;
        };
        if self.filled - self.from < NEAREST {
            return;
        }
        let (input, memory) = (self.input.as_ptr(), self.memory.as_mut_ptr());
        // SAFETY: all addresses are within the input and the memory: ROUND_INPUT bytes are readable at `at`, and WIDEST
        // bytes writable at `to`. A copy begins at `from` or later.
        unsafe {
            let (mut at, mut to) = (input.add(self.at), memory.add(self.filled));
            let (last_at, last_to) = (input.add(last_at), memory.add(last_filled));
            let from = memory.add(self.from).addr();
            while at <= last_at && to <= last_to {
                let tag = usize::from(at.read());
                let element = ELEMENTS[tag];
                let (kind, is_literal) = (tag & 3, tag & 3 == 0);
                let behind = at.add(1);
                // As many bytes as the kind says are a copy's offset, or the rest of it.
                let offset = behind.cast::<u32>().read_unaligned().to_le() & !(u32::MAX << (8 * kind));
                let (nearest, further) = (to.sub(NEAREST), ((element >> 8) as usize).wrapping_add(offset as usize));
                if further > nearest.addr() - from {
                    break;
                }
                let source = select_unpredictable(is_literal, behind, nearest.sub(further));
                wide::copy32(source, to);
                wide::copy32(source.add(32), to.add(32));
                at = behind.add(select_unpredictable(is_literal, (tag >> 2) + 1, kind));
                to = to.add((element & 0xff) as usize);
            }
            self.at = at.offset_from_unsigned(input);
            self.filled = to.offset_from_unsigned(memory);
        }
    }

    /// Takes the next element, whatever it is like.
    fn any_element(&mut self) -> Option<()> {
        let tag = self.input[self.at];
        self.at += 1;
        let upper = usize::from(tag >> 2);
        let (bytes, offset) = match tag & 3 {
            0 => return self.literal(upper),
            1 => (4 + (upper & 7), (upper >> 3) << 8 | self.number(1)?),
            2 => (upper + 1, self.number(2)?),
            _ => (upper + 1, self.number(4)?),
        };
        if offset == 0 || offset > self.filled - self.from || bytes > self.end - self.filled {
            return None;
        }
        wide::repeat(self.memory, self.filled, offset, bytes);
        self.filled += bytes;
        Some(())
    }

    fn literal(&mut self, upper: usize) -> Option<()> {
        let bytes = 1 + if upper < 60 { upper } else { self.number(upper - 59)? };
        let literal = self.input[self.at..].get(..bytes)?;
        self.memory[self.filled..self.end].get_mut(..bytes)?.copy_from_slice(literal);
        self.at += bytes;
        self.filled += bytes;
        Some(())
    }

    /// A little-endian number of at most four bytes.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        let number = self.input[self.at..].get(..bytes)?;
        self.at += bytes;
        Some(number.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    }
}

#[cfg(test)]
mod tests {
    use snap::raw::{Decoder, Encoder, decompress_len};

    use super::*;
    use crate::codec::samples;

    /// The elements of a block, without the length before them.
    fn elements_of(block: &[u8]) -> &[u8] {
        let length_bytes = block.iter().position(|&byte| byte < 0x80).map_or(block.len(), |last| last + 1);
        &block[length_bytes..]
    }

    /// By both variants of the code, which must agree.
    fn by_us(elements: &[u8], bytes: usize) -> Option<Vec<u8>> {
        let from = 7; // anything but the beginning
        let mut memory = vec![0xee; from + bytes + SLACK];
        let found = decompress(elements, &mut memory, from, bytes);
        let mut again = vec![0xee; memory.len()];
        let block = Block { input: elements, memory: &mut again, at: 0, filled: from, from, end: from + bytes };
        assert_eq!(block.read(), found);
        if found.is_some() {
            assert_eq!(again[from..from + bytes], memory[from..from + bytes]);
        }
        assert!(memory[..from].iter().all(|&byte| byte == 0xee));
        found.map(|()| memory[from..from + bytes].to_vec())
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
