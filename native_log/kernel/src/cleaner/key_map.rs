//! Keys and their greatest offsets: a hash table with open addressing over an arena that holds the keys themselves.

use std::hash::{BuildHasher, RandomState};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What a key takes beside its bytes: at most 27.5 in the table (slots of 8 bytes, between 7/16 and 7/8 of them in use, and
/// half as many again while it grows) and 12 in the arena. As KEY_OVERHEAD_BYTES of native_log.records.cleaning.
pub const KEY_OVERHEAD_BYTES: usize = 40;

/// An entry: offset (8 bytes), length of the key (4), the key.
const ENTRY_HEADER: usize = 12;
/// A slot: 0 for none, or the upper bits of the hash, and below them the entry's place in the arena + 1.
const PLACE_BITS: u32 = 40;
const PLACE: u64 = (1 << PLACE_BITS) - 1;
const FEWEST_SLOTS: usize = 1 << 10;
const SHORT_KEY: usize = 64;
#[cfg(target_os = "linux")]
const LARGE_PAGE: usize = 2 << 20;

/// The map has no room for one more key.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

pub struct KeyMap {
    slots: Vec<u64>,
    arena: Arena,
    max_bytes: usize,
    /// Another one in each map: nobody can choose keys that collide.
    seed: u64,
}

impl KeyMap {
    pub fn new(max_bytes: usize) -> Self {
        KeyMap { slots: Vec::new(), arena: Arena::default(), max_bytes, seed: RandomState::new().hash_one(0) }
    }

    pub fn len(&self) -> usize {
        self.arena.len
    }

    pub fn is_empty(&self) -> bool {
        self.arena.len == 0
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
        self.get_hashed(key, self.hash(key))
    }

    #[inline]
    pub fn get_hashed(&self, key: &[u8], hash: u64) -> Option<i64> {
        if self.slots.is_empty() {
            return None;
        }
        let (place, _) = self.find(key, hash);
        place.map(|place| self.arena.offset(place))
    }

    /// Puts a key, or raises its offset.
    #[inline]
    pub fn put_hashed(&mut self, key: &[u8], hash: u64, offset: i64) -> Result<(), Full> {
        if self.slots.is_empty() {
            self.slots = slots_of(FEWEST_SLOTS);
        }
        let (place, slot) = self.find(key, hash);
        if let Some(place) = place {
            self.arena.raise(place, offset);
            return Ok(());
        }
        self.insert(key, hash, offset, slot)
    }

    #[inline]
    fn insert(&mut self, key: &[u8], hash: u64, offset: i64, mut slot: usize) -> Result<(), Full> {
        let grown = self.size_bytes().saturating_add(KEY_OVERHEAD_BYTES + key.len());
        if grown > self.max_bytes || grown as u64 > PLACE {
            return Err(Full);
        }
        if self.len() + 1 > self.slots.len() / 8 * 7 {
            self.grow();
            (_, slot) = self.find(key, hash);
        }
        self.slots[slot] = entry_slot(hash, self.arena.push(key, offset));
        Ok(())
    }

    /// The place of a key, or the free slot where it would be.
    #[inline(always)]
    fn find(&self, key: &[u8], hash: u64) -> (Option<usize>, usize) {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let content = self.slots[slot];
            if content == 0 {
                return (None, slot);
            }
            if (content ^ hash) >> PLACE_BITS == 0 {
                let place = (content & PLACE) as usize - 1;
                if same(self.arena.key(place), key) {
                    return (Some(place), slot);
                }
            }
            slot = (slot + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        let mut slots = slots_of(mask + 1);
        for (place, entry) in self.arena.places() {
            let hash = self.hash(entry.0);
            let mut slot = hash as usize & mask;
            while slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            slots[slot] = entry_slot(hash, place);
        }
        self.slots = slots;
    }

    /// Asks for the slot of a hash ahead of its use.
    #[inline(always)]
    pub fn prefetch_slot(&self, hash: u64) {
        prefetch(self.slots.as_ptr().wrapping_add(hash as usize & self.slots.len().wrapping_sub(1)).cast());
    }

    /// Asks for the entry of a hash ahead of its use; its slot should be near by then. (If its slot is not the first one
    /// where it may be, it is not found: a search costs more than it saves.)
    #[inline(always)]
    pub fn prefetch_entry(&self, hash: u64) {
        if let Some(content) = self.slots.get(hash as usize & self.slots.len().wrapping_sub(1)) {
            prefetch(self.arena.bytes.as_ptr().wrapping_add((content & PLACE) as usize));
        }
    }
}

#[inline(always)]
fn entry_slot(hash: u64, place: usize) -> u64 {
    hash & !PLACE | (place as u64 + 1)
}

/// Slots in large pages, where the system has them: a lookup then seldom waits for the address of its slot as well.
fn slots_of(count: usize) -> Vec<u64> {
    let mut slots = Vec::with_capacity(count);
    advise_large_pages(slots.as_ptr(), count);
    slots.resize(count, 0);
    slots
}

fn advise_large_pages<T>(start: *const T, count: usize) {
    #[cfg(target_os = "linux")]
    {
        let (start, bytes) = (start as usize, count * size_of::<T>());
        let first = start.next_multiple_of(LARGE_PAGE);
        if bytes > 2 * LARGE_PAGE {
            let bytes = (start + bytes - first) / LARGE_PAGE * LARGE_PAGE;
            // SAFETY: advice about whole pages within an allocation; it changes no content. Without it, pages are small.
            unsafe { libc::madvise(first as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, count);
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

/// Asks for the memory at an address ahead of its use; any address will do.
#[inline(always)]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Keys and offsets, one behind the other.
#[derive(Default)]
pub struct Arena {
    bytes: Vec<u8>,
    len: usize,
}

impl Arena {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn size_bytes(&self) -> usize {
        self.bytes.len() + self.len * (KEY_OVERHEAD_BYTES - ENTRY_HEADER)
    }

    /// Its place.
    #[inline]
    pub fn push(&mut self, key: &[u8], offset: i64) -> usize {
        let place = self.bytes.len();
        let mut header = [0; ENTRY_HEADER];
        header[..8].copy_from_slice(&offset.to_le_bytes());
        header[8..].copy_from_slice(&(key.len() as u32).to_le_bytes());
        if self.bytes.capacity() - self.bytes.len() < ENTRY_HEADER + key.len() {
            self.grow(ENTRY_HEADER + key.len());
        }
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(key);
        self.len += 1;
        place
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
        advise_large_pages(self.bytes.as_ptr(), self.bytes.capacity());
    }

    #[inline(always)]
    fn offset(&self, place: usize) -> i64 {
        let mut field = [0; 8];
        field.copy_from_slice(&self.bytes[place..place + 8]);
        i64::from_le_bytes(field)
    }

    #[inline(always)]
    fn raise(&mut self, place: usize, offset: i64) {
        if self.offset(place) < offset {
            self.bytes[place..place + 8].copy_from_slice(&offset.to_le_bytes());
        }
    }

    #[inline(always)]
    fn key(&self, place: usize) -> &[u8] {
        let mut field = [0; 4];
        field.copy_from_slice(&self.bytes[place + 8..place + ENTRY_HEADER]);
        &self.bytes[place + ENTRY_HEADER..][..u32::from_le_bytes(field) as usize]
    }

    pub fn entries(&self) -> Entries<'_> {
        Entries { arena: self, place: 0 }
    }

    fn places(&self) -> impl Iterator<Item = (usize, (&[u8], i64))> {
        let mut entries = self.entries();
        std::iter::from_fn(move || {
            let place = entries.place;
            entries.next().map(|entry| (place, entry))
        })
    }
}

/// Keys and offsets of an arena.
#[derive(Clone)]
pub struct Entries<'a> {
    arena: &'a Arena,
    place: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], i64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.place == self.arena.bytes.len() {
            return None;
        }
        let key = self.arena.key(self.place);
        let offset = self.arena.offset(self.place);
        self.place += ENTRY_HEADER + key.len();
        Some((key, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(map: &mut KeyMap, key: &[u8], offset: i64) -> Result<(), Full> {
        map.put_hashed(key, map.hash(key), offset)
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
