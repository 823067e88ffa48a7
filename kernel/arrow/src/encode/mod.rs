//! Arrow columns to batches, cut as Kafka's producer cuts them (MemoryRecordsBuilder, ProducerBatch).
//!
//! | module | idea |
//! |---|---|
//! | [`columns`] | key, value, headers and timestamp of a row, of whatever Arrow types |
//! | [`rows`] | which rows of which columns, in what order |
//! | [`record`] | one record of a v2 batch |
//! | [`v2`] | rows to v2 batches |
//! | [`legacy`] | rows to messages and wrappers of v0 and v1 |
//! | [`ratio`] | how well the next batch may be compressed |

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
/// A batch has no more bytes, and no more records, than 31 bits count.
const MOST: usize = i32::MAX as usize;
/// Nor does one have more before compression than readers take (DEFAULT_MAX_BATCH_BYTES of native_log.records).
const MOST_PLAIN: usize = 256 << 20;

/// How records become batches; the names are those of native_log.records.encode.
#[derive(Clone, Debug)]
pub struct Options {
    pub magic: i8,
    pub codec: Codec,
    /// One the codec has; None: its default in Kafka.
    pub level: Option<i32>,
    pub batch_size: usize,
    pub max_message_bytes: Option<usize>,
    pub base_offset: i64,
    pub leader_epoch: i32,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub is_transactional: bool,
    /// Some: the batches are marked LogAppendTime, with this time.
    pub append_time_ms: Option<i64>,
    /// For records that have no timestamp.
    pub now_ms: i64,
    /// Whether rows at the end that do not fill a batch become one.
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
    /// The batch of these rows, both inclusive, has too many bytes.
    TooLarge {
        first_row: usize,
        last_row: usize,
        size_bytes: usize,
    },
    /// Neither a time from 1970 on nor -1.
    NegativeTimestamp {
        row: usize,
        timestamp_ms: i64,
    },
    NullHeaderKey {
        row: usize,
    },
    /// There are some, which the magic asked for has not.
    Headers {
        row: usize,
    },
}

/// Memory and contexts that a thread uses again.
#[derive(Default)]
struct Workspace {
    compressor: Compressor,
    plain: Vec<u8>,
}

/// More scratch memory than this is given back after use.
const KEPT_SCRATCH: usize = 16 << 20;

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

/// Appends the rows to `out`, which is worth nothing if they are refused; how many. `ratio` is how well they are expected
/// to be compressed, and becomes what the next ones are.
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
    /// The timestamp of a row, as far as it can be one. `number`: of the row among all.
    #[inline(always)]
    fn checked_timestamp(&self, row: usize, number: usize, now_ms: i64) -> Result<i64, Refusal> {
        let timestamp_ms = self.timestamp.get(row).unwrap_or(now_ms);
        if timestamp_ms < NO_TIMESTAMP {
            return Err(Refusal::NegativeTimestamp { row: number, timestamp_ms });
        }
        Ok(timestamp_ms)
    }
}
