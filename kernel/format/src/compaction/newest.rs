//! The greatest offset of each key of a bucket: a hash table made to stay in the processor's cache, and to be used again for
//! the next bucket.

use std::hash::{BuildHasher, RandomState};

use super::short_keys::{append, same};
use crate::memory::prefetch;

/// A slot: 0 for none, or the lower bits of the hash, and below them the entry's place in the arena + 1.
const SLOT_BITS: u32 = 40;
const PLACE: u64 = (1 << SLOT_BITS) - 1;
const FEWEST_SLOTS: usize = 1 << 8;
/// An entry: offset (8 bytes), length of the key (4), the key.
const ENTRY_HEADER: usize = 12;
/// So far most entries reach.
const SHORT_ENTRY: usize = 28;
/// So many keys are looked for together: while one waits for memory, others do not.
const BLOCK: usize = 32;

/// The keys take more than 2^40 bytes.
#[derive(Debug)]
pub struct TooMany;

pub struct Newest {
    /// Power of two; at least half of them are free. The slot of a hash is in its upper bits.
    slots: Vec<u64>,
    shift: u32,
    arena: Vec<u8>,
    count: usize,
    /// Another one in each: nobody can choose keys that collide.
    seed: u64,
}

impl Default for Newest {
    fn default() -> Self {
        let seed = RandomState::new().hash_one(0);
        let mut newest = Newest { slots: Vec::new(), shift: 0, arena: Vec::new(), count: 0, seed };
        newest.resize(FEWEST_SLOTS);
        newest
    }
}

impl Newest {
    /// Empty again. The next bucket is expected to have about as many keys.
    pub fn clear(&mut self) {
        let enough = (self.count * 4).next_power_of_two().max(FEWEST_SLOTS);
        self.arena.clear();
        self.count = 0;
        self.resize(enough.min(self.slots.len()));
    }

    /// So many slots, all free.
    fn resize(&mut self, count: usize) {
        self.slots.clear();
        self.slots.resize(count, 0);
        self.shift = 64 - count.trailing_zeros();
    }

    /// Puts keys, or raises their offsets.
    pub fn put<'a>(&mut self, entries: &mut impl Iterator<Item = (&'a [u8], i64)>) -> Result<(), TooMany> {
        let mut block = Block::new();
        loop {
            if (self.count + BLOCK) * 2 > self.slots.len() {
                self.grow();
            }
            let found = block.fill(entries, self);
            if found.is_empty() {
                return Ok(());
            }
            for &(key, hash, offset) in found {
                match self.find(key, hash) {
                    Ok(place) => self.raise(place, offset),
                    Err(slot) => self.insert(key, hash, offset, slot)?,
                }
            }
        }
    }

    /// Calls `found` with the offsets of keys that are not there.
    pub fn missing<'a>(&self, entries: &mut impl Iterator<Item = (&'a [u8], i64)>, mut found: impl FnMut(i64)) {
        let mut block = Block::new();
        loop {
            let looked_for = block.fill(entries, self);
            if looked_for.is_empty() {
                return;
            }
            for &(key, hash, offset) in looked_for {
                if self.find(key, hash).is_err() {
                    found(offset);
                }
            }
        }
    }

    /// Keys and offsets, in the order in which the keys came.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], i64)> {
        let mut place = 0;
        std::iter::from_fn(move || {
            (place < self.arena.len()).then(|| {
                let entry = (self.key(place), self.offset(place));
                place += ENTRY_HEADER + entry.0.len();
                entry
            })
        })
    }

    #[inline(always)]
    fn slot(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }

    /// The place of a key, or else the free slot where it would be.
    #[inline(always)]
    fn find(&self, key: &[u8], hash: u64) -> Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut slot = self.slot(hash);
        loop {
            let content = self.slots[slot & mask];
            if content == 0 {
                return Err(slot & mask);
            }
            if (content ^ hash << SLOT_BITS) >> SLOT_BITS == 0 {
                let place = (content & PLACE) as usize - 1;
                if same(self.key(place), key) {
                    return Ok(place);
                }
            }
            slot += 1;
        }
    }

    #[inline(always)]
    fn insert(&mut self, key: &[u8], hash: u64, offset: i64, slot: usize) -> Result<(), TooMany> {
        let place = self.arena.len() as u64 + 1;
        if place > PLACE {
            return Err(TooMany);
        }
        self.slots[slot] = hash << SLOT_BITS | place;
        self.arena.extend_from_slice(&offset.to_le_bytes());
        append(&mut self.arena, key.len() as u64, ENTRY_HEADER - 8, key);
        self.count += 1;
        Ok(())
    }

    #[cold]
    fn grow(&mut self) {
        self.resize(self.slots.len() * 4);
        let mask = self.slots.len() - 1;
        let mut place = 0;
        while place < self.arena.len() {
            let key = self.key(place);
            let (hash, bytes) = (hash(key, self.seed), key.len());
            let mut slot = self.slot(hash);
            while self.slots[slot & mask] != 0 {
                slot += 1;
            }
            self.slots[slot & mask] = hash << SLOT_BITS | (place as u64 + 1);
            place += ENTRY_HEADER + bytes;
        }
    }

    #[inline(always)]
    fn key(&self, place: usize) -> &[u8] {
        let mut field = [0; 4];
        field.copy_from_slice(&self.arena[place + 8..place + ENTRY_HEADER]);
        &self.arena[place + ENTRY_HEADER..][..u32::from_le_bytes(field) as usize]
    }

    #[inline(always)]
    fn offset(&self, place: usize) -> i64 {
        let mut field = [0; 8];
        field.copy_from_slice(&self.arena[place..place + 8]);
        i64::from_le_bytes(field)
    }

    #[inline(always)]
    fn raise(&mut self, place: usize, offset: i64) {
        let greatest = self.offset(place).max(offset);
        self.arena[place..place + 8].copy_from_slice(&greatest.to_le_bytes());
    }
}

/// The keys of a bucket agree in the upper bits of their hash without a seed, and may nearly do with one. Its lower bits make
/// the upper ones here.
#[inline(always)]
fn hash(key: &[u8], seed: u64) -> u64 {
    super::short_keys::hash(key, seed).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// The next keys, with their hashes and offsets.
struct Block<'a>([(&'a [u8], u64, i64); BLOCK]);

impl<'a> Block<'a> {
    fn new() -> Self {
        Block([(&[], 0, 0); BLOCK])
    }

    /// Those of them that there are. Their slots and entries are on the way from memory.
    #[inline(always)]
    fn fill(
        &mut self,
        entries: &mut impl Iterator<Item = (&'a [u8], i64)>,
        newest: &Newest,
    ) -> &[(&'a [u8], u64, i64)] {
        let mut count = 0;
        for (place, (key, offset)) in self.0.iter_mut().zip(entries) {
            let hash = hash(key, newest.seed);
            prefetch(newest.slots.as_ptr().wrapping_add(newest.slot(hash)).cast());
            *place = (key, hash, offset);
            count += 1;
        }
        let found = &self.0[..count];
        for (_, hash, _) in found {
            if let Some(content) = newest.slots.get(newest.slot(*hash)) {
                let entry = newest.arena.as_ptr().wrapping_add((content & PLACE) as usize);
                prefetch(entry);
                prefetch(entry.wrapping_add(SHORT_ENTRY));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::short_keys::tests::SHAPES;
    use super::*;

    #[test]
    fn keys_of_one_bucket_are_spread() {
        for (shape, key) in SHAPES.iter().enumerate() {
            let keys = (0..).map(key).filter(|key| super::super::short_keys::hash(key, 0) / (u64::MAX / 763) == 5);
            let keys: Vec<_> = keys.take(4096).collect();
            for seed in [0, 1, 1 << 63, 1 << 40, u64::MAX, 0x0123_4567_89ab_cdef] {
                let slots: std::collections::HashSet<_> = keys.iter().map(|key| hash(key, seed) >> 51).collect();
                // Of 8192; by chance they are 3223.
                assert!(slots.len() > 2800, "{shape} {seed:x} {}", slots.len());
            }
        }
    }

    #[test]
    fn the_greatest_offset_of_each_key_through_growth() {
        let mut newest = Newest::default();
        for round in [1, 100, 1] {
            newest.clear();
            let keys: Vec<_> = (0..round * 1000).map(|number| format!("key-{}", number % 30_000)).collect();
            let entries = keys.iter().enumerate().map(|(offset, key)| (key.as_bytes(), offset as i64));
            newest.put(&mut entries.clone().rev()).unwrap();
            newest.put(&mut entries.clone()).unwrap();
            let expected: std::collections::HashMap<_, _> = entries.clone().collect();
            assert_eq!(newest.count, expected.len());
            assert_eq!(newest.entries().collect::<std::collections::HashMap<_, _>>(), expected);
            let mut missing = Vec::new();
            newest.missing(&mut entries.chain([(&b"other"[..], 7), (b"", 8)]), |offset| missing.push(offset));
            assert_eq!(missing, [7, 8]);
        }
    }
}
