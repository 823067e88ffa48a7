//! Encode Arrow columns as batches of the same sizes as those of Kafka's producer (MemoryRecordsBuilder, ProducerBatch).
//!
//! | module | idea |
//! |---|---|
//! | [`columns`] | key, value, headers and timestamp of a row, from any of their Arrow types |
//! | [`rows`] | which rows become records, and in what order |
//! | [`record`] | one record of a v2 batch |
//! | [`v2`] | v2 batches |
//! | [`legacy`] | messages and wrappers of v0 and v1 |
//! | [`ratio`] | an estimate of how well the next batch can be compressed |

pub mod columns;
pub mod legacy;
pub mod ratio;
pub mod record;
pub mod rows;
pub mod v2;

use std::cell::RefCell;

use columns::Records;
use kafka_log_format::codec::{Codec, Compressor};
use kafka_log_format::header::LOG_APPEND_TIME;
use ratio::Ratio;
use rows::Part;

const NO_TIMESTAMP: i64 = -1;
/// The largest size of a batch, and its largest number of records.
const MOST: usize = i32::MAX as usize;
/// The largest size of a batch before compression, which readers accept by default (DEFAULT_MAX_BATCH_BYTES of
/// native_log.records).
const MOST_PLAIN: usize = 256 << 20;

/// Options of `encode`, with the names of native_log.records.encode.
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
    fn timestamp_flag(&self) -> i16 {
        if self.append_time_ms.is_some() && self.magic > 0 { LOG_APPEND_TIME } else { 0 }
    }
}

/// Why records cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
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

/// Reusable memory and contexts of a thread.
#[derive(Default)]
struct Workspace {
    compressor: Compressor,
    plain: Vec<u8>,
}

/// More memory than this is freed after use.
const KEPT_SCRATCH: usize = 16 << 20;

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

/// Appends the rows as batches to `out`, and returns how many. After an error, `out` must be discarded. `ratio` is the
/// expected compression ratio; it is updated for the next call.
pub fn encode(parts: &[Part], options: &Options, ratio: &mut Ratio, out: &mut Vec<u8>) -> Result<usize, Refusal> {
    WORKSPACE.with_borrow_mut(|workspace| {
        workspace.compressor.begin(options.level);
        let batches = if options.magic < 2 { legacy::batches } else { v2::batches };
        let encoded = batches(parts, options, ratio, workspace, out);
        workspace.plain.clear();
        workspace.plain.shrink_to(KEPT_SCRATCH);
        encoded
    })
}

impl Records<'_> {
    /// The valid timestamp of a row. `number` is the index of the row among all rows.
    #[inline(always)]
    fn checked_timestamp(&self, row: usize, number: usize, now_ms: i64) -> Result<i64, Refusal> {
        let timestamp_ms = self.timestamp.get(row).unwrap_or(now_ms);
        if timestamp_ms < NO_TIMESTAMP {
            return Err(Refusal::NegativeTimestamp { row: number, timestamp_ms });
        }
        Ok(timestamp_ms)
    }
}
