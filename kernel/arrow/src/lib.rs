//! Kafka's records as Arrow columns. The record formats themselves are in kafka-log-format.
//!
//! | module | idea |
//! |---|---|
//! | [`decode`](mod@decode) | buffer or file -> the columns of the records in its batches |
//! | [`columns`] | the columns being built |
//! | [`encode`](mod@encode) | columns -> batches, sized as Kafka's producer sizes them |
//! | [`batch_columns`](mod@batch_columns) | the headers of batches as columns |
//! | [`partitioner`] | the hash and the partition of each key of a column |
//! | `pool`, `constant` | recycled memory below the columns, and columns of one value |

pub mod batch_columns;
pub mod columns;
mod constant;
pub mod decode;
pub mod encode;
pub mod partitioner;
mod pool;
