//! Where decoded records go.

use crate::codec::Codec;
use crate::common_records::CommonRecords;
use crate::damage::Skipped;
use crate::record::{Record, RecordHeader};

/// Collects the records of batches. `decode` appends the records of one batch, and then either ends the batch or, if it
/// is damaged, discards it.
pub trait RecordSink {
    /// How many records there are, those of the batch in progress included.
    fn record_count(&self) -> usize;

    /// The size of all records, which `max_bytes` limits.
    fn size_bytes(&self) -> usize;

    /// Whether there is room for another batch of up to `records` records in `bytes` bytes.
    fn has_room(&self, records: usize, bytes: usize) -> bool;

    /// Appends one record. Records of formats v0 and v1 have no headers.
    fn append(&mut self, record: &Record, headers: &[RecordHeader]);

    /// Appends as many of the next records as it can by the faster way of `CommonRecords`. `decode` appends the record
    /// that follows with `append`.
    fn append_common(&mut self, _records: &mut CommonRecords) {}

    /// Called after the first batch: the rest of the input is `times` as large as that batch.
    fn expect(&mut self, _times: usize) {}

    /// Ends the batch of all records appended since the previous batch.
    fn end_batch(&mut self, batch: BatchValues);

    /// Removes all records appended since the previous batch.
    fn discard_batch(&mut self);

    /// Called for damage after which decoding continues.
    fn skipped(&mut self, _skipped: Skipped) {}
}

/// What the header of a batch says about all of its records.
#[derive(Clone, Copy, Debug)]
pub struct BatchValues {
    /// -1: no timestamp type (v0), 0: CreateTime, 1: LogAppendTime.
    pub timestamp_type: i32,
    pub leader_epoch: i32,
    pub producer_id: i64,
    pub producer_epoch: i32,
    pub is_transactional: bool,
    pub codec: Codec,
    pub magic: i32,
    /// Base offset of the batch, or the first offset in a wrapper.
    pub batch_offset: i64,
    /// Position of the batch's first byte.
    pub position: i64,
}
