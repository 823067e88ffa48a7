//! Decide which records are kept, and whether they keep their values (Cleaner.shouldRetainRecord).

use super::options::Options;
use super::spans::Span;
use super::survivors::Window;
use super::write::Kept;
use crate::header::V2Header;
use crate::record::Record;

/// Why a record is dropped.
pub enum Dropped {
    /// Its offset does not survive.
    Shadowed,
    /// It is a tombstone that is no longer needed.
    Tombstone,
}

/// The rules of one call. They decide the same each time they see a record.
pub struct Rules<'a> {
    options: &'a Options<'a>,
    survivors: Window<'a>,
    nulled: Option<Window<'a>>,
}

/// The properties of a v2 batch on which the rules depend.
#[derive(Clone, Copy)]
pub struct V2Rules {
    base_offset: i64,
    base_timestamp: i64,
    /// Some: the timestamp of all records.
    log_append_time: Option<i64>,
    is_control: bool,
    tombstones_needed: bool,
}

impl<'a> Rules<'a> {
    pub fn new(options: &'a Options<'a>) -> Self {
        let nulled = options.nulled.map(Window::new);
        Rules { options, survivors: Window::new(options.survivors), nulled }
    }

    /// Whether a record with an offset from `first` to `last`, both inclusive, may survive.
    pub fn may_survive(&mut self, first: i64, last: i64) -> bool {
        last >= self.options.survivors_end || self.survivors.has_any(first, last)
    }

    pub fn v2_batch(&self, header: &V2Header) -> V2Rules {
        V2Rules {
            base_offset: header.base_offset,
            base_timestamp: header.base_timestamp,
            log_append_time: header.log_append_time().then_some(header.max_timestamp),
            is_control: header.control(),
            tombstones_needed: !header.has_delete_horizon() || self.options.now_ms < header.base_timestamp,
        }
    }

    #[inline(always)]
    pub fn v2_record(&mut self, batch: &V2Rules, span: Span) -> Result<Kept, Dropped> {
        let offset = batch.base_offset.wrapping_add(i64::from(span.offset_delta));
        let is_null = span.value_bytes < 0;
        if !batch.is_control && offset < self.options.survivors_end {
            if !self.survivors.contains(offset) {
                return Err(Dropped::Shadowed);
            }
            if is_null && !batch.tombstones_needed {
                return Err(Dropped::Tombstone);
            }
        }
        let mut nulled = self.nulled.as_mut().is_some_and(|nulled| nulled.contains(offset));
        nulled &= !is_null || span.has_headers;
        let timestamp = batch.log_append_time.unwrap_or(batch.base_timestamp.wrapping_add(span.timestamp_delta));
        Ok(Kept { span, timestamp, nulled })
    }

    /// A message of magic 0 or 1 as it is kept, and whether its value was removed.
    pub fn legacy_record<'r>(&mut self, mut record: Record<'r>) -> Result<(Record<'r>, bool), Dropped> {
        if record.offset < self.options.survivors_end {
            if !self.survivors.contains(record.offset) {
                return Err(Dropped::Shadowed);
            }
            if record.value.is_none() && !self.options.legacy_tombstones_kept {
                return Err(Dropped::Tombstone);
            }
        }
        let nulled =
            record.value.is_some() && self.nulled.as_mut().is_some_and(|nulled| nulled.contains(record.offset));
        if nulled {
            record.value = None;
        }
        Ok((record, nulled))
    }
}
