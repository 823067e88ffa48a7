//! The greatest offset of each key: a hash table with open addressing over an arena that contains the keys.

use std::hash::{BuildHasher, RandomState};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::arena::{Arena, ENTRY_HEADER, Entries};
use super::short_keys::same;
use super::swiss_table::{SLOT_BITS, SwissTable};

/// The memory of a key in addition to its bytes: at most 27.5 bytes in the table (slots of 8 bytes, between 7/16 and 7/8 of
/// them in use, and half as many again while the table grows) and 12 in the arena. native_log.records.compaction has the
/// same KEY_OVERHEAD_BYTES.
pub const KEY_OVERHEAD_BYTES: usize = 40;

/// The map has no room for one more key.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

pub struct KeyMap {
    /// The indexes of the entries in the arena.
    table: SwissTable,
    arena: Arena,
    max_bytes: usize,
    /// Random in each map, so that nobody can choose keys that collide.
    seeds: [u64; 2],
}

/// The index that an entry probably has. It is computed ahead of its use, when the key may not be in the map yet.
#[derive(Clone, Copy)]
pub struct Guess(usize);

impl Guess {
    const NONE: usize = usize::MAX;
}

impl Default for Guess {
    fn default() -> Self {
        Guess(Guess::NONE)
    }
}

impl KeyMap {
    pub fn new(max_bytes: usize) -> Self {
        KeyMap {
            table: SwissTable::default(),
            arena: Arena::within(max_bytes),
            max_bytes,
            seeds: [0, 1].map(|number| RandomState::new().hash_one(number)),
        }
    }

    pub fn len(&self) -> usize {
        self.arena.len()
    }

    pub fn is_empty(&self) -> bool {
        self.arena.is_empty()
    }

    pub fn size_bytes(&self) -> usize {
        self.arena.size_bytes() + self.arena.len() * (KEY_OVERHEAD_BYTES - ENTRY_HEADER)
    }

    /// Keys and offsets, in the order in which the keys were first seen.
    pub fn entries(&self) -> Entries<'_> {
        self.arena.entries()
    }

    #[inline(always)]
    pub fn hash(&self, key: &[u8]) -> u64 {
        hash_of(key, self.seeds)
    }

    /// The greatest offset of a key.
    pub fn get(&self, key: &[u8]) -> Option<i64> {
        self.get_hashed(key, self.hash(key), Guess::default())
    }

    #[inline(always)]
    pub fn get_hashed(&self, key: &[u8], hash: u64, guess: Guess) -> Option<i64> {
        self.find(key, hash, guess).map(|index| self.arena.offset(index))
    }

    /// Adds a key, or raises its offset.
    #[inline(always)]
    pub fn put_hashed(&mut self, key: &[u8], hash: u64, guess: Guess, offset: i64) -> Result<(), Full> {
        match self.find(key, hash, guess) {
            Some(index) => {
                self.arena.raise(index, offset);
                Ok(())
            }
            None => self.insert(key, hash, offset),
        }
    }

    #[inline(never)]
    fn insert(&mut self, key: &[u8], hash: u64, offset: i64) -> Result<(), Full> {
        let grown = self.size_bytes().saturating_add(KEY_OVERHEAD_BYTES + key.len());
        if grown > self.max_bytes || grown >> SLOT_BITS != 0 {
            return Err(Full);
        }
        if self.table.is_full() {
            let seeds = self.seeds;
            let hashed = |(index, (key, _)): (usize, (&[u8], i64))| (hash_of(key, seeds), index);
            self.table.grow(self.arena.indexes().map(hashed));
        }
        self.table.add(hash, self.arena.push(key, offset));
        Ok(())
    }

    #[inline(always)]
    fn find(&self, key: &[u8], hash: u64, guess: Guess) -> Option<usize> {
        let has_key = |index: usize| same(self.arena.key(index), key);
        match guess.0 {
            index if index != Guess::NONE && has_key(index) => Some(index),
            _ => self.table.find(hash, has_key),
        }
    }

    /// Prefetches what `guess` reads.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.table.prefetch(hash);
    }

    /// The probable index of the key with this hash. Prefetches its entry.
    #[inline(always)]
    pub fn guess(&self, hash: u64) -> Guess {
        let index = self.table.guess(hash);
        if let Some(index) = index {
            self.arena.prefetch(index);
        }
        Guess(index.unwrap_or(Guess::NONE))
    }
}

/// The hash of a key. For keys of 8 to 16 bytes, which most are, it depends on their first and last eight bytes.
#[inline(always)]
fn hash_of(key: &[u8], seeds: [u64; 2]) -> u64 {
    match (key.first_chunk(), key.last_chunk()) {
        (Some(first), Some(last)) if key.len() <= 16 => {
            let first = u64::from_le_bytes(*first) ^ seeds[0];
            let last = u64::from_le_bytes(*last).wrapping_add(key.len() as u64) ^ seeds[1];
            folded(folded(first, last), MIX)
        }
        _ => xxh3_64_with_seed(key, seeds[0]),
    }
}

/// An odd number with as many ones as zeros.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline(always)]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(map: &mut KeyMap, key: &[u8], offset: i64) -> Result<(), Full> {
        map.put_hashed(key, map.hash(key), map.guess(map.hash(key)), offset)
    }

    #[test]
    fn the_greatest_offset_of_each_key_through_growth() {
        let mut map = KeyMap::new(usize::MAX);
        for offset in 0..100_000i64 {
            put(&mut map, format!("key-{}", offset % 30_000).as_bytes(), offset).unwrap();
        }
        assert_eq!(map.len(), 30_000);
        for (key, offset) in map.entries() {
            let number: i64 = std::str::from_utf8(&key[4..]).unwrap().parse().unwrap();
            assert_eq!(offset, if number < 10_000 { 90_000 + number } else { 60_000 + number });
            assert_eq!(map.get(key), Some(offset));
        }
        assert_eq!(map.get(b"key-30000"), None);
    }

    #[test]
    fn full_by_what_the_keys_take() {
        let mut map = KeyMap::new(2 * (KEY_OVERHEAD_BYTES + 1));
        assert_eq!(put(&mut map, b"a", 1), Ok(()));
        assert_eq!(put(&mut map, b"b", 2), Ok(()));
        assert_eq!(put(&mut map, b"", 3), Err(Full));
        assert_eq!(put(&mut map, b"a", 4), Ok(()));
        assert_eq!(put(&mut map, b"b", 1), Ok(()));
        assert_eq!((map.get(b"a"), map.get(b"b"), map.get(b"")), (Some(4), Some(2), None));
        assert_eq!(map.size_bytes(), 82);
    }
}
