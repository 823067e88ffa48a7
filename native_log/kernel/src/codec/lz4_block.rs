//! The fast reader of LZ4 blocks, after the pattern of `v2::fast`: it takes the sequences nearly all blocks are made
//! of without a branch that could be predicted wrongly, and leaves what is longer, nearer to an end, or wrong to others.
//!
//! A sequence is a token, literals, and a match: bytes that are copied from further up. The lengths of both are four
//! bits of the token, and bytes behind it where these are not enough. Copies are of whole registers; what is copied
//! too much, the next one overwrites.

use std::hint::select_unpredictable;

use super::SLACK;
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

/// Decompresses a block to `memory` from `from` on, to no more than `capacity` bytes; where they end. Matches may reach
/// back to `oldest`. None if the block is damaged, too large, or of a shape that only liblz4 should judge.
///
/// `memory` has SLACK bytes more than that: they may be written.
pub fn decompress(input: &[u8], memory: &mut [u8], oldest: usize, from: usize, capacity: usize) -> Option<usize> {
    let end = from + capacity;
    assert!(oldest <= from && end + SLACK <= memory.len());
    let block = Block { input, memory, at: 0, filled: from, oldest, end };
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
    oldest: usize,
    end: usize,
}

impl Block<'_> {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn read_avx2(self) -> Option<usize> {
        self.read()
    }

    #[inline(always)]
    fn read(mut self) -> Option<usize> {
        loop {
            self.usual_sequences();
            if self.any_sequence()? {
                return Some(self.filled);
            }
        }
    }

    /// Takes sequences as long as they are short ones, far from the ends.
    #[inline(always)]
    fn usual_sequences(&mut self) {
        let (Some(last_at), Some(last_filled)) =
            (self.input.len().checked_sub(ROUND_INPUT), self.end.checked_sub(ROUND_OUTPUT))
        else {
            return;
        };
        if self.filled - self.oldest < NEAREST_MATCH {
            return;
        }
        let (input, memory) = (self.input.as_ptr(), self.memory.as_mut_ptr());
        // SAFETY: all addresses are within the input and the memory. ROUND_INPUT bytes are readable at `at`: of them at
        // most 18 are, and ROUND_OUTPUT bytes and SLACK are writable at `to`. A match begins at `oldest` or later.
        unsafe {
            let (mut at, mut to) = (input.add(self.at), memory.add(self.filled));
            let (last_at, last_to) = (input.add(last_at), memory.add(last_filled));
            let oldest = memory.add(self.oldest).addr() + NEAREST_MATCH;
            while at <= last_at && to <= last_to {
                let token = usize::from(at.read());
                wide::copy16(at.add(1), to);
                if token >= LONG << 4 {
                    break;
                }
                let literals = token >> 4;
                let behind = at.add(literals);
                let match_to = to.add(literals);
                let offset = usize::from(behind.add(1).cast::<u16>().read_unaligned().to_le());
                // Too near, or too far.
                if offset.wrapping_sub(NEAREST_MATCH) > match_to.addr() - oldest {
                    break;
                }
                let is_long = token & 15 == LONG;
                let more = select_unpredictable(is_long, usize::from(behind.add(3).read()), 0);
                let bytes = (token & 15) + SHORTEST_MATCH + more;
                if bytes > WIDEST_MATCH {
                    break;
                }
                let source = match_to.sub(offset);
                wide::copy32(source, match_to);
                wide::copy32(source.add(32), match_to.add(32));
                to = match_to.add(bytes);
                at = behind.add(3 + usize::from(is_long));
            }
            self.at = at.offset_from_unsigned(input);
            self.filled = to.offset_from_unsigned(memory);
        }
    }

    /// Takes the next sequence, whatever it is like; whether it was the last.
    fn any_sequence(&mut self) -> Option<bool> {
        let token = usize::from(*self.input.get(self.at)?);
        self.at += 1;
        let literals = self.length(token >> 4)?;
        let rest = self.input.get(self.at..)?;
        if literals > rest.len() || literals > self.end - self.filled {
            return None;
        }
        self.memory[self.filled..self.filled + literals].copy_from_slice(&rest[..literals]);
        let is_near_end = rest.len() - literals < LAST_INPUT || self.end - self.filled - literals < LAST_SEQUENCE;
        self.at += literals;
        self.filled += literals;
        if is_near_end {
            return (self.at == self.input.len()).then_some(true);
        }
        let offset = usize::from(u16::from_le_bytes([self.input[self.at], self.input[self.at + 1]]));
        self.at += 2;
        let bytes = SHORTEST_MATCH + self.length(token & 15)?;
        if offset == 0 || offset > self.filled - self.oldest || bytes + LAST_LITERALS > self.end - self.filled {
            return None;
        }
        wide::repeat(self.memory, self.filled, offset, bytes);
        self.filled += bytes;
        Some(false)
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

#[cfg(test)]
mod tests {
    use lz4_sys::{LZ4_compress_default, LZ4_compressBound, LZ4_decompress_safe};

    use super::*;
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

    /// By both variants of the code, which must agree.
    fn by_us(input: &[u8], capacity: usize) -> Option<Vec<u8>> {
        let from = 7; // anything but the beginning
        let mut memory = vec![0xee; from + capacity + SLACK];
        let end = decompress(input, &mut memory, from, from, capacity);
        let mut again = vec![0xee; memory.len()];
        let block = Block { input, memory: &mut again, at: 0, filled: from, oldest: from, end: from + capacity };
        assert_eq!(block.read(), end);
        assert_eq!(end.map(|end| &again[from..end]), end.map(|end| &memory[from..end]));
        assert!(memory[..from].iter().all(|&byte| byte == 0xee));
        end.map(|end| memory[from..end].to_vec())
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
