//! A hash table of indexes, made of cache lines.
//!
//! A line has eight slots. A slot is a tag, 16 bits of a hash (0: free), and an index of 48 bits. The eight tags come first and
//! are compared all at once. Slots are filled in order: those of the line of the hash, then those of its neighbor, which
//! processors often fetch with it, then those of the following pairs of lines.

use crate::memory::{advise_large_pages, prefetch};

pub const SLOT_BITS: u32 = 48;
const SLOTS: usize = 8;
const TAGS: usize = 2 * SLOTS;
const FEWEST_LINES: usize = 1 << 7;
/// This many lines are prefetched together when the table grows.
const BLOCK: usize = 32;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Line {
    /// One bit for each slot with this tag.
    #[inline(always)]
    fn slots_with(&self, tag: u16) -> u32 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86_64 has SSE2; the line has 16 bytes of tags.
        unsafe {
            use std::arch::x86_64::{
                _mm_cmpeq_epi16, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16, _mm_setzero_si128,
            };
            let tags = _mm_loadu_si128(self.0.as_ptr().cast());
            let same = _mm_cmpeq_epi16(tags, _mm_set1_epi16(tag as i16));
            _mm_movemask_epi8(_mm_packs_epi16(same, _mm_setzero_si128())) as u32
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let tags = self.0[..TAGS].as_chunks::<2>().0.iter();
            tags.enumerate()
                .fold(0, |found, (slot, &bytes)| found | u32::from(u16::from_le_bytes(bytes) == tag) << slot)
        }
    }

    /// The index in a slot, which is below 8.
    #[inline(always)]
    fn index(&self, slot: u32) -> usize {
        // Reads eight bytes, the first two of which are before the index, in the same line.
        let at = TAGS - 2 + 6 * (slot as usize % SLOTS);
        let mut field = [0; 8];
        field.copy_from_slice(&self.0[at..at + 8]);
        (u64::from_le_bytes(field) >> 16) as usize
    }

    fn set(&mut self, slot: u32, tag: u16, index: usize) {
        let slot = slot as usize;
        self.0[2 * slot..][..2].copy_from_slice(&tag.to_le_bytes());
        self.0[TAGS + 6 * slot..][..6].copy_from_slice(&(index as u64).to_le_bytes()[..6]);
    }
}

#[inline(always)]
fn tag(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1
}

#[derive(Default)]
pub struct SwissTable {
    /// A power of two, or none yet.
    lines: Vec<Line>,
    taken: usize,
}

impl SwissTable {
    /// Whether the table must grow before `add`: at most seven of eight slots are used.
    pub fn is_full(&self) -> bool {
        self.taken + 1 > self.lines.len() * (SLOTS - 1)
    }

    /// Doubles the number of lines and adds all hashes and indexes again.
    pub fn grow(&mut self, mut indexes: impl Iterator<Item = (u64, usize)>) {
        let count = (self.lines.len() * 2).max(FEWEST_LINES);
        let mut lines = Vec::with_capacity(count);
        advise_large_pages(lines.as_ptr(), count);
        lines.resize(count, Line([0; 64]));
        *self = SwissTable { lines, taken: 0 };
        let mut block = Vec::with_capacity(BLOCK);
        loop {
            block.extend(indexes.by_ref().take(BLOCK));
            if block.is_empty() {
                return;
            }
            block.iter().for_each(|&(hash, _)| self.prefetch(hash));
            block.drain(..).for_each(|(hash, index)| self.add(hash, index));
        }
    }

    /// Adds an index. There must be room.
    #[inline]
    pub fn add(&mut self, hash: u64, index: usize) {
        for number in 0.. {
            let line = self.line(hash, number);
            let free = self.lines[line].slots_with(0);
            if free != 0 {
                self.lines[line].set(free.trailing_zeros(), tag(hash), index);
                self.taken += 1;
                return;
            }
        }
    }

    /// The first index with the tag of this hash for which `has_key` is true.
    #[inline(always)]
    pub fn find(&self, hash: u64, has_key: impl Fn(usize) -> bool) -> Option<usize> {
        let mut number = 0;
        loop {
            let line = self.lines.get(self.line(hash, number))?;
            let mut found = line.slots_with(tag(hash));
            while found != 0 {
                let index = line.index(found.trailing_zeros());
                if has_key(index) {
                    return Some(index);
                }
                found &= found - 1;
            }
            if line.slots_with(0) != 0 {
                return None;
            }
            number += 1;
        }
    }

    /// The first index with the tag of this hash in the first two lines. It is nearly always the one of the key.
    #[inline(always)]
    pub fn guess(&self, hash: u64) -> Option<usize> {
        let mut line = self.lines.get(self.line(hash, 0))?;
        let mut found = line.slots_with(tag(hash));
        if found == 0 {
            if line.slots_with(0) != 0 {
                return None;
            }
            line = self.lines.get(self.line(hash, 1))?;
            found = line.slots_with(tag(hash));
        }
        (found != 0).then(|| line.index(found.trailing_zeros()))
    }

    /// The index of the line that a look-up of this hash visits first (0), second (1), and so on.
    #[inline(always)]
    fn line(&self, hash: u64, number: usize) -> usize {
        (hash as usize ^ (number & 1)).wrapping_add(number & !1) & self.lines.len().wrapping_sub(1)
    }

    /// Prefetches the first line of a hash.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        prefetch(self.lines.as_ptr().wrapping_add(self.line(hash, 0)).cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_of_hashes_that_share_lines_and_tags() {
        let mut indexes = SwissTable::default();
        assert_eq!(indexes.find(7, |_| true), None);
        assert_eq!(indexes.guess(7), None);
        // All in three lines, of two tags: they spill over, and around the table's end.
        let hash = |number: usize| (number as u64 % 3 + 126) | (number as u64 % 2) << 60;
        let end = (1 << SLOT_BITS) - 1;
        let index = |number: usize| end - number;
        indexes.grow(std::iter::empty());
        for number in 0..100 {
            assert!(!indexes.is_full());
            assert_eq!(indexes.find(hash(number), |found| found == index(number)), None);
            indexes.add(hash(number), index(number));
        }
        for number in 0..100 {
            assert_eq!(indexes.find(hash(number), |found| found == index(number)), Some(index(number)));
        }
        indexes.grow((0..100).map(|number| (hash(number), index(number))));
        for number in 0..100 {
            assert_eq!(indexes.find(hash(number), |found| found == index(number)), Some(index(number)));
        }
        assert_eq!(indexes.guess(hash(0)), Some(index(0)));
    }
}
