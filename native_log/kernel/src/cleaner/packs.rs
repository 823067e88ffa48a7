//! Keys and offsets in buckets by key, on their way between processes, and what survives of them.
//!
//! The format is that of OffsetMap.buckets in native_log/records/cleaning.py.

use roaring::RoaringTreemap;

use super::key_map::{Entries, KeyMap};
use super::survivors::from_unsorted;
use crate::crc::crc32c;

const VERSION: u8 = 1;
/// Version, kind, number of entries, least offset.
const HEADER: usize = 18;
/// A length, an offset, and no key.
const SMALLEST_ENTRY: usize = 2;
const BLOCK: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Greatest offsets of the dirty part.
    Dirty = 0,
    /// All offsets of the clean part.
    Clean = 1,
}

/// One pack for each of `count` buckets.
pub fn pack(kind: Kind, entries: Entries, count: usize) -> Vec<Vec<u8>> {
    let mut least = vec![(0u64, i64::MAX, 0usize); count];
    let bucket_of = |key: &[u8]| ((u64::from(crc32c(key)) * count as u64) >> 32) as usize;
    for (key, offset) in entries.clone() {
        let (number, lowest, bytes) = &mut least[bucket_of(key)];
        *number += 1;
        *lowest = offset.min(*lowest);
        *bytes += key.len() + 6;
    }
    let mut packs: Vec<Vec<u8>> = least
        .iter()
        .map(|&(number, lowest, bytes)| {
            let mut pack = Vec::with_capacity(HEADER + bytes);
            pack.extend([VERSION, kind as u8]);
            pack.extend(number.to_le_bytes());
            pack.extend(if number == 0 { 0 } else { lowest }.to_le_bytes());
            pack
        })
        .collect();
    for (key, offset) in entries {
        let bucket = bucket_of(key);
        let pack = &mut packs[bucket];
        leb128(key.len() as u64, pack);
        leb128(offset.wrapping_sub(least[bucket].1) as u64, pack);
        pack.extend_from_slice(key);
    }
    packs
}

fn leb128(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Of a key that any dirty pack has, the greatest offset there; of any other, all its offsets in clean packs.
pub fn merge(packs: &[&[u8]]) -> Result<RoaringTreemap, String> {
    let mut newest = KeyMap::new(usize::MAX);
    let mut full = false;
    for_each_of(packs, Kind::Dirty, |entries| {
        look_up(&mut newest, entries, |newest, key, hash, offset| {
            full |= newest.put_hashed(key, hash, offset).is_err();
        });
    })?;
    if full {
        return Err("the packs hold more than 2^40 bytes of keys; use more buckets".into());
    }
    let mut offsets: Vec<i64> = newest.entries().map(|(_, offset)| offset).collect();
    for_each_of(packs, Kind::Clean, |entries| {
        look_up(&mut newest, entries, |newest, key, hash, offset| {
            if newest.get_hashed(key, hash).is_none() {
                offsets.push(offset);
            }
        });
    })?;
    Ok(from_unsorted(offsets.into_iter().filter_map(|offset| u64::try_from(offset).ok()).collect()))
}

/// Calls `found` with each entry and its key's hash. They are looked for in blocks, to fetch from slow memory what one
/// needs while others are dealt with.
fn look_up<'a>(
    map: &mut KeyMap,
    entries: &mut impl Iterator<Item = (&'a [u8], i64)>,
    mut found: impl FnMut(&mut KeyMap, &[u8], u64, i64),
) {
    let mut block = Vec::with_capacity(BLOCK);
    loop {
        block.extend(entries.take(BLOCK).map(|(key, offset)| {
            let hash = map.hash(key);
            map.prefetch_slot(hash);
            (key, hash, offset)
        }));
        if block.is_empty() {
            return;
        }
        block.iter().for_each(|&(_, hash, _)| map.prefetch_entry(hash));
        block.drain(..).for_each(|(key, hash, offset)| found(map, key, hash, offset));
    }
}

/// Hands the entries of each pack of this kind to `found`, which goes over all of them.
fn for_each_of<'a>(packs: &[&'a [u8]], wanted: Kind, mut found: impl FnMut(&mut Unpacked<'a>)) -> Result<(), String> {
    for (number, pack) in packs.iter().enumerate() {
        let (kind, mut entries) = Unpacked::new(pack).map_err(|what| format!("pack {number}: {what}"))?;
        if kind == wanted {
            found(&mut entries);
            entries.finish().map_err(|what| format!("pack {number}: {what}"))?;
        }
    }
    Ok(())
}

/// The entries of a pack. It ends at the first that is none; `finish` tells.
struct Unpacked<'a> {
    rest: &'a [u8],
    left: u64,
    least: i64,
    damaged: bool,
}

impl<'a> Unpacked<'a> {
    fn new(pack: &'a [u8]) -> Result<(Kind, Self), String> {
        let Some((header, rest)) = pack.split_first_chunk::<HEADER>() else {
            return Err(format!("a pack has at least {HEADER} bytes, found {}", pack.len()));
        };
        let field = |at: usize| {
            let mut field = [0; 8];
            field.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(field)
        };
        if header[0] != VERSION {
            return Err(format!("packs of version {VERSION} were expected, found {}", header[0]));
        }
        let kind = match header[1] {
            0 => Kind::Dirty,
            1 => Kind::Clean,
            kind => return Err(format!("kind 0 or 1 was expected, found {kind}")),
        };
        let (left, most) = (field(2), (rest.len() / SMALLEST_ENTRY) as u64);
        if left > most {
            return Err(format!("the pack claims {left} entries, its {} bytes hold at most {most}", pack.len()));
        }
        Ok((kind, Unpacked { rest, left, least: field(10) as i64, damaged: false }))
    }

    fn entry(&mut self) -> Option<(&'a [u8], i64)> {
        let length = usize::try_from(self.leb128()?).ok()?;
        let ahead = self.leb128()?;
        let offset = i64::try_from(i128::from(self.least) + i128::from(ahead)).ok()?;
        let (key, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some((key, offset))
    }

    fn leb128(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            value |= bits << shift;
            if bits << shift >> shift != bits {
                return None;
            }
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn finish(&self) -> Result<(), String> {
        match (self.damaged, self.rest.len()) {
            (true, _) => Err(format!("{} entries before its last one are cut short or impossible", self.left)),
            (_, 0) => Ok(()),
            (_, left) => Err(format!("{left} bytes are left behind its entries")),
        }
    }
}

impl<'a> Iterator for Unpacked<'a> {
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
    use crate::cleaner::key_map::Arena;

    #[test]
    fn the_dirty_part_shadows_the_clean_one() {
        let (mut dirty, mut clean) = (Arena::default(), Arena::default());
        dirty.push(b"a", 100);
        dirty.push(b"b", 101);
        for (key, offset) in [("a", 1), ("c", 2), ("c", 3)] {
            clean.push(key.as_bytes(), offset);
        }
        let mut found = Vec::new();
        let (dirty, clean) = (pack(Kind::Dirty, dirty.entries(), 3), pack(Kind::Clean, clean.entries(), 3));
        for (clean, dirty) in clean.iter().zip(&dirty) {
            found.extend(merge(&[clean, dirty]).unwrap());
        }
        found.sort_unstable();
        assert_eq!(found, [2, 3, 100, 101]);
    }

    #[test]
    fn bytes_that_are_no_pack() {
        let mut arena = Arena::default();
        arena.push(b"key", 7);
        arena.push(b"other", 300);
        let good = pack(Kind::Dirty, arena.entries(), 1).remove(0);
        assert_eq!(merge(&[&good]).unwrap().len(), 2);
        for end in 0..good.len() {
            assert!(merge(&[&good[..end]]).is_err(), "{end}");
        }
        for (at, byte) in [(0, 2), (1, 2), (2, 1), (2, 3), (9, 0x80), (18, 0xff)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert!(merge(&[&bad]).is_err(), "{at} {byte}");
        }
    }
}
