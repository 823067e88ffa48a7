//! What becomes of one batch: dropped, its header alone, copied, or written anew.

use std::cell::RefCell;

use super::cursor::{Cursor, Stop};
use super::keys::{records_section, wrapper_content};
use super::options::{Options, Stats, Verdict};
use super::spans;
use super::survivors::Window;
use super::write::{self, Kept, V2Batch};
use crate::codec::{Compressor, Decompressor};
use crate::columns::Record;
use crate::header::{LegacyHeader, Prefix, V2Header};
use crate::legacy;

thread_local! {
    static COMPRESSOR: RefCell<Compressor> = RefCell::default();
}

/// Filters batch after batch.
pub struct Filter<'a> {
    options: &'a Options<'a>,
    decompressor: &'a mut Decompressor,
    out: &'a mut Vec<u8>,
    survivors: Window<'a>,
    nulled: Option<Window<'a>>,
    stats: Stats,
    /// The records of the batch at hand that are kept, and memory for them before they are compressed.
    kept: Vec<Kept>,
    plain: Vec<u8>,
}

/// What was found in the batch at hand.
#[derive(Default)]
struct Found {
    read: u64,
    kept: u64,
    kept_tombstones: u64,
    dropped_tombstones: u64,
    /// Not all records were kept just as they are.
    changed: bool,
}

impl<'a> Filter<'a> {
    pub fn new(options: &'a Options<'a>, decompressor: &'a mut Decompressor, out: &'a mut Vec<u8>) -> Self {
        COMPRESSOR.with_borrow_mut(|compressor| compressor.begin(None));
        Filter {
            options,
            decompressor,
            out,
            survivors: Window::new(options.survivors),
            nulled: options.nulled.map(Window::new),
            stats: Stats::default(),
            kept: Vec::new(),
            plain: Vec::new(),
        }
    }

    pub fn output_bytes(&self) -> usize {
        self.out.len()
    }

    pub fn finish(self) -> Stats {
        self.decompressor.trim();
        self.stats
    }

    /// The offset behind the batch.
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
            self.empty(header);
            return Ok(next_offset);
        }
        self.v2_records(header, prefix, verdict, batch)?;
        Ok(next_offset)
    }

    /// Whether the header leaves it open that a record is kept.
    fn may_keep(&mut self, header: &V2Header, verdict: Verdict) -> bool {
        if verdict.discard() || header.record_count == 0 {
            return false;
        }
        // A negative delta is a lie that must be found out.
        header.control()
            || header.last_offset_delta < 0
            || header.last_offset() >= self.options.survivors_end
            || self.survivors.has_any(header.base_offset, header.last_offset())
    }

    fn v2_records(&mut self, header: &V2Header, prefix: &Prefix, verdict: Verdict, batch: &[u8]) -> Result<(), Stop> {
        let options = self.options;
        let fault = |fault| Stop::fault(fault, prefix);
        let section = records_section(header, batch, self.decompressor, options.max_batch_bytes).map_err(fault)?;
        let tombstones_needed = !header.has_delete_horizon() || options.now_ms < header.base_timestamp;
        let log_append_time = header.log_append_time().then_some(header.max_timestamp);
        let mut found = Found::default();
        let mut max_timestamp = i64::MIN;
        self.kept.clear();
        spans::for_each(header, section, |span| {
            let offset = header.base_offset.wrapping_add(i64::from(span.offset_delta));
            found.read += 1;
            let is_null = span.value_bytes < 0;
            if !header.control() && offset < options.survivors_end {
                if !self.survivors.contains(offset) {
                    return;
                }
                if is_null && !tombstones_needed {
                    found.dropped_tombstones += 1;
                    return;
                }
            }
            let mut nulled = self.nulled.as_mut().is_some_and(|nulled| nulled.contains(offset));
            nulled &= !is_null || span.has_headers;
            found.changed |= nulled;
            found.kept_tombstones += u64::from(is_null || nulled);
            let timestamp = log_append_time.unwrap_or(header.base_timestamp.wrapping_add(span.timestamp_delta));
            max_timestamp = max_timestamp.max(timestamp);
            self.kept.push(Kept { span, timestamp, nulled });
        })
        .map_err(fault)?;
        found.kept = self.kept.len() as u64;
        found.changed |= found.kept < found.read;
        self.stats.batches_read += 1;
        self.stats.bytes_read += prefix.total as u64;
        if self.kept.is_empty() {
            self.count(&found);
            if verdict.retain_empty() {
                self.empty(header);
            }
            return Ok(());
        }
        let wants_horizon = (found.kept_tombstones > 0 || verdict.set_horizon()) && !header.has_delete_horizon();
        let new_horizon = options.delete_horizon_ms.filter(|_| wants_horizon);
        let before = self.out.len();
        if !found.changed && new_horizon.is_none() {
            self.out.extend_from_slice(batch);
            self.stats.batches_copied += 1;
        } else {
            let old_horizon = header.has_delete_horizon().then_some(header.base_timestamp).filter(|&at| at >= 0);
            let batch = V2Batch {
                header,
                section,
                kept: &self.kept,
                delete_horizon_ms: new_horizon.or(old_horizon),
                max_timestamp,
            };
            COMPRESSOR.with_borrow_mut(|compressor| batch.write(compressor, &mut self.plain, self.out));
            self.stats.horizons_set += u64::from(new_horizon.is_some());
        }
        self.stats.bytes_kept += (self.out.len() - before) as u64;
        self.count(&found);
        Ok(())
    }

    /// The offset behind the message or the wrapper.
    pub fn legacy_batch(
        &mut self,
        header: &LegacyHeader,
        prefix: &Prefix,
        verdict: Verdict,
        cursor: &Cursor,
    ) -> Result<i64, Stop> {
        let is_wrapper = header.is_wrapper();
        let may_keep = header.offset >= self.options.survivors_end || self.survivors.contains(header.offset);
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
        let mut found = Found::default();
        let before = self.out.len();
        if let Some(kept) = self.legacy_record(record, &mut found) {
            if found.changed {
                crate::write::message(header.magic, header.attributes, &kept, self.out);
            } else {
                self.out.extend_from_slice(message);
                self.stats.batches_copied += 1;
            }
        }
        self.count_legacy(prefix, &found, before);
        Ok(header.offset.wrapping_add(1))
    }

    fn wrapper(&mut self, header: &LegacyHeader, prefix: &Prefix, message: &[u8]) -> Result<i64, Stop> {
        let options = self.options;
        let fault = |fault| Stop::fault(fault, prefix);
        // Out of self, so that what is in it can be looked at while records are kept.
        let mut decompressor = std::mem::take(self.decompressor);
        let result = wrapper_content(header, message, &mut decompressor, options.max_batch_bytes)
            .and_then(|content| {
                let records = legacy::wrapped_records(header, content, options.check_crcs)?;
                Ok(self.wrapped(header, prefix, message, &records, legacy::wrapped_magics(content)))
            })
            .map_err(fault);
        *self.decompressor = decompressor;
        result
    }

    fn wrapped(
        &mut self,
        header: &LegacyHeader,
        prefix: &Prefix,
        message: &[u8],
        records: &[Record],
        magics: impl Iterator<Item = i8>,
    ) -> i64 {
        let mut found = Found::default();
        let mut kept = Vec::new();
        for (&record, magic) in records.iter().zip(magics) {
            if let Some(record) = self.legacy_record(record, &mut found) {
                found.changed |= magic != header.magic; // KAFKA-4298: put right when it is met
                kept.push(record);
            }
        }
        found.changed |= found.kept < found.read;
        let before = self.out.len();
        if !kept.is_empty() && !found.changed {
            self.out.extend_from_slice(message);
            self.stats.batches_copied += 1;
        } else if !kept.is_empty() {
            COMPRESSOR.with_borrow_mut(|compressor| {
                write::wrapper(header, &kept, compressor, &mut self.plain, self.out);
            });
        }
        self.count_legacy(prefix, &found, before);
        let last = records.last().filter(|_| header.lacks_offset()).map_or(header.offset, |record| record.offset);
        last.wrapping_add(1)
    }

    /// The record if it is kept, as it is kept.
    fn legacy_record<'r>(&mut self, mut record: Record<'r>, found: &mut Found) -> Option<Record<'r>> {
        found.read += 1;
        if record.offset < self.options.survivors_end {
            if !self.survivors.contains(record.offset) {
                return None;
            }
            if record.value.is_none() && !self.options.legacy_tombstones_kept {
                found.dropped_tombstones += 1;
                return None;
            }
        }
        if record.value.is_some() && self.nulled.as_mut().is_some_and(|nulled| nulled.contains(record.offset)) {
            record.value = None;
            found.changed = true;
        }
        found.kept += 1;
        found.kept_tombstones += u64::from(record.value.is_none());
        Some(record)
    }

    fn empty(&mut self, header: &V2Header) {
        let before = self.out.len();
        write::empty_batch(header, self.out);
        self.stats.batches_emptied += 1;
        self.stats.bytes_kept += (self.out.len() - before) as u64;
    }

    fn count_dropped(&mut self, prefix: &Prefix, records: i32) {
        self.stats.batches_read += 1;
        self.stats.bytes_read += prefix.total as u64;
        self.stats.records_read += u64::try_from(records).unwrap_or(0);
    }

    fn count_legacy(&mut self, prefix: &Prefix, found: &Found, before: usize) {
        self.stats.batches_read += 1;
        self.stats.bytes_read += prefix.total as u64;
        self.stats.bytes_kept += (self.out.len() - before) as u64;
        self.count(found);
    }

    fn count(&mut self, found: &Found) {
        self.stats.batches_kept += u64::from(found.kept > 0);
        self.stats.records_read += found.read;
        self.stats.records_kept += found.kept;
        self.stats.tombstones_kept += found.kept_tombstones;
        self.stats.tombstones_dropped += found.dropped_tombstones;
    }
}
