//! Keys and their offsets in one block of memory.

use crate::memory::{advise_large_pages, prefetch};

/// Size of an entry without its key. An entry is an offset (8 bytes), the length of the key (4), and the key.
pub const ENTRY_HEADER: usize = 12;
/// Most entries are not larger.
const SHORT_ENTRY: usize = 28;
/// An arena of this size or more has large pages.
const LARGE: usize = 4 << 20;

/// Keys and their offsets, one entry after the other. An entry is identified by the index of its first byte.
pub struct Arena {
    bytes: Vec<u8>,
    len: usize,
    max_bytes: usize,
}

impl Arena {
    /// An arena whose entries never take more than `max_bytes` bytes.
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

    /// Appends an entry and returns its index.
    #[inline]
    pub fn push(&mut self, key: &[u8], offset: i64) -> usize {
        let index = self.bytes.len();
        let mut header = [0; ENTRY_HEADER];
        header[..8].copy_from_slice(&offset.to_le_bytes());
        header[8..].copy_from_slice(&(key.len() as u32).to_le_bytes());
        if self.bytes.capacity() - self.bytes.len() < ENTRY_HEADER + key.len() {
            self.grow(ENTRY_HEADER + key.len());
        }
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(key);
        self.len += 1;
        index
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        let needed = self.bytes.len() + bytes;
        if needed < LARGE {
            self.bytes.reserve(bytes);
            return;
        }
        // Capacity that is not used takes no memory. The entries are copied, because moved pages would stay small. Near
        // the limit the arena gets its largest size at once: two half-full arenas would together exceed the limit.
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

    /// Prefetches an entry, which may reach into a second cache line.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        let entry = self.bytes.as_ptr().wrapping_add(index);
        prefetch(entry);
        prefetch(entry.wrapping_add(SHORT_ENTRY));
    }

    #[inline(always)]
    pub fn offset(&self, index: usize) -> i64 {
        let mut field = [0; 8];
        field.copy_from_slice(&self.bytes[index..index + 8]);
        i64::from_le_bytes(field)
    }

    /// Sets the offset of an entry if it is greater than the present one.
    #[inline(always)]
    pub fn raise(&mut self, index: usize, offset: i64) {
        if self.offset(index) < offset {
            self.bytes[index..index + 8].copy_from_slice(&offset.to_le_bytes());
        }
    }

    #[inline(always)]
    pub fn key(&self, index: usize) -> &[u8] {
        let mut field = [0; 4];
        field.copy_from_slice(&self.bytes[index + 8..index + ENTRY_HEADER]);
        &self.bytes[index + ENTRY_HEADER..][..u32::from_le_bytes(field) as usize]
    }

    pub fn entries(&self) -> Entries<'_> {
        Entries { arena: self, index: 0 }
    }

    /// The index of each entry, and the entry.
    pub fn indexes(&self) -> impl Iterator<Item = (usize, (&[u8], i64))> {
        let mut entries = self.entries();
        std::iter::from_fn(move || {
            let index = entries.index;
            entries.next().map(|entry| (index, entry))
        })
    }
}

/// The keys and offsets in an arena.
#[derive(Clone)]
pub struct Entries<'a> {
    arena: &'a Arena,
    index: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], i64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index == self.arena.bytes.len() {
            return None;
        }
        let key = self.arena.key(self.index);
        let offset = self.arena.offset(self.index);
        self.index += ENTRY_HEADER + key.len();
        Some((key, offset))
    }
}
