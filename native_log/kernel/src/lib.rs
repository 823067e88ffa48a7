//! Kafka record batches to Arrow. Buffers in, columns out: no paths, no clocks, no Spark. Files are read here
//! by the descriptor of one that is open, where the way of the bytes through a caller would cost more: their headers
//! alone, or chunks that are decoded while they are in the processor's cache.
//!
//! | module | idea |
//! |---|---|
//! | [`decode`] | buffer -> the records of its batches, with the columns asked for |
//! | [`scan`] | buffer -> one row a batch, from the headers alone |
//! | [`find`] | where the next whole batch begins behind damaged bytes |
//! | [`encode`] | columns -> batches, sized as Kafka's producer sizes them |
//! | [`patch`](mod@patch) | the offsets and the leader epoch of batches, set where they lie |
//! | [`partitioner`] | the partition of a key |
//! | [`cleaner`] | keys and their newest offsets, and batches without the other records: compaction |
//! | [`header`] | the entry prefix all formats share, and the headers of v2 batches and v0/v1 messages |
//! | [`v2`], [`legacy`] | the records inside a batch: format v2, and messages and wrappers of v0 and v1 |
//! | [`selection`] | which records are asked for |
//! | [`order`] | whether batches come in the order of their offsets |
//! | [`codec`] | gzip, snappy, lz4 and zstd as Kafka frames them |
//! | [`columns`] | the Arrow columns being built |
//! | [`write`](mod@write) | what all writers of batches write alike |
//! | [`pool`], [`constant`] | recycled memory below the columns, and columns of one value |
//! | `chunk` | the part of a file that is being decoded |
//! | [`varint`], [`crc`], [`damage`], `wide`, `memory` | the small parts |
//!
//! Every input byte is untrusted: a length is checked against the bytes that are there before anything is
//! allocated or read by it, and bad input is a [`damage::Fault`], never a panic.

#[cfg(feature = "python")]
mod bytes;
mod chunk;
pub mod codec;
pub mod columns;
pub mod compaction;
mod constant;
#[cfg(feature = "python")]
mod convert;
pub mod crc;
pub mod damage;
pub mod decode;
pub mod encode;
pub mod find;
pub mod header;
mod legacy;
mod memory;
pub mod order;
pub mod partitioner;
pub mod patch;
mod pool;
pub mod scan;
pub mod selection;
mod v2;
pub mod varint;
mod wide;
mod write;

#[cfg(feature = "python")]
mod python;
