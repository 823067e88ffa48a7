//! Collect keys and offsets in packs, one pack for each bucket of keys.

use std::sync::Mutex;

use super::key_map::{Full, Guess};
use super::keys::KeySink;
use super::newest::Newest;
use super::packs::{Kind, Pack};
use super::short_keys::hash;
use crate::memory::prefetch;

pub const MOST_BUCKETS: usize = 1 << 16;

/// Each pack reserves its share of the memory at once, up to this much: unused capacity takes no memory, and the pack need
/// not be moved when it grows.
const MOST_RESERVED: usize = 1 << 20;
/// Size of a cache line.
const LINE: usize = 64;

pub struct KeyBuckets {
    kind: Kind,
    packs: Vec<Pack>,
    size_bytes: usize,
    max_bytes: usize,
    /// The largest size before a `take`.
    most_bytes: usize,
}

/// Memory of previous packs for the next ones in this process: to fault in a new page costs more than to fill it.
static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
/// The default size of all packs (log.cleaner.dedupe.buffer.size). Memory of larger ones is freed.
const MOST_SPARE: usize = 128 << 20;

impl Drop for KeyBuckets {
    fn drop(&mut self) {
        if let Ok(mut spare) = SPARE.try_lock()
            && self.most_bytes.max(self.size_bytes) <= MOST_SPARE
        {
            *spare = self.packs.drain(..).map(Pack::into_memory).collect();
        }
    }
}

impl KeyBuckets {
    /// Creates `count` buckets, 1 to MOST_BUCKETS.
    pub fn new(kind: Kind, count: usize, max_bytes: usize) -> Self {
        let each = (max_bytes / count).min(MOST_RESERVED);
        let mut spare = SPARE.try_lock().map(|mut spare| std::mem::take(&mut *spare)).unwrap_or_default();
        let memory = std::iter::from_fn(|| spare.pop().filter(|memory| memory.capacity() >= each));
        let memory = memory.chain(std::iter::repeat_with(|| Vec::with_capacity(each)));
        let packs = memory.take(count).map(Pack::within).collect();
        KeyBuckets { kind, packs, size_bytes: 0, max_bytes, most_bytes: 0 }
    }

    pub fn len(&self) -> usize {
        self.packs.iter().map(Pack::count).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.size_bytes == 0
    }

    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Takes the bytes of all packs in order. Those of a bucket without keys are empty.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        self.most_bytes = self.most_bytes.max(self.size_bytes);
        self.combine();
        self.size_bytes = 0;
        let kind = self.kind;
        self.packs.iter_mut().map(|pack| pack.take(kind)).collect()
    }

    /// Reuses the memory of packs that were taken and are no longer needed.
    pub fn reuse(&mut self, taken: Vec<Vec<u8>>) {
        self.packs.iter_mut().zip(taken).for_each(|(pack, memory)| pack.reuse(memory));
    }

    /// Removes all but the greatest offset of each key, if that halves the entries. Returns whether it did. Only the
    /// fullest bucket is tried first: as keys are in buckets by their hash, the others lose about as much.
    #[cold]
    fn combine(&mut self) -> bool {
        if self.kind == Kind::Clean || self.is_empty() {
            return false;
        }
        let Some(fullest) = self.packs.iter_mut().rev().max_by_key(|pack| pack.size_bytes()) else { return false };
        let (before, newest) = (fullest.count(), &mut Newest::default());
        combine(fullest, newest);
        let halved = fullest.count() <= before / 2;
        if halved {
            self.packs.iter_mut().for_each(|pack| combine(pack, newest));
        }
        self.size_bytes = self.packs.iter().map(Pack::size_bytes).sum();
        halved
    }

    #[inline(always)]
    fn put(&mut self, key: &[u8], bucket: usize, offset: i64) -> Result<(), Full> {
        let pack = &mut self.packs[bucket];
        let grown = self.size_bytes + pack.grows_by(key, offset);
        if grown > self.max_bytes {
            return Err(Full);
        }
        pack.push(key, offset);
        self.size_bytes = grown;
        Ok(())
    }
}

/// Removes all but the greatest offset of each key. The keys stay in the order in which they were first seen.
fn combine(pack: &mut Pack, newest: &mut Newest) {
    newest.clear();
    if newest.put(&mut pack.entries()).is_ok() {
        pack.replace(newest.entries());
    }
}

impl KeySink for &mut KeyBuckets {
    /// The index of the bucket.
    #[inline(always)]
    fn hash(&self, key: &[u8]) -> u64 {
        bucket_of(key, self.packs.len()) as u64
    }

    #[inline(always)]
    fn expect_soon(&self, bucket: u64) {
        prefetch(self.packs.as_ptr().wrapping_add(bucket as usize).cast());
    }

    #[inline(always)]
    fn expect_next(&self, bucket: u64) -> Guess {
        // The line where the entry begins, and the next one, in which it may end.
        let end = self.packs[bucket as usize].end();
        prefetch(end);
        prefetch(end.wrapping_add(LINE));
        Guess::default()
    }

    #[inline(always)]
    fn put(&mut self, key: &[u8], bucket: u64, _guess: Guess, offset: i64) -> Result<(), Full> {
        let bucket = bucket as usize;
        match KeyBuckets::put(self, key, bucket, offset) {
            Err(Full) if self.combine() => KeyBuckets::put(self, key, bucket, offset),
            done => done,
        }
    }
}

#[inline(always)]
fn bucket_of(key: &[u8], count: usize) -> usize {
    ((u128::from(hash(key, 0)) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::super::packs::Merger;
    use super::*;

    fn put(buckets: &mut KeyBuckets, key: &str, offset: i64) -> Result<(), Full> {
        let bucket = bucket_of(key.as_bytes(), buckets.packs.len());
        KeySink::put(&mut &mut *buckets, key.as_bytes(), bucket as u64, Guess::default(), offset)
    }

    #[test]
    fn the_dirty_part_shadows_the_clean_one() {
        let mut dirty = KeyBuckets::new(Kind::Dirty, 3, usize::MAX);
        let mut clean = KeyBuckets::new(Kind::Clean, 3, usize::MAX);
        for (key, offset) in [("a", 100), ("b", 101)] {
            put(&mut dirty, key, offset).unwrap();
        }
        for (key, offset) in [("a", 1), ("c", 2), ("c", 3)] {
            put(&mut clean, key, offset).unwrap();
        }
        let mut merger = Merger::default();
        for (clean, dirty) in clean.take().iter().zip(&dirty.take()) {
            merger.add(&[clean, dirty]).unwrap();
        }
        assert!(merger.survivors().iter().eq([2, 3, 100, 101]));
    }

    #[test]
    fn keys_that_come_again_make_room() {
        let mut buckets = KeyBuckets::new(Kind::Dirty, 4, 1000);
        for offset in 0..10_000 {
            put(&mut buckets, &format!("key-{}", offset % 10), offset).unwrap();
            assert!(buckets.size_bytes() <= 1000);
        }
        let mut merger = Merger::default();
        buckets.take().iter().for_each(|pack| merger.add(&[pack]).unwrap());
        assert!(merger.survivors().iter().eq(9990..10_000));
        for offset in 0..1000 {
            if put(&mut buckets, &format!("other-{offset}"), offset).is_err() {
                return;
            }
        }
        panic!("keys that do not come again found room");
    }
}
