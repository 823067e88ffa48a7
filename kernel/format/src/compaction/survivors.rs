//! Sets of offsets, and fast look-ups of ascending offsets.

use roaring::{RoaringBitmap, RoaringTreemap};

const WINDOW_BITS: u32 = 16;
const WINDOW: u64 = 1 << WINDOW_BITS;

/// If at least one of this many consecutive offsets is in a list, setting bits is cheaper than sorting the list. The bits
/// take at most twice the memory of the list.
const DENSE: u64 = 128;

/// The set of the offsets in an unsorted list.
pub fn from_unsorted(mut offsets: Vec<u64>) -> RoaringTreemap {
    if !offsets.is_sorted() {
        if let (Some(&first), Some(&last)) = (offsets.iter().min(), offsets.iter().max())
            && (last - first) / DENSE < offsets.len() as u64
        {
            return from_dense(&offsets, first, last);
        }
        offsets.sort_unstable();
    }
    offsets.dedup();
    let mut set = RoaringTreemap::new();
    // The offsets are ascending, so this cannot fail.
    let _ = set.append(offsets);
    set
}

/// The set of offsets that lie between `first` and `last`, both inclusive.
fn from_dense(offsets: &[u64], first: u64, last: u64) -> RoaringTreemap {
    let first = first & !(WINDOW - 1);
    let mut bits = vec![0u8; ((last - first) / 8 + 1) as usize];
    for offset in offsets {
        let bit = offset - first;
        bits[(bit / 8) as usize] |= 1 << (bit % 8);
    }
    let halves = (first >> 32..=last >> 32).map(|half| {
        let start = first.max(half << 32);
        let until = (((half + 1) << 32) - first) / 8;
        let bits = &bits[((start - first) / 8) as usize..bits.len().min(until as usize)];
        (half as u32, RoaringBitmap::from_lsb0_bytes(start as u32, bits))
    });
    RoaringTreemap::from_bitmaps(halves.filter(|(_, bitmap)| !bitmap.is_empty()))
}

/// The offsets from `start` (inclusive) to `end` (exclusive).
pub fn between(set: &RoaringTreemap, start: u64, end: u64) -> RoaringTreemap {
    let of_half = |(half, bitmap): (u32, &RoaringBitmap)| {
        let first = u64::from(half) << 32;
        // Not wider than the bitmap, because the whole range is created first.
        let from = start.max(first + u64::from(bitmap.min()?));
        let last = end.checked_sub(1)?.min(first + u64::from(bitmap.max()?));
        let mut within = RoaringBitmap::new();
        if from <= last {
            within.insert_range(from as u32..=last as u32);
            within &= bitmap;
        }
        Some((half, within))
    };
    RoaringTreemap::from_bitmaps(set.bitmaps().filter_map(of_half).filter(|(_, bitmap)| !bitmap.is_empty()))
}

/// A window of 2^16 offsets of a set as plain bits.
pub struct Window<'a> {
    set: &'a RoaringTreemap,
    /// The upper bits of the offsets in the window. MAX: none is loaded.
    number: u64,
    bits: Vec<u64>,
}

impl<'a> Window<'a> {
    pub fn new(set: &'a RoaringTreemap) -> Self {
        Window { set, number: u64::MAX, bits: vec![0; WINDOW as usize / 64] }
    }

    #[inline(always)]
    pub fn contains(&mut self, offset: i64) -> bool {
        if offset < 0 {
            return false;
        }
        let number = offset as u64 >> WINDOW_BITS;
        if number != self.number {
            self.load(number);
        }
        let low = offset as usize & (WINDOW as usize - 1);
        self.bits[low / 64] >> (low % 64) & 1 != 0
    }

    /// Whether the set has an offset from `first` to `last`, both inclusive.
    pub fn has_any(&mut self, first: i64, last: i64) -> bool {
        let first = first.max(0);
        if last < first {
            return false;
        }
        let (first, last) = (first as u64, last as u64);
        let number = first >> WINDOW_BITS;
        if number == last >> WINDOW_BITS {
            if number != self.number {
                self.load(number);
            }
            let (from, to) = (first as usize % WINDOW as usize, last as usize % WINDOW as usize);
            let (below, above) = (u64::MAX << (from % 64), u64::MAX >> (63 - to % 64));
            let words = &self.bits[from / 64..=to / 64];
            return match words {
                [word] => word & below & above != 0,
                [head, between @ .., tail] => {
                    head & below != 0 || tail & above != 0 || between.iter().any(|&word| word != 0)
                }
                [] => false,
            };
        }
        let mut from = self.set.iter();
        from.advance_to(first);
        from.next().is_some_and(|offset| offset <= last)
    }

    #[cold]
    fn load(&mut self, number: u64) {
        self.number = number;
        self.bits.fill(0);
        let half = (number << WINDOW_BITS >> 32) as u32;
        let Some((_, bitmap)) = self.set.bitmaps().find(|&(upper, _)| upper == half) else { return };
        let first = (number << WINDOW_BITS) as u32;
        let mut offsets = bitmap.range(first..=first + (WINDOW as u32 - 1));
        while let Some(run) = offsets.next_range() {
            set_bits(&mut self.bits, (run.start() - first) as usize, (run.end() - first) as usize);
        }
    }
}

/// Sets the bits from `first` to `last`, both inclusive.
#[inline]
fn set_bits(words: &mut [u64], first: usize, last: usize) {
    let (head, tail) = (first / 64, last / 64);
    let (from, to) = (u64::MAX << (first % 64), u64::MAX >> (63 - last % 64));
    if head == tail {
        words[head] |= from & to;
        return;
    }
    words[head] |= from;
    words[head + 1..tail].fill(u64::MAX);
    words[tail] |= to;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsorted_lists() {
        for (first, step, count) in
            [(0, 1, 70_000), (65_530, 7, 20_000), ((3 << 32) - 90_000, 100, 2000), (5, 1 << 31, 9), (1 << 62, 1, 1)]
        {
            let offsets: Vec<u64> = (0..count).map(|number| first + number * step).collect();
            let twice = offsets.iter().rev().chain(&offsets).copied().collect();
            let found = from_unsorted(twice);
            assert!(found.iter().eq(offsets.iter().copied()), "{first} {step}");
            let mut inserted = RoaringTreemap::new();
            inserted.extend(offsets);
            assert_eq!(found, inserted);
        }
        assert!(from_unsorted(Vec::new()).is_empty());
    }

    #[test]
    fn parts() {
        let offsets = [0, 1, 65_535, 65_536, 1 << 20, u64::from(u32::MAX), 1 << 32, (1 << 32) + 7, 3 << 40];
        let set: RoaringTreemap = offsets.into_iter().collect();
        let borders = offsets.iter().flat_map(|&offset| [offset, offset + 1]).chain([u64::MAX]);
        for start in borders.clone() {
            for end in borders.clone() {
                let expected = offsets.into_iter().filter(|offset| (start..end).contains(offset));
                assert_eq!(between(&set, start, end), expected.collect(), "{start} {end}");
            }
        }
    }

    #[test]
    fn windows_see_what_the_set_has() {
        let is_in = |offset: &u64| offset % 7 == 3 || offset % 1000 < 5 || (100_000..250_000).contains(offset);
        let set = from_unsorted((0..300_000).filter(is_in).rev().chain([1 << 32, (3 << 32) + 70_000]).collect());
        let mut window = Window::new(&set);
        for offset in (0..310_000).chain([-1, i64::MAX, 5, 1 << 32, (1 << 32) + 1, (3 << 32) + 70_000]) {
            assert_eq!(window.contains(offset), offset >= 0 && set.contains(offset as u64), "{offset}");
        }
        for (first, last) in [(0, 2), (4, 9), (5, 9), (64, 64), (66, 66), (65_530, 65_540), (0, i64::MAX), (-5, -1)] {
            let expected = (first.max(0)..=last.min(310_000)).any(|offset| set.contains(offset as u64));
            assert_eq!(window.has_any(first, last), expected, "{first} {last}");
        }
        assert!(window.has_any(300_000, i64::MAX));
        assert!(!window.has_any(300_000, (1 << 32) - 1));
    }
}
