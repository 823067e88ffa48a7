//! Keys and their greatest offsets: a hash table with open addressing over an arena that holds the keys themselves.

use std::hash::{BuildHasher, RandomState};

use xxhash_rust::xxh3::xxh3_64_with_seed;

pub use super::arena::{Arena, Entries};
use super::places::{PLACE_BITS, Places};

/// What a key takes beside its bytes: at most 27.5 in the table (slots of 8 bytes, between 7/16 and 7/8 of them in use, and
/// half as many again while it grows) and 12 in the arena. As KEY_OVERHEAD_BYTES of native_log.records.cleaning.
pub const KEY_OVERHEAD_BYTES: usize = 40;

const SHORT_KEY: usize = 64;

/// The map has no room for one more key.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

pub struct KeyMap {
    /// Those of the entries in the arena.
    places: Places,
    arena: Arena,
    max_bytes: usize,
    /// Another one in each map: nobody can choose keys that collide.
    seed: u64,
}

/// Where a key may be found. Made ahead of its use, when it may not be there yet.
#[derive(Clone, Copy, Default)]
pub struct Guess(Option<usize>);

impl KeyMap {
    pub fn new(max_bytes: usize) -> Self {
        KeyMap {
            places: Places::default(),
            arena: Arena::within(max_bytes),
            max_bytes,
            seed: RandomState::new().hash_one(0),
        }
    }

    pub fn len(&self) -> usize {
        self.arena.len()
    }

    pub fn is_empty(&self) -> bool {
        self.arena.is_empty()
    }

    pub fn size_bytes(&self) -> usize {
        self.arena.size_bytes()
    }

    /// Keys and offsets, in the order in which the keys came.
    pub fn entries(&self) -> Entries<'_> {
        self.arena.entries()
    }

    #[inline(always)]
    pub fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }

    /// The greatest offset of a key.
    pub fn get(&self, key: &[u8]) -> Option<i64> {
        self.get_hashed(key, self.hash(key), Guess::default())
    }

    #[inline(always)]
    pub fn get_hashed(&self, key: &[u8], hash: u64, guess: Guess) -> Option<i64> {
        self.find(key, hash, guess).map(|place| self.arena.offset(place))
    }

    /// Puts a key, or raises its offset.
    #[inline(always)]
    pub fn put_hashed(&mut self, key: &[u8], hash: u64, guess: Guess, offset: i64) -> Result<(), Full> {
        match self.find(key, hash, guess) {
            Some(place) => {
                self.arena.raise(place, offset);
                Ok(())
            }
            None => self.insert(key, hash, offset),
        }
    }

    #[inline(never)]
    fn insert(&mut self, key: &[u8], hash: u64, offset: i64) -> Result<(), Full> {
        let grown = self.size_bytes().saturating_add(KEY_OVERHEAD_BYTES + key.len());
        if grown > self.max_bytes || grown >> PLACE_BITS != 0 {
            return Err(Full);
        }
        if self.places.is_full() {
            let seed = self.seed;
            let hashed = |(place, (key, _)): (usize, (&[u8], i64))| (xxh3_64_with_seed(key, seed), place);
            self.places.grow(self.arena.places().map(hashed));
        }
        self.places.add(hash, self.arena.push(key, offset));
        Ok(())
    }

    #[inline(always)]
    fn find(&self, key: &[u8], hash: u64, guess: Guess) -> Option<usize> {
        let is_it = |place: usize| same(self.arena.key(place), key);
        match guess.0 {
            Some(place) if is_it(place) => Some(place),
            _ => self.places.find(hash, is_it),
        }
    }

    /// Asks for what `guess` needs, ahead of it.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.places.prefetch(hash);
    }

    /// Where the key of this hash is, as it seems: asks for it ahead of its use.
    #[inline(always)]
    pub fn guess(&self, hash: u64) -> Guess {
        let place = self.places.guess(hash);
        if let Some(place) = place {
            self.arena.prefetch(place);
        }
        Guess(place)
    }
}

/// Whether two keys are equal; most are short, and a call of memcmp costs more than they do.
#[inline(always)]
fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() || a.len() > SHORT_KEY {
        return a == b;
    }
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    a.iter().zip(b).all(|(a, b)| u64::from_ne_bytes(*a) == u64::from_ne_bytes(*b))
        && a_rest.iter().zip(b_rest).all(|(a, b)| a == b)
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
