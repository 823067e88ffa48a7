//! Keys and offsets, one behind the other.

use crate::memory::{advise_large_pages, prefetch};

/// An entry: offset (8 bytes), length of the key (4), the key.
pub const ENTRY_HEADER: usize = 12;
/// So far most entries reach.
const SHORT_ENTRY: usize = 28;
/// From here on an arena is made of large pages.
const LARGE: usize = 4 << 20;

/// Keys and offsets, one behind the other.
pub struct Arena {
    bytes: Vec<u8>,
    len: usize,
    max_bytes: usize,
}

impl Arena {
    /// One that is never asked to take more than `max_bytes`.
    pub fn within(max_bytes: usize) -> Self {
        Arena { bytes: Vec::new(), len: 0, max_bytes }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
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
        let needed = self.bytes.len() + bytes;
        if needed < LARGE {
            self.bytes.reserve(bytes);
            return;
        }
        // What is not used of it takes no memory. It is not moved to its new pages, for these would be small ones again;
        // and not copied when half of all that there may be is there, or both would take more than that.
        let capacity = if needed > self.max_bytes / 8 { self.max_bytes } else { needed * 4 };
        let mut grown = Vec::new();
        if grown.try_reserve_exact(capacity.max(needed)).is_err() {
            self.bytes.reserve(bytes);
            return;
        }
        advise_large_pages(grown.as_ptr(), grown.capacity());
        grown.extend_from_slice(&self.bytes);
        self.bytes = grown;
    }

    /// Asks for the entry at a place ahead of its use. It may reach into a second line of the processor's cache.
    #[inline(always)]
    pub fn prefetch(&self, place: usize) {
        let entry = self.bytes.as_ptr().wrapping_add(place);
        prefetch(entry);
        prefetch(entry.wrapping_add(SHORT_ENTRY));
    }

    #[inline(always)]
    pub fn offset(&self, place: usize) -> i64 {
        let mut field = [0; 8];
        field.copy_from_slice(&self.bytes[place..place + 8]);
        i64::from_le_bytes(field)
    }

    #[inline(always)]
    pub fn raise(&mut self, place: usize, offset: i64) {
        if self.offset(place) < offset {
            self.bytes[place..place + 8].copy_from_slice(&offset.to_le_bytes());
        }
    }

    #[inline(always)]
    pub fn key(&self, place: usize) -> &[u8] {
        let mut field = [0; 4];
        field.copy_from_slice(&self.bytes[place + 8..place + ENTRY_HEADER]);
        &self.bytes[place + ENTRY_HEADER..][..u32::from_le_bytes(field) as usize]
    }

    pub fn entries(&self) -> Entries<'_> {
        Entries { arena: self, place: 0 }
    }

    pub fn places(&self) -> impl Iterator<Item = (usize, (&[u8], i64))> {
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
