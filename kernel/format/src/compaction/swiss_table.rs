//! Where keys are, by their hashes: a table of lines, each a line of the processor's cache.
//!
//! A line has eight slots: 16 bits of a hash (0: free), which are compared all at once, and behind them 48 bits of a place.
//! Slots are taken in order, in the line of the hash or, where that is full, in its neighbour, which processors like to fetch
//! with it, or in the pairs that follow.

use crate::memory::{advise_large_pages, prefetch};

pub const SLOT_BITS: u32 = 48;
const SLOTS: usize = 8;
const TAGS: usize = 2 * SLOTS;
const FEWEST_LINES: usize = 1 << 7;
/// So many lines are asked for together when the table grows.
const BLOCK: usize = 32;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Line {
    /// A bit for each slot of this tag.
    #[inline(always)]
    fn having(&self, tag: u16) -> u32 {
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

    /// `slot`: below 8.
    #[inline(always)]
    fn place(&self, slot: u32) -> usize {
        // With the two bytes before it, which belong to the line as well.
        let at = TAGS - 2 + 6 * (slot as usize % SLOTS);
        let mut field = [0; 8];
        field.copy_from_slice(&self.0[at..at + 8]);
        (u64::from_le_bytes(field) >> 16) as usize
    }

    fn set(&mut self, slot: u32, tag: u16, place: usize) {
        let slot = slot as usize;
        self.0[2 * slot..][..2].copy_from_slice(&tag.to_le_bytes());
        self.0[TAGS + 6 * slot..][..6].copy_from_slice(&(place as u64).to_le_bytes()[..6]);
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
    /// Whether one more fits: seven of eight slots are taken at most.
    pub fn is_full(&self) -> bool {
        self.taken + 1 > self.lines.len() * (SLOTS - 1)
    }

    /// Twice as many lines, with these in them: all that there were.
    pub fn grow(&mut self, mut places: impl Iterator<Item = (u64, usize)>) {
        let count = (self.lines.len() * 2).max(FEWEST_LINES);
        let mut lines = Vec::with_capacity(count);
        advise_large_pages(lines.as_ptr(), count);
        lines.resize(count, Line([0; 64]));
        *self = SwissTable { lines, taken: 0 };
        let mut block = Vec::with_capacity(BLOCK);
        loop {
            block.extend(places.by_ref().take(BLOCK));
            if block.is_empty() {
                return;
            }
            block.iter().for_each(|&(hash, _)| self.prefetch(hash));
            block.drain(..).for_each(|(hash, place)| self.add(hash, place));
        }
    }

    /// Adds a place; there is room.
    #[inline]
    pub fn add(&mut self, hash: u64, place: usize) {
        for number in 0.. {
            let line = self.line(hash, number);
            let free = self.lines[line].having(0);
            if free != 0 {
                self.lines[line].set(free.trailing_zeros(), tag(hash), place);
                self.taken += 1;
                return;
            }
        }
    }

    /// The first place of this hash, or of another that looks like it, for which `is_it`.
    #[inline(always)]
    pub fn find(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let mut number = 0;
        loop {
            let line = self.lines.get(self.line(hash, number))?;
            let mut found = line.having(tag(hash));
            while found != 0 {
                let place = line.place(found.trailing_zeros());
                if is_it(place) {
                    return Some(place);
                }
                found &= found - 1;
            }
            if line.having(0) != 0 {
                return None;
            }
            number += 1;
        }
    }

    /// The first place that a look-up of this hash would come to, if that is near: where the key is, nearly always.
    #[inline(always)]
    pub fn guess(&self, hash: u64) -> Option<usize> {
        let mut line = self.lines.get(self.line(hash, 0))?;
        let mut found = line.having(tag(hash));
        if found == 0 {
            if line.having(0) != 0 {
                return None;
            }
            line = self.lines.get(self.line(hash, 1))?;
            found = line.having(tag(hash));
        }
        (found != 0).then(|| line.place(found.trailing_zeros()))
    }

    /// Where the line lies that a look-up of this hash comes to first, second, and so on.
    #[inline(always)]
    fn line(&self, hash: u64, number: usize) -> usize {
        (hash as usize ^ (number & 1)).wrapping_add(number & !1) & self.lines.len().wrapping_sub(1)
    }

    /// Asks for the line of a hash ahead of its use.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        prefetch(self.lines.as_ptr().wrapping_add(self.line(hash, 0)).cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_hashes_that_share_lines_and_tags() {
        let mut places = SwissTable::default();
        assert_eq!(places.find(7, |_| true), None);
        assert_eq!(places.guess(7), None);
        // All in three lines, of two tags: they spill over, and around the table's end.
        let hash = |number: usize| (number as u64 % 3 + 126) | (number as u64 % 2) << 60;
        let end = (1 << SLOT_BITS) - 1;
        let place = |number: usize| end - number;
        places.grow(std::iter::empty());
        for number in 0..100 {
            assert!(!places.is_full());
            assert_eq!(places.find(hash(number), |found| found == place(number)), None);
            places.add(hash(number), place(number));
        }
        for number in 0..100 {
            assert_eq!(places.find(hash(number), |found| found == place(number)), Some(place(number)));
        }
        places.grow((0..100).map(|number| (hash(number), place(number))));
        for number in 0..100 {
            assert_eq!(places.find(hash(number), |found| found == place(number)), Some(place(number)));
        }
        assert_eq!(places.guess(hash(0)), Some(place(0)));
    }
}
