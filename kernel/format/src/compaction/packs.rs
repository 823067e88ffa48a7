//! Packs carry the keys and offsets of one bucket between processes. Merging packs finds the offsets that survive.
//!
//! KeyBuckets.take in native_log/records/compaction.py describes their format.

use roaring::RoaringTreemap;

use super::newest::Newest;
use super::short_keys::append;
use super::survivors::from_unsorted;

const VERSION: u8 = 2;
/// Size of the header: version, kind, number of entries, base offset.
const HEADER: usize = 18;
/// Size of a short entry without its key: length of the key, offset - base offset.
const SHORT_HEADER: usize = 5;
/// Size of a long entry without its key: LONG, length of the key, offset.
const LONG_HEADER: usize = 13;
/// Stands in place of the length of a short entry.
const LONG: u8 = 255;
/// So many offsets take a few megabytes.
const OFFSETS_AT_ONCE: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Offsets of the dirty part of a log: the greatest offset of each key survives.
    Dirty = 0,
    /// Offsets of the clean part: all survive whose key is not in the dirty part.
    Clean = 1,
}

/// A pack being filled.
#[derive(Default)]
pub struct Pack {
    /// Empty without entries. The header is filled in last.
    bytes: Vec<u8>,
    /// The first offset.
    base: i64,
    count: usize,
}

impl Pack {
    /// An empty pack that reuses this memory.
    pub fn within(mut memory: Vec<u8>) -> Self {
        memory.clear();
        Pack { bytes: memory, base: 0, count: 0 }
    }

    /// Number of entries.
    pub fn count(&self) -> usize {
        self.count
    }

    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The address of the next entry.
    #[inline(always)]
    pub fn end(&self) -> *const u8 {
        self.bytes.as_ptr().wrapping_add(self.bytes.len())
    }

    /// How many bytes an entry adds.
    #[inline(always)]
    pub fn grows_by(&self, key: &[u8], offset: i64) -> usize {
        if self.bytes.is_empty() {
            return HEADER + if key.len() < LONG.into() { SHORT_HEADER } else { LONG_HEADER } + key.len();
        }
        key.len() + self.ahead(key, offset).map_or(LONG_HEADER, |_| SHORT_HEADER)
    }

    #[inline(always)]
    pub fn push(&mut self, key: &[u8], offset: i64) {
        if self.bytes.is_empty() {
            self.begin(offset);
        }
        match self.ahead(key, offset) {
            Some(ahead) => append(&mut self.bytes, u64::from(ahead) << 8 | key.len() as u64, SHORT_HEADER, key),
            None => {
                append(&mut self.bytes, (key.len() as u64) << 8 | u64::from(LONG), LONG_HEADER - 8, &[]);
                append(&mut self.bytes, offset as u64, 8, key);
            }
        }
        self.count += 1;
    }

    #[cold]
    fn begin(&mut self, offset: i64) {
        self.bytes.resize(HEADER, 0);
        self.base = offset;
    }

    /// The offset - base offset of an entry, if the entry can be short.
    #[inline(always)]
    fn ahead(&self, key: &[u8], offset: i64) -> Option<u32> {
        if key.len() >= LONG.into() {
            return None;
        }
        u32::try_from(offset.checked_sub(self.base)?).ok()
    }

    pub fn entries(&self) -> Entries<'_> {
        let rest = self.bytes.get(HEADER..).unwrap_or_default();
        Entries { rest, left: self.count as u64, base: self.base, damaged: false }
    }

    /// Replaces all entries. The base offset stays.
    pub fn replace<'a>(&mut self, entries: impl Iterator<Item = (&'a [u8], i64)>) {
        self.bytes.truncate(HEADER);
        self.count = 0;
        entries.for_each(|(key, offset)| self.push(key, offset));
    }

    /// Takes the bytes of the pack, which is empty afterwards.
    pub fn take(&mut self, kind: Kind) -> Vec<u8> {
        if let Some(header) = self.bytes.first_chunk_mut::<HEADER>() {
            header[..2].copy_from_slice(&[VERSION, kind as u8]);
            header[2..10].copy_from_slice(&(self.count as u64).to_le_bytes());
            header[10..].copy_from_slice(&self.base.to_le_bytes());
        }
        self.count = 0;
        std::mem::take(&mut self.bytes)
    }

    /// Reuses this memory if the pack has none yet.
    pub fn reuse(&mut self, memory: Vec<u8>) {
        if self.bytes.capacity() == 0 {
            *self = Pack::within(memory);
        }
    }

    pub fn into_memory(self) -> Vec<u8> {
        self.bytes
    }
}

/// Finds the surviving offsets, bucket by bucket.
#[derive(Default)]
pub struct Merger {
    newest: Newest,
    offsets: Vec<u64>,
    survivors: RoaringTreemap,
}

impl Merger {
    /// Adds the survivors of one bucket from all of its packs: the greatest offset of each key in dirty packs, and all
    /// offsets in clean packs of keys that are in no dirty pack.
    pub fn add(&mut self, packs: &[&[u8]]) -> Result<(), String> {
        let (newest, offsets) = (&mut self.newest, &mut self.offsets);
        newest.clear();
        let mut full = false;
        for_each_of(packs, Kind::Dirty, |entries| full |= newest.put(entries).is_err())?;
        if full {
            return Err("expected packs of at most 2^40 bytes of keys, found more; use more buckets".into());
        }
        let mut survives = |offset: i64| offsets.extend(u64::try_from(offset));
        newest.entries().for_each(|(_, offset)| survives(offset));
        for_each_of(packs, Kind::Clean, |entries| newest.missing(entries, &mut survives))?;
        if offsets.len() > OFFSETS_AT_ONCE {
            self.collect();
        }
        Ok(())
    }

    pub fn survivors(mut self) -> RoaringTreemap {
        self.collect();
        self.survivors
    }

    fn collect(&mut self) {
        self.survivors |= from_unsorted(std::mem::take(&mut self.offsets));
    }
}

/// Calls `visit` with the entries of each pack of this kind. It must iterate over all of them.
fn for_each_of<'a>(packs: &[&'a [u8]], of_kind: Kind, mut visit: impl FnMut(&mut Entries<'a>)) -> Result<(), String> {
    for (number, pack) in packs.iter().enumerate().filter(|(_, pack)| !pack.is_empty()) {
        let (kind, mut entries) = Entries::of(pack).map_err(|what| format!("pack {number}: {what}"))?;
        if kind == of_kind {
            visit(&mut entries);
            entries.finish().map_err(|what| format!("pack {number}: {what}"))?;
        }
    }
    Ok(())
}

/// The entries of a pack, up to the first damaged one. `finish` reports damage.
pub struct Entries<'a> {
    rest: &'a [u8],
    left: u64,
    base: i64,
    damaged: bool,
}

impl<'a> Entries<'a> {
    fn of(pack: &'a [u8]) -> Result<(Kind, Self), String> {
        let Some((header, rest)) = pack.split_first_chunk::<HEADER>() else {
            return Err(format!("expected a pack of 0 or at least {HEADER} bytes, found {}", pack.len()));
        };
        let field = |at: usize| {
            let mut field = [0; 8];
            field.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(field)
        };
        if header[0] != VERSION {
            return Err(format!("expected packs of version {VERSION}, found {}", header[0]));
        }
        let kind = match header[1] {
            0 => Kind::Dirty,
            1 => Kind::Clean,
            kind => return Err(format!("expected kind 0 or 1, found {kind}")),
        };
        let (left, most) = (field(2), (rest.len() / SHORT_HEADER) as u64);
        if left > most {
            return Err(format!("expected at most {most} entries in {} bytes, found {left}", pack.len()));
        }
        Ok((kind, Entries { rest, left, base: field(10) as i64, damaged: false }))
    }

    #[inline(always)]
    fn entry(&mut self) -> Option<(&'a [u8], i64)> {
        let (&length, rest) = self.rest.split_first()?;
        let (length, offset, rest) = if length < LONG {
            let (ahead, rest) = rest.split_first_chunk()?;
            let offset = self.base.checked_add(u32::from_le_bytes(*ahead).into())?;
            (length.into(), offset, rest)
        } else {
            let (length, rest) = rest.split_first_chunk()?;
            let (offset, rest) = rest.split_first_chunk()?;
            (u32::from_le_bytes(*length) as usize, i64::from_le_bytes(*offset), rest)
        };
        let (key, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some((key, offset))
    }

    fn finish(&self) -> Result<(), String> {
        match (self.damaged, self.rest.len()) {
            (true, _) => Err(format!("expected {} more entries, found a truncated or impossible one", self.left)),
            (_, 0) => Ok(()),
            (_, left) => Err(format!("expected the end of the pack after its entries, found {left} more bytes")),
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], i64);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 || self.damaged {
            return None;
        }
        let entry = self.entry();
        match entry {
            Some(_) => self.left -= 1,
            None => self.damaged = true,
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack_of(entries: &[(&[u8], i64)]) -> Vec<u8> {
        let mut pack = Pack::default();
        for (key, offset) in entries {
            let before = pack.size_bytes();
            let grown = before + pack.grows_by(key, *offset);
            pack.push(key, *offset);
            assert_eq!(pack.size_bytes(), grown);
        }
        pack.take(Kind::Dirty)
    }

    #[test]
    fn entries_short_and_long() {
        let long = [b'k'; 255];
        let entries: [(&[u8], i64); 6] = [
            (b"", 1000),
            (&long, 1001),
            (&long[..254], 1000 + i64::from(u32::MAX)),
            (b"beyond", 1000 + (1 << 32)),
            (b"before", i64::MIN),
            (b"last", i64::MAX),
        ];
        let pack = pack_of(&entries);
        assert_eq!(pack.len(), 18 + 5 + (13 + 255) + (5 + 254) + (13 + 6) + (13 + 6) + (13 + 4));
        let (kind, mut found) = Entries::of(&pack).unwrap();
        assert_eq!(kind, Kind::Dirty);
        assert!(found.by_ref().eq(entries));
        found.finish().unwrap();
    }

    fn merge(packs: &[&[u8]]) -> Result<RoaringTreemap, String> {
        let mut merger = Merger::default();
        merger.add(packs)?;
        Ok(merger.survivors())
    }

    #[test]
    fn bytes_that_are_no_pack() {
        let good = pack_of(&[(b"key", 7), (b"other", 300)]);
        assert_eq!(merge(&[&good, &[]]).unwrap().len(), 2);
        for end in 1..good.len() {
            assert!(merge(&[&good[..end]]).is_err(), "{end}");
        }
        for (at, byte) in [(0, 1), (1, 2), (2, 1), (2, 3), (9, 0x80), (18, 254), (18, 255), (17, 0x80)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(merge(&[&bad]).is_err(), at != 17, "{at} {byte}");
        }
        let mut beyond = good;
        beyond[10..18].copy_from_slice(&(i64::MAX - 1).to_le_bytes());
        assert!(merge(&[&beyond]).is_err());
    }
}
