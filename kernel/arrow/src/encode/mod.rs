//! Encode Arrow columns as batches of the sizes that Kafka's producer makes (MemoryRecordsBuilder, ProducerBatch).
//!
//! | module | idea |
//! |---|---|
//! | [`columns`] | key, value, headers and timestamp of a row, from any of their Arrow types |
//! | `options` | the options, and why records cannot be encoded |
//! | [`rows`] | which rows become records, and in what order |
//! | [`builder`] | v2 batches built record by record |
//! | `record` | one record of a v2 batch |
//! | `v2` | v2 batches |
//! | `legacy` | messages and wrappers of v0 and v1 |
//! | [`ratio`] | an estimate of how well the next batch can be compressed |

pub mod builder;
pub mod columns;
mod legacy;
mod options;
pub mod ratio;
mod record;
pub mod rows;
mod v2;
mod workspace;

pub use options::{EncodeError, Options};

use ratio::Ratio;
use rows::Part;
use workspace::with_workspace;

/// Appends the rows as batches to `out`, and returns how many. After an error, `out` must be discarded. `ratio` is the
/// expected compression ratio; it is updated for the next call.
pub fn encode(parts: &[Part], options: &Options, ratio: &mut Ratio, out: &mut Vec<u8>) -> Result<usize, EncodeError> {
    with_workspace(|workspace| {
        workspace.compressor.begin(options.level);
        let batches = if options.magic < 2 { legacy::batches } else { v2::batches };
        batches(parts, options, ratio, workspace, out)
    })
}
