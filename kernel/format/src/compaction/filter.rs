//! Drop a batch, keep its header alone, copy it, or write it again with the records that survive.

use std::cell::RefCell;

use super::cursor::{Cursor, Stop};
use super::options::{Options, Stats, Verdict};
use super::rules::{Dropped, Rules};
use super::section::{records_section, wrapper_content};
use super::spans;
use super::write::{self, Kept, RecordWriter, V2Batch};
use crate::codec::{Compressor, Decompressor};
use crate::damage::Fault;
use crate::header::{LegacyHeader, Prefix, V2Header};
use crate::legacy;
use crate::record::Record;

thread_local! {
    static COMPRESSOR: RefCell<Compressor> = RefCell::default();
}

/// Up to this many kept records are kept in memory until it is clear how their batch is written. The records of a larger
/// batch are read a second time then: a few compressed KB can contain millions of records.
const MOST_REMEMBERED: usize = if cfg!(any(test, fuzzing)) { 4 } else { 1 << 16 };

/// Filters one batch after the other.
pub struct Filter<'a> {
    options: &'a Options<'a>,
    decompressor: &'a mut Decompressor,
    out: &'a mut Vec<u8>,
    rules: Rules<'a>,
    stats: Stats,
    /// The first MOST_REMEMBERED kept records of the current batch, and memory for all of them before compression.
    kept: Vec<Kept>,
    plain: Vec<u8>,
}

/// Counts of the records in a batch.
#[derive(Default)]
struct Counts {
    read: u64,
    kept: u64,
    kept_tombstones: u64,
    dropped_tombstones: u64,
    /// Whether any record is dropped or changed.
    changed: bool,
}

impl Counts {
    #[inline(always)]
    fn dropped(&mut self, why: Dropped) {
        self.read += 1;
        self.changed = true;
        self.dropped_tombstones += u64::from(matches!(why, Dropped::Tombstone));
    }

    #[inline(always)]
    fn kept(&mut self, is_tombstone: bool, changed: bool) {
        self.read += 1;
        self.kept += 1;
        self.kept_tombstones += u64::from(is_tombstone);
        self.changed |= changed;
    }
}

impl<'a> Filter<'a> {
    pub fn new(options: &'a Options<'a>, decompressor: &'a mut Decompressor, out: &'a mut Vec<u8>) -> Self {
        COMPRESSOR.with_borrow_mut(|compressor| compressor.begin(None));
        Filter {
            options,
            decompressor,
            out,
            rules: Rules::new(options),
            stats: Stats::default(),
            kept: Vec::new(),
            plain: Vec::new(),
        }
    }

    pub fn output_bytes(&self) -> usize {
        self.out.len()
    }

    pub fn finish(self) -> Stats {
        self.stats
    }

    /// Filters a batch and returns the offset after it.
    pub fn v2_batch(
        &mut self,
        header: &V2Header,
        prefix: &Prefix,
        verdict: Verdict,
        cursor: &Cursor,
    ) -> Result<i64, Stop> {
        let next_offset = header.last_offset().wrapping_add(1);
        let may_keep = self.may_keep(header, verdict);
        if !may_keep && !verdict.retain_empty() {
            self.count_dropped(prefix, header.record_count);
            return Ok(next_offset);
        }
        let batch = cursor.batch(prefix)?;
        if self.options.check_crcs {
            header.check_crc(batch).map_err(|fault| Stop::fault(fault, prefix))?;
        }
        if !may_keep {
            self.count_dropped(prefix, header.record_count);
            self.empty(header, prefix)?;
            return Ok(next_offset);
        }
        self.v2_records(header, prefix, verdict, batch)?;
        Ok(next_offset)
    }

    /// Whether a record may be kept, by the header alone.
    fn may_keep(&mut self, header: &V2Header, verdict: Verdict) -> bool {
        if verdict.discard() || header.record_count == 0 {
            return false;
        }
        // A negative delta is damage, which must be reported.
        header.control()
            || header.last_offset_delta < 0
            || self.rules.may_survive(header.base_offset, header.last_offset())
    }

    fn v2_records(&mut self, header: &V2Header, prefix: &Prefix, verdict: Verdict, batch: &[u8]) -> Result<(), Stop> {
        let options = self.options;
        let fault = |fault| Stop::fault(fault, prefix);
        let section = records_section(header, batch, self.decompressor, options.max_batch_bytes).map_err(fault)?;
        let batch_rules = self.rules.v2_batch(header);
        let rules = &mut self.rules;
        let mut counts = Counts::default();
        let mut max_timestamp = i64::MIN;
        self.kept.clear();
        spans::for_each(header, section, |span| match rules.v2_record(&batch_rules, span) {
            Err(why) => counts.dropped(why),
            Ok(kept) => {
                counts.kept(span.value_bytes < 0 || kept.nulled, kept.nulled);
                max_timestamp = max_timestamp.max(kept.timestamp);
                if self.kept.len() < MOST_REMEMBERED {
                    self.kept.push(kept);
                }
            }
        })
        .map_err(fault)?;
        let Some(&Kept { timestamp: first_timestamp, .. }) = self.kept.first() else {
            self.count(prefix, &counts);
            return if verdict.retain_empty() { self.empty(header, prefix) } else { Ok(()) };
        };
        let wants_horizon = (counts.kept_tombstones > 0 || verdict.set_horizon()) && !header.has_delete_horizon();
        let new_horizon = options.delete_horizon_ms.filter(|_| wants_horizon);
        let before = self.out.len();
        if !counts.changed && new_horizon.is_none() {
            self.out.extend_from_slice(batch);
            self.stats.batches_copied += 1;
        } else {
            let old_horizon = header.has_delete_horizon().then_some(header.base_timestamp).filter(|&at| at >= 0);
            let delete_horizon_ms = new_horizon.or(old_horizon);
            let record_count = counts.kept;
            let batch = V2Batch { header, section, record_count, delete_horizon_ms, first_timestamp, max_timestamp };
            let put_all = |records: &mut RecordWriter| {
                if record_count <= MOST_REMEMBERED as u64 {
                    self.kept.iter().for_each(|kept| records.put(kept));
                    return Ok(());
                }
                let rules = &mut self.rules;
                spans::for_each(header, section, |span| {
                    if let Ok(kept) = rules.v2_record(&batch_rules, span) {
                        records.put(&kept);
                    }
                })
            };
            let (plain, out) = (&mut self.plain, &mut *self.out);
            let written = COMPRESSOR.with_borrow_mut(|compressor| batch.write(put_all, compressor, plain, out));
            self.written(written, before, prefix)?;
            self.stats.horizons_set += u64::from(new_horizon.is_some());
        }
        self.stats.bytes_kept += (self.out.len() - before) as u64;
        self.count(prefix, &counts);
        Ok(())
    }

    /// Filters a message or a wrapper and returns the offset after it.
    pub fn legacy_batch(
        &mut self,
        header: &LegacyHeader,
        prefix: &Prefix,
        verdict: Verdict,
        cursor: &Cursor,
    ) -> Result<i64, Stop> {
        let is_wrapper = header.is_wrapper();
        let may_keep = self.rules.may_survive(header.offset, header.offset);
        if verdict.discard() || !(may_keep || is_wrapper) {
            self.count_dropped(prefix, i32::from(!is_wrapper));
            return Ok(header.offset.wrapping_add(1));
        }
        let message = cursor.batch(prefix)?;
        if is_wrapper { self.wrapper(header, prefix, message) } else { self.message(header, prefix, message) }
    }

    fn message(&mut self, header: &LegacyHeader, prefix: &Prefix, message: &[u8]) -> Result<i64, Stop> {
        let fault = |fault| Stop::fault(fault, prefix);
        if self.options.check_crcs {
            header.check_crc(message).map_err(fault)?;
        }
        let (key, value) = legacy::key_and_value(header, message).map_err(fault)?;
        let record = Record { key, value, offset: header.offset, timestamp_ms: header.timestamp, sequence: -1 };
        let mut counts = Counts::default();
        let before = self.out.len();
        match self.rules.legacy_record(record) {
            Err(why) => counts.dropped(why),
            Ok((kept, nulled)) => {
                counts.kept(kept.value.is_none(), nulled);
                if nulled {
                    let written = crate::write::message(header.magic, header.attributes, &kept, self.out);
                    self.written(written, before, prefix)?;
                } else {
                    self.out.extend_from_slice(message);
                    self.stats.batches_copied += 1;
                }
            }
        }
        self.stats.bytes_kept += (self.out.len() - before) as u64;
        self.count(prefix, &counts);
        Ok(header.offset.wrapping_add(1))
    }

    fn wrapper(&mut self, header: &LegacyHeader, prefix: &Prefix, message: &[u8]) -> Result<i64, Stop> {
        let options = self.options;
        let fault = |fault| Stop::fault(fault, prefix);
        let content = wrapper_content(header, message, self.decompressor, options.max_batch_bytes).map_err(fault)?;
        let records = legacy::wrapped_records(header, content, options.check_crcs).map_err(fault)?;
        let offsets = records.offsets;
        let mut counts = Counts::default();
        for (record, magic) in records.iter() {
            match self.rules.legacy_record(record) {
                Err(why) => counts.dropped(why),
                // KAFKA-4298: messages get the magic of their wrapper.
                Ok((kept, nulled)) => counts.kept(kept.value.is_none(), nulled || magic != header.magic),
            }
        }
        let before = self.out.len();
        if counts.kept > 0 && !counts.changed {
            self.out.extend_from_slice(message);
            self.stats.batches_copied += 1;
        } else if counts.kept > 0 {
            let (rules, plain, out) = (&mut self.rules, &mut self.plain, &mut *self.out);
            let kept = records.iter().filter_map(|(record, _)| rules.legacy_record(record).ok());
            let kept = kept.map(|(record, _)| record);
            let written = COMPRESSOR.with_borrow_mut(|compressor| write::wrapper(header, kept, compressor, plain, out));
            self.written(written, before, prefix)?;
        }
        self.stats.bytes_kept += (self.out.len() - before) as u64;
        self.count(prefix, &counts);
        let last = if header.lacks_offset() { offsets.last } else { header.offset };
        Ok(last.wrapping_add(1))
    }

    fn empty(&mut self, header: &V2Header, prefix: &Prefix) -> Result<(), Stop> {
        let before = self.out.len();
        let written = write::empty_batch(header, self.out);
        self.written(written, before, prefix)?;
        self.stats.batches_emptied += 1;
        self.stats.bytes_kept += (self.out.len() - before) as u64;
        Ok(())
    }

    /// Removes what was written from `before` on if writing failed.
    fn written(&mut self, written: Result<(), Fault>, before: usize, prefix: &Prefix) -> Result<(), Stop> {
        written.map_err(|fault| {
            self.out.truncate(before);
            Stop::fault(fault, prefix)
        })
    }

    fn count_dropped(&mut self, prefix: &Prefix, records: i32) {
        self.stats.batches_read += 1;
        self.stats.bytes_read += prefix.total as u64;
        self.stats.records_read += u64::try_from(records).unwrap_or(0);
    }

    fn count(&mut self, prefix: &Prefix, counts: &Counts) {
        self.stats.batches_read += 1;
        self.stats.bytes_read += prefix.total as u64;
        self.stats.batches_kept += u64::from(counts.kept > 0);
        self.stats.records_read += counts.read;
        self.stats.records_kept += counts.kept;
        self.stats.tombstones_kept += counts.kept_tombstones;
        self.stats.tombstones_dropped += counts.dropped_tombstones;
    }
}
