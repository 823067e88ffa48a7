//! Check the records of batches without keeping them.

use crate::common_records::CommonRecords;
use crate::decode::{Options, decode};
use crate::header::{LegacyHeader, Next, V2Header, next};
use crate::record::{Record, RecordHeader};
use crate::selection::Selection;
use crate::sink::{BatchValues, RecordSink};
use crate::status::Status;

/// The index of the first batch whose records are invalid; None if there is none. Records are invalid if they cannot be
/// decoded, or if their offsets do not increase from the base offset of their batch to its last offset, after the
/// `previous` offset, which is the last one of the batch before. `buffer` has whole batches. CRCs are not checked.
pub fn find_invalid_records(buffer: &[u8], mut previous: i64, max_batch_bytes: usize) -> Option<usize> {
    let options = Options {
        base_position: 0,
        selection: Selection::default(),
        order: None,
        max_rows: None,
        max_bytes: None,
        check_crcs: false,
        max_batch_bytes,
        control: true,
    };
    let mut at = 0;
    loop {
        let prefix = match next(buffer, at, max_batch_bytes) {
            Next::Batch(prefix) => prefix,
            Next::End => return None,
            _ => return Some(at),
        };
        let Some(batch) = buffer.get(at..at + prefix.total) else { return Some(at) };
        let (least, most) = match batch.first_chunk() {
            Some(header) if prefix.magic == 2 => {
                let header = V2Header::parse(header);
                (header.base_offset, header.last_offset())
            }
            _ => {
                let header = LegacyHeader::parse(batch);
                // The offset of a wrapper is that of its last message.
                let least = if header.is_wrapper() { i64::MIN } else { header.offset };
                (least, header.offset)
            }
        };
        let mut offsets = OffsetCheck { previous, least, most, is_valid: true, records: 0 };
        if decode(batch, &options, &mut offsets).status != Status::End || !offsets.is_valid {
            return Some(at);
        }
        previous = most;
        at += prefix.total;
    }
}

/// Checks that offsets increase after `previous`, from `least` to at most `most`.
struct OffsetCheck {
    previous: i64,
    least: i64,
    most: i64,
    is_valid: bool,
    records: usize,
}

impl OffsetCheck {
    #[inline(always)]
    fn check(&mut self, offset: i64) {
        self.is_valid &= self.previous < offset && self.least <= offset && offset <= self.most;
        self.previous = offset;
        self.records += 1;
    }
}

impl RecordSink for OffsetCheck {
    fn record_count(&self) -> usize {
        self.records
    }

    fn size_bytes(&self) -> usize {
        0
    }

    fn has_room(&self, _records: usize, _bytes: usize) -> bool {
        true
    }

    fn append(&mut self, record: &Record, _headers: &[RecordHeader]) {
        self.check(record.offset);
    }

    fn append_common(&mut self, records: &mut CommonRecords) {
        records.for_each::<true>(|record| self.check(record.offset()));
    }

    fn end_batch(&mut self, _batch: BatchValues) {}

    fn discard_batch(&mut self) {}
}
