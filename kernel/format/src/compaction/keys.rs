//! The keys of a buffer's records, fed to what collects them.

use roaring::RoaringTreemap;

use super::cursor::{Cursor, Header, Stop};
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

/// What a call is asked for: as `decode`'s options of these names, and batches are passed over as there.
pub struct Options<'a> {
    pub base_position: i64,
    pub selection: Selection,
    pub order: Option<Order<'a>>,
    pub check_crcs: bool,
    pub max_batch_bytes: usize,
}

/// Where a call stopped, and what it went over. Python's MapProgress has the same fields.
pub struct Progress {
    pub stopped: Stopped,
    pub records: u64,
    pub null_keys: u64,
}

/// What keys are fed to.
pub trait Sink {
    /// A number that says where the key will be looked for.
    fn hash(&self, key: &[u8]) -> u64;
    /// The key will soon be looked for: what tells its place may be fetched.
    fn expect_soon(&self, _hash: u64) {}
    /// The key is one of the next: where it seems to be, which may be fetched.
    fn expect_next(&self, _hash: u64) -> Guess {
        Guess::default()
    }
    /// Nothing is taken once it is full.
    fn put(&mut self, key: &[u8], hash: u64, guess: Guess, offset: i64) -> Result<(), Full>;
    /// Called between batches, and within one after so many keys that it may be time to make room.
    fn pause(&mut self) {}
}

/// The greatest offset of each key.
impl Sink for &mut KeyMap {
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

/// The offsets of records that a map does not shadow: their key is not in it, or with no greater offset.
pub struct Unshadowed<'a> {
    map: &'a KeyMap,
    survivors: &'a mut RoaringTreemap,
    /// Those that are not yet among the survivors.
    offsets: Vec<u64>,
}

/// As many as take a few megabytes.
const OFFSETS_AT_ONCE: usize = 1 << 20;

impl<'a> Unshadowed<'a> {
    /// Adds the offsets to `survivors` now and then, and the last ones with `finish`.
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

impl Sink for &mut Unshadowed<'_> {
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

/// Feeds the keys of the records in `buffer` to `sink`, batch by batch: of a damaged one none.
pub fn feed(buffer: &[u8], options: &Options, sink: impl Sink) -> Progress {
    with_decompressor(|decompressor| {
        let keys = Keys { sink, collected: Vec::new(), records: 0, null_keys: 0 };
        let mut feeder = Feeder { options, decompressor, keys };
        let mut cursor = Cursor::new(buffer, options.base_position, options.max_batch_bytes, options.order);
        let stopped = loop {
            match feeder.batch(&cursor) {
                Ok((prefix, behind)) => {
                    let wanted = options.selection.end_offset.map_or(behind, |end| behind.min(end));
                    let next_offset = cursor.next_offset.map_or(wanted, |before| before.max(wanted));
                    cursor.advance(&prefix, behind, next_offset);
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
    /// The record of this offset has no room.
    Full {
        offset: i64,
    },
}

impl From<Stop> for End {
    fn from(stop: Stop) -> Self {
        End::Stop(stop)
    }
}

/// A key within the bytes of its batch.
struct KeyAt {
    at: u32,
    /// Negative: null.
    bytes: i32,
    offset: i64,
    hash: u64,
    guess: Guess,
}

/// How many keys ahead their entries are fetched.
const AHEAD: usize = 16;
/// So many keys are collected before they are put. A batch with more is read twice, since nothing of a damaged batch is
/// put, and a few KB can hold millions of keys.
const MOST_COLLECTED: usize = if cfg!(any(test, fuzzing)) { 4 } else { 1 << 16 };

/// The keys on their way to the sink.
struct Keys<S> {
    sink: S,
    /// Those of the batch at hand, or the next ones of them.
    collected: Vec<KeyAt>,
    records: u64,
    null_keys: u64,
}

impl<S: Sink> Keys<S> {
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

    /// Puts the keys of a batch that was found to be right, of which there are many.
    #[cold]
    fn put_many(&mut self, header: &V2Header, section: &[u8], selection: &Selection) -> Result<(), End> {
        let mut put = Ok(());
        self.collected.clear();
        let _ = spans::for_each(header, section, |span| {
            let offset = span.offset(header);
            if put.is_ok() && selection.has(offset) {
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

impl<S: Sink> Feeder<'_, S> {
    /// The batch at hand and the offset behind it.
    fn batch(&mut self, cursor: &Cursor) -> Result<(Prefix, i64), End> {
        let (prefix, header) = cursor.header()?;
        let behind = match &header {
            Header::V2(header) => self.v2_batch(header, &prefix, cursor)?,
            Header::Legacy(header) => self.legacy_batch(header, &prefix, cursor)?,
        };
        Ok((prefix, behind))
    }

    fn v2_batch(&mut self, header: &V2Header, prefix: &Prefix, cursor: &Cursor) -> Result<i64, End> {
        let options = self.options;
        let behind = header.last_offset().wrapping_add(1);
        if options.selection.passes_v2(header) {
            return Ok(behind);
        }
        let without_keys = header.record_count == 0 || header.control();
        if without_keys && !options.check_crcs {
            return Ok(behind);
        }
        let batch = cursor.batch(prefix)?;
        let fault = |fault| Stop::fault(fault, prefix);
        if options.check_crcs {
            header.check_crc(batch).map_err(fault)?;
        }
        if without_keys {
            return Ok(behind);
        }
        let section = records_section(header, batch, self.decompressor, options.max_batch_bytes).map_err(fault)?;
        let (keys, mut count) = (&mut self.keys, 0);
        keys.collected.clear();
        spans::for_each(header, section, |span| {
            let offset = span.offset(header);
            if options.selection.has(offset) {
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
        Ok(behind)
    }

    fn legacy_batch(&mut self, header: &LegacyHeader, prefix: &Prefix, cursor: &Cursor) -> Result<i64, End> {
        let options = self.options;
        if options.selection.passes_legacy(header) {
            return Ok(header.offset.wrapping_add(1));
        }
        let message = cursor.batch(prefix)?;
        let fault = |fault| Stop::fault(fault, prefix);
        if !header.is_wrapper() {
            if options.check_crcs {
                header.check_crc(message).map_err(fault)?;
            }
            let (key, _) = legacy::key_and_value(header, message).map_err(fault)?;
            if options.selection.has(header.offset) {
                self.keys.put_one(key, header.offset)?;
                self.keys.sink.pause();
            }
            return Ok(header.offset.wrapping_add(1));
        }
        let content = wrapper_content(header, message, self.decompressor, options.max_batch_bytes).map_err(fault)?;
        let records = legacy::wrapped_records(header, content, options.check_crcs).map_err(fault)?;
        cursor.check_wrapped(records.offsets.first, records.offsets.last).map_err(fault)?;
        let last_offset = if header.lacks_offset() { records.offsets.last } else { header.offset };
        let mut wanted = records.iter().filter(|(record, _)| options.selection.has(record.offset));
        wanted.try_for_each(|(record, _)| self.keys.put_one(record.key, record.offset))?;
        self.keys.sink.pause();
        Ok(last_offset.wrapping_add(1))
    }
}
