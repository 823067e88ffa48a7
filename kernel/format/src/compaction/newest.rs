//! The greatest offset of each key of a bucket: a small hash table that stays in the processor's cache and is reused for the
//! next bucket.

use std::hash::{BuildHasher, RandomState};

use super::short_keys::{append, same};
use crate::memory::prefetch;

/// A slot is 0 if it is free. Otherwise its lower 40 bits are the index of the entry + 1, and its upper ones the lower bits of
/// the hash.
const SLOT_BITS: u32 = 40;
const INDEX: u64 = (1 << SLOT_BITS) - 1;
const FEWEST_SLOTS: usize = 1 << 8;
/// Size of an entry without its key. An entry is an offset (8 bytes), the length of the key (4), and the key.
const ENTRY_HEADER: usize = 12;
/// Most entries are not larger.
const SHORT_ENTRY: usize = 28;
/// This many keys are looked up together, so that their memory is fetched at the same time.
const BLOCK: usize = 32;

/// The keys take more than 2^40 bytes.
#[derive(Debug)]
pub struct TooMany;

pub struct Newest {
    /// A power of two, at least half of them free. The upper bits of a hash are the index of its slot.
    slots: Vec<u64>,
    shift: u32,
    arena: Vec<u8>,
    count: usize,
    /// Random in each table, so that nobody can choose keys that collide.
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
    /// Removes all keys. The next bucket is expected to have about as many.
    pub fn clear(&mut self) {
        let enough = (self.count * 4).next_power_of_two().max(FEWEST_SLOTS);
        self.arena.clear();
        self.count = 0;
        self.resize(enough.min(self.slots.len()));
    }

    /// Makes `count` free slots.
    fn resize(&mut self, count: usize) {
        self.slots.clear();
        self.slots.resize(count, 0);
        self.shift = 64 - count.trailing_zeros();
    }

    /// Adds keys, or raises their offsets.
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
                    Ok(index) => self.raise(index, offset),
                    Err(slot) => self.insert(key, hash, offset, slot)?,
                }
            }
        }
    }

    /// Calls `found` with the offsets of keys that are not in the table.
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

    /// Keys and offsets, in the order in which the keys were first seen.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], i64)> {
        let mut index = 0;
        std::iter::from_fn(move || {
            (index < self.arena.len()).then(|| {
                let entry = (self.key(index), self.offset(index));
                index += ENTRY_HEADER + entry.0.len();
                entry
            })
        })
    }

    #[inline(always)]
    fn slot(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }

    /// The index of the entry of a key. The error is the free slot for the key.
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
                let index = (content & INDEX) as usize - 1;
                if same(self.key(index), key) {
                    return Ok(index);
                }
            }
            slot += 1;
        }
    }

    #[inline(always)]
    fn insert(&mut self, key: &[u8], hash: u64, offset: i64, slot: usize) -> Result<(), TooMany> {
        let index = self.arena.len() as u64 + 1;
        if index > INDEX {
            return Err(TooMany);
        }
        self.slots[slot] = hash << SLOT_BITS | index;
        self.arena.extend_from_slice(&offset.to_le_bytes());
        append(&mut self.arena, key.len() as u64, ENTRY_HEADER - 8, key);
        self.count += 1;
        Ok(())
    }

    #[cold]
    fn grow(&mut self) {
        self.resize(self.slots.len() * 4);
        let mask = self.slots.len() - 1;
        let mut index = 0;
        while index < self.arena.len() {
            let key = self.key(index);
            let (hash, bytes) = (hash(key, self.seed), key.len());
            let mut slot = self.slot(hash);
            while self.slots[slot & mask] != 0 {
                slot += 1;
            }
            self.slots[slot & mask] = hash << SLOT_BITS | (index as u64 + 1);
            index += ENTRY_HEADER + bytes;
        }
    }

    #[inline(always)]
    fn key(&self, index: usize) -> &[u8] {
        let mut field = [0; 4];
        field.copy_from_slice(&self.arena[index + 8..index + ENTRY_HEADER]);
        &self.arena[index + ENTRY_HEADER..][..u32::from_le_bytes(field) as usize]
    }

    #[inline(always)]
    fn offset(&self, index: usize) -> i64 {
        let mut field = [0; 8];
        field.copy_from_slice(&self.arena[index..index + 8]);
        i64::from_le_bytes(field)
    }

    #[inline(always)]
    fn raise(&mut self, index: usize, offset: i64) {
        let greatest = self.offset(index).max(offset);
        self.arena[index..index + 8].copy_from_slice(&greatest.to_le_bytes());
    }
}

/// Keys of one bucket have the same upper bits of their hash without a seed, and may have nearly the same with one. So the
/// upper bits of this hash come from the lower ones.
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

    /// Takes up to BLOCK of the entries, and prefetches their slots and entries.
    #[inline(always)]
    fn fill(
        &mut self,
        entries: &mut impl Iterator<Item = (&'a [u8], i64)>,
        newest: &Newest,
    ) -> &[(&'a [u8], u64, i64)] {
        let mut count = 0;
        for (entry, (key, offset)) in self.0.iter_mut().zip(entries) {
            let hash = hash(key, newest.seed);
            prefetch(newest.slots.as_ptr().wrapping_add(newest.slot(hash)).cast());
            *entry = (key, hash, offset);
            count += 1;
        }
        let found = &self.0[..count];
        for (_, hash, _) in found {
            if let Some(content) = newest.slots.get(newest.slot(*hash)) {
                let entry = newest.arena.as_ptr().wrapping_add((content & INDEX) as usize);
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
