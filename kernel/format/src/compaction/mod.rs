//! Compaction: find the newest offset of each key, and write batches without the other records.
//!
//! | module | idea |
//! |---|---|
//! | [`cursor`] | the headers of the batches in a buffer |
//! | [`section`] | the decompressed records of a batch |
//! | [`spans`] | the records of a v2 batch as the positions of their fields |
//! | [`key_map`] | the greatest offset of each key: a [`swiss_table`] of entries in an [`arena`] |
//! | [`keys`] | feed the keys of the records in a buffer to a sink |
//! | [`buckets`], [`packs`] | keys and offsets in buckets, to be sent between processes and merged |
//! | [`newest`] | the greatest offset of each key of a bucket |
//! | [`short_keys`] | hash, compare and append keys eight bytes at a time |
//! | [`survivors`] | sets of offsets |
//! | [`rewrite`], [`options`], [`filter`], [`rules`], [`write`] | write batches without the records that do not survive |

pub mod arena;
pub mod buckets;
pub mod cursor;
pub mod filter;
pub mod key_map;
pub mod keys;
pub mod newest;
pub mod options;
pub mod packs;
pub mod rewrite;
pub mod rules;
pub mod section;
pub mod short_keys;
pub mod spans;
pub mod survivors;
pub mod swiss_table;
#[cfg(test)]
mod tests;
pub mod write;
