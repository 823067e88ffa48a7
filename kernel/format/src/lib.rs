//! Kafka's record formats: batches of every version (v0, v1, v2) are decoded, checked, compacted and written here. Bytes
//! come in, records and bytes go out: no paths, no clocks, no Arrow, no Python. A file is read by its open descriptor where
//! it costs less than a buffer of the caller.
//!
//! | module | idea |
//! |---|---|
//! | [`decode`] | buffer -> the records of its batches, appended to a [`sink`] |
//! | [`scan`] | buffer -> one row a batch, from the headers alone |
//! | [`check`] | file -> the same, and whether the checksums and the records of its batches are right |
//! | [`ranges`] | file -> ranges of whole batches |
//! | [`find`], [`skip`] | where the next whole batch begins after damaged bytes; how decoding continues there |
//! | [`patch`](mod@patch) | set the offsets and the leader epoch of batches in place |
//! | [`text`] | buffer -> the lines that kafka-dump-log prints of its batches and records |
//! | [`partitioner`] | the partition of a key |
//! | [`compaction`] | keys and their newest offsets, and batches without the other records |
//! | [`header`] | the prefix that all formats share, and the headers of v2 batches and v0/v1 messages |
//! | [`record`] | one record |
//! | [`v2`], [`common_records`] | the records of a v2 batch: the careful reader and the fast one |
//! | [`legacy`] | messages and wrappers of v0 and v1 |
//! | [`selection`], [`conditions`] | which records are read |
//! | [`order`] | whether batches come in the order of their offsets |
//! | [`java_utf8`](mod@java_utf8) | text as Java decodes it |
//! | [`codec`] | gzip, snappy, lz4 and zstd as Kafka frames them |
//! | [`write`](mod@write) | headers of batches, messages and wrappers |
//! | [`status`], [`damage`] | where and why a call stopped |
//! | `chunk` | the part of a file that is being read |
//! | [`varint`], [`big_endian`], [`crc`], [`file_crcs`], [`mod@copy`], [`memory`], [`cpu`] | numbers, checksums, memory and the processor |
//!
//! Every input byte is untrusted: a length is checked against the bytes that are there before anything is
//! allocated or read by it, and bad input is a [`damage::Fault`], never a panic.

pub mod big_endian;
pub mod check;
mod chunk;
pub mod codec;
pub mod common_records;
pub mod compaction;
pub mod conditions;
pub mod copy;
pub mod cpu;
pub mod crc;
pub mod damage;
pub mod decode;
pub mod file_crcs;
pub mod find;
pub mod header;
pub mod java_utf8;
pub mod legacy;
pub mod memory;
pub mod order;
pub mod partitioner;
pub mod patch;
pub mod ranges;
pub mod record;
pub mod scan;
pub mod selection;
pub mod sink;
pub mod skip;
pub mod status;
pub mod text;
pub mod v2;
pub mod varint;
pub mod write;
