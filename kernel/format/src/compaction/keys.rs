//! Feed the keys of the records in a buffer to a sink.

use roaring::RoaringTreemap;

use super::cursor::{BatchHeader, Cursor, Stop};
use super::key_map::{Full, Guess, KeyMap};
use super::section::{records_section, wrapper_content};
use super::spans::{self, Span};
use super::survivors::from_unsorted;
use crate::codec::{Decompressor, with_decompressor};
use crate::header::{LegacyHeader, Prefix, V2Header};
use crate::legacy;
use crate::order::Order;
use crate::selection::Selection;
use crate::status::{Status, Stopped};

/// Options of `feed`. They mean the same as those of `decode` with these names, and skip the same batches.
pub struct Options<'a> {
    pub base_position: i64,
    pub selection: Selection,
    pub order: Option<Order<'a>>,
    pub check_crcs: bool,
    pub max_batch_bytes: usize,
}

/// Where a call stopped, and how many records it read. Python's MapProgress has the same fields.
pub struct Progress {
    pub stopped: Stopped,
    pub records: u64,
    pub null_keys: u64,
}

/// Collects keys.
pub trait KeySink {
    /// The hash by which the key is looked up.
    fn hash(&self, key: &[u8]) -> u64;
    /// Called some time before a look-up, to prefetch what `expect_next` reads.
    fn expect_soon(&self, _hash: u64) {}
    /// Called shortly before a look-up, to prefetch the entry of the key. Returns its probable index.
    fn expect_next(&self, _hash: u64) -> Guess {
        Guess::default()
    }
    /// Adds the offset of a key.
    fn put(&mut self, key: &[u8], hash: u64, guess: Guess, offset: i64) -> Result<(), Full>;
    /// Called between batches, and after every MOST_COLLECTED keys in a batch, to free memory.
    fn pause(&mut self) {}
}

/// Collects the greatest offset of each key.
impl KeySink for &mut KeyMap {
    #[inline(always)]
    fn hash(&self, key: &[u8]) -> u64 {
        KeyMap::hash(self, key)
    }

    #[inline(always)]
    fn expect_soon(&self, hash: u64) {
        self.prefetch(hash);
    }

    #[inline(always)]
    fn expect_next(&self, hash: u64) -> Guess {
        self.guess(hash)
    }

    #[inline(always)]
    fn put(&mut self, key: &[u8], hash: u64, guess: Guess, offset: i64) -> Result<(), Full> {
        self.put_hashed(key, hash, guess, offset)
    }
}

/// Collects the offsets of records that a map does not shadow: those whose key is not in the map with a greater offset.
pub struct Unshadowed<'a> {
    map: &'a KeyMap,
    survivors: &'a mut RoaringTreemap,
    /// Offsets that were not yet added to the survivors.
    offsets: Vec<u64>,
}

/// So many offsets take a few megabytes.
const OFFSETS_AT_ONCE: usize = 1 << 20;

impl<'a> Unshadowed<'a> {
    /// Adds the offsets to `survivors` from time to time. `finish` adds the last ones.
    pub fn new(map: &'a KeyMap, survivors: &'a mut RoaringTreemap) -> Self {
        Unshadowed { map, survivors, offsets: Vec::new() }
    }

    pub fn finish(self) {
        add(self.survivors, self.offsets);
    }
}

#[cold]
fn add(survivors: &mut RoaringTreemap, offsets: Vec<u64>) {
    *survivors |= from_unsorted(offsets);
}

impl KeySink for &mut Unshadowed<'_> {
    #[inline(always)]
    fn hash(&self, key: &[u8]) -> u64 {
        self.map.hash(key)
    }

    #[inline(always)]
    fn expect_soon(&self, hash: u64) {
        self.map.prefetch(hash);
    }

    #[inline(always)]
    fn expect_next(&self, hash: u64) -> Guess {
        self.map.guess(hash)
    }

    #[inline(always)]
    fn put(&mut self, key: &[u8], hash: u64, guess: Guess, offset: i64) -> Result<(), Full> {
        let is_newest = self.map.get_hashed(key, hash, guess).is_none_or(|greatest| offset >= greatest);
        if let (true, Ok(offset)) = (is_newest, u64::try_from(offset)) {
            self.offsets.push(offset);
        }
        Ok(())
    }

    fn pause(&mut self) {
        if self.offsets.len() >= OFFSETS_AT_ONCE {
            add(self.survivors, std::mem::take(&mut self.offsets));
        }
    }
}

/// Feeds the keys of the records in `buffer` to `sink`, batch by batch. Keys of a damaged batch are not fed.
pub fn feed(buffer: &[u8], options: &Options, sink: impl KeySink) -> Progress {
    with_decompressor(|decompressor| {
        let keys = Keys { sink, collected: Vec::new(), records: 0, null_keys: 0 };
        let mut feeder = Feeder { options, decompressor, keys };
        let mut cursor = Cursor::new(buffer, options.base_position, options.max_batch_bytes, options.order);
        let stopped = loop {
            match feeder.batch(&cursor) {
                Ok((prefix, following)) => {
                    let reached = options.selection.end_offset.map_or(following, |end| following.min(end));
                    let next_offset = cursor.next_offset.map_or(reached, |before| before.max(reached));
                    cursor.advance(&prefix, following, next_offset);
                }
                Err(End::Stop(stop)) => break cursor.stopped(stop),
                Err(End::Full { offset }) => {
                    cursor.next_offset = Some(offset);
                    break cursor.stopped(Stop::Status(Status::Full));
                }
            }
        };
        Progress { stopped, records: feeder.keys.records, null_keys: feeder.keys.null_keys }
    })
}

enum End {
    Stop(Stop),
    /// The sink has no room for the record with this offset.
    Full {
        offset: i64,
    },
}

impl From<Stop> for End {
    fn from(stop: Stop) -> Self {
        End::Stop(stop)
    }
}

/// A key in the bytes of its batch.
struct KeyAt {
    at: u32,
    /// Negative: null.
    bytes: i32,
    offset: i64,
    hash: u64,
    guess: Guess,
}

/// How many keys ahead their entries are prefetched.
const AHEAD: usize = 16;
/// Up to this many keys are collected before they are fed. A batch with more keys is read twice: nothing of a damaged batch
/// must be fed, and a few compressed KB can contain millions of keys.
const MOST_COLLECTED: usize = if cfg!(any(test, fuzzing)) { 4 } else { 1 << 16 };

/// Keys, and the sink they are fed to.
struct Keys<S> {
    sink: S,
    /// The next keys of the current batch.
    collected: Vec<KeyAt>,
    records: u64,
    null_keys: u64,
}

impl<S: KeySink> Keys<S> {
    #[inline(always)]
    fn collect(&mut self, span: &Span, section: &[u8], offset: i64) {
        let hash = span.key(section).map_or(0, |key| self.sink.hash(key));
        self.sink.expect_soon(hash);
        self.collected.push(KeyAt { at: span.key, bytes: span.key_bytes, offset, hash, guess: Guess::default() });
    }

    #[inline(always)]
    fn put_collected(&mut self, section: &[u8]) -> Result<(), End> {
        for first in self.collected.iter_mut().take(AHEAD) {
            first.guess = self.sink.expect_next(first.hash);
        }
        for index in 0..self.collected.len() {
            if let Some(ahead) = self.collected.get_mut(index + AHEAD) {
                ahead.guess = self.sink.expect_next(ahead.hash);
            }
            let KeyAt { at, bytes, offset, hash, guess } = self.collected[index];
            let key = usize::try_from(bytes).ok().map(|bytes| &section[at as usize..at as usize + bytes]);
            self.put(key, hash, guess, offset)?;
        }
        self.collected.clear();
        self.sink.pause();
        Ok(())
    }

    /// Feeds the keys of a checked batch with more than MOST_COLLECTED keys.
    #[cold]
    fn put_many(&mut self, header: &V2Header, section: &[u8], selection: &Selection) -> Result<(), End> {
        let mut put = Ok(());
        self.collected.clear();
        let _ = spans::for_each(header, section, |span| {
            let offset = span.offset(header);
            if put.is_ok() && selection.contains(offset) {
                self.collect(&span, section, offset);
                if self.collected.len() == MOST_COLLECTED {
                    put = self.put_collected(section);
                }
            }
        });
        put?;
        self.put_collected(section)
    }

    fn put_one(&mut self, key: Option<&[u8]>, offset: i64) -> Result<(), End> {
        let hash = key.map_or(0, |key| self.sink.hash(key));
        self.put(key, hash, Guess::default(), offset)
    }

    #[inline(always)]
    fn put(&mut self, key: Option<&[u8]>, hash: u64, guess: Guess, offset: i64) -> Result<(), End> {
        match key {
            None => self.null_keys += 1,
            Some(key) => self.sink.put(key, hash, guess, offset).map_err(|Full| End::Full { offset })?,
        }
        self.records += 1;
        Ok(())
    }
}

struct Feeder<'a, S> {
    options: &'a Options<'a>,
    decompressor: &'a mut Decompressor,
    keys: Keys<S>,
}

impl<S: KeySink> Feeder<'_, S> {
    /// Feeds the keys of the current batch. Returns its prefix and the offset after it.
    fn batch(&mut self, cursor: &Cursor) -> Result<(Prefix, i64), End> {
        let (prefix, header) = cursor.header()?;
        let following = match &header {
            BatchHeader::V2(header) => self.v2_batch(header, &prefix, cursor)?,
            BatchHeader::Legacy(header) => self.legacy_batch(header, &prefix, cursor)?,
        };
        Ok((prefix, following))
    }

    fn v2_batch(&mut self, header: &V2Header, prefix: &Prefix, cursor: &Cursor) -> Result<i64, End> {
        let options = self.options;
        let following = header.last_offset().wrapping_add(1);
        if options.selection.skips_v2(header) {
            return Ok(following);
        }
        let without_keys = header.record_count == 0 || header.control() || options.selection.aborted.covers(header);
        if without_keys && !options.check_crcs {
            return Ok(following);
        }
        let batch = cursor.batch(prefix)?;
        let fault = |fault| Stop::fault(fault, prefix);
        if options.check_crcs {
            header.check_crc(batch).map_err(fault)?;
        }
        if without_keys {
            return Ok(following);
        }
        let section = records_section(header, batch, self.decompressor, options.max_batch_bytes).map_err(fault)?;
        let (keys, mut count) = (&mut self.keys, 0);
        keys.collected.clear();
        spans::for_each(header, section, |span| {
            let offset = span.offset(header);
            if options.selection.contains(offset) {
                count += 1;
                if count <= MOST_COLLECTED {
                    keys.collect(&span, section, offset);
                }
            }
        })
        .map_err(fault)?;
        if count <= MOST_COLLECTED {
            keys.put_collected(section)?;
        } else {
            keys.put_many(header, section, &options.selection)?;
        }
        Ok(following)
    }

    fn legacy_batch(&mut self, header: &LegacyHeader, prefix: &Prefix, cursor: &Cursor) -> Result<i64, End> {
        let options = self.options;
        if options.selection.skips_legacy(header) {
            return Ok(header.offset.wrapping_add(1));
        }
        let message = cursor.batch(prefix)?;
        let fault = |fault| Stop::fault(fault, prefix);
        if !header.is_wrapper() {
            if options.check_crcs {
                header.check_crc(message).map_err(fault)?;
            }
            let (key, _) = legacy::key_and_value(header, message).map_err(fault)?;
            if options.selection.contains(header.offset) {
                self.keys.put_one(key, header.offset)?;
                self.keys.sink.pause();
            }
            return Ok(header.offset.wrapping_add(1));
        }
        let content = wrapper_content(header, message, self.decompressor, options.max_batch_bytes).map_err(fault)?;
        let records = legacy::wrapped_records(header, content, options.check_crcs).map_err(fault)?;
        cursor.check_wrapped(records.offsets.first, records.offsets.last).map_err(fault)?;
        let last_offset = if header.lacks_offset() { records.offsets.last } else { header.offset };
        let mut selected = records.iter().filter(|(record, _)| options.selection.contains(record.offset));
        selected.try_for_each(|(record, _)| self.keys.put_one(record.key, record.offset))?;
        self.keys.sink.pause();
        Ok(last_offset.wrapping_add(1))
    }
}
