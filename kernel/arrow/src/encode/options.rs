//! The options of `encode`, and why records cannot be encoded.

use kafka_log_format::codec::Codec;
use kafka_log_format::header::LOG_APPEND_TIME;

pub(super) const NO_TIMESTAMP: i64 = -1;
/// The largest size of a batch, and its largest number of records.
pub(super) const MOST: usize = i32::MAX as usize;
/// The largest size of a batch before compression, which readers accept by default (DEFAULT_MAX_BATCH_BYTES of
/// native_log.records).
pub(super) const MOST_PLAIN: usize = 256 << 20;

/// Options of `encode`, with the names of native_log.records.encoding.
#[derive(Clone, Debug)]
pub struct Options {
    pub magic: i8,
    pub codec: Codec,
    /// A level of the codec. None: its default in Kafka.
    pub level: Option<i32>,
    pub batch_size: usize,
    pub max_message_bytes: Option<usize>,
    pub base_offset: i64,
    pub leader_epoch: i32,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub is_transactional: bool,
    /// Some: the batches have LogAppendTime, and this timestamp.
    pub append_time_ms: Option<i64>,
    /// The timestamp of records without one.
    pub now_ms: i64,
    /// Whether the last rows become a batch if they do not fill one.
    pub finish: bool,
}

impl Options {
    /// The attributes that say how the timestamps were set.
    pub(super) fn timestamp_flag(&self) -> i16 {
        if self.append_time_ms.is_some() && self.magic > 0 { LOG_APPEND_TIME } else { 0 }
    }
}

/// Why records cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The batch of these rows, both inclusive, is too large.
    TooLarge {
        first_row: usize,
        last_row: usize,
        size_bytes: usize,
    },
    /// The timestamp is before 1970 and not -1.
    NegativeTimestamp {
        row: usize,
        timestamp_ms: i64,
    },
    NullHeaderKey {
        row: usize,
    },
    /// The record has headers, which v0 and v1 do not have.
    Headers {
        row: usize,
    },
}
