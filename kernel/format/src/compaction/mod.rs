//! What compaction does to bytes: the newest offset of each key, and batches without the other records.
//!
//! | module | idea |
//! |---|---|
//! | [`cursor`] | the batches of a buffer, one after the other, with their headers |
//! | [`section`] | the decompressed records of a batch |
//! | [`spans`] | the records of a v2 batch, by where their fields are |
//! | [`key_map`] | keys and their greatest offsets: a [`swiss_table`] of entries in an [`arena`] |
//! | [`keys`] | the keys of a buffer's records, fed to what collects them |
//! | [`buckets`], [`packs`] | keys and offsets in buckets, on their way between processes; what survives of them |
//! | [`newest`] | the greatest offset of each key of a bucket: a small hash table |
//! | [`short_keys`] | keys, eight bytes at a time |
//! | [`survivors`] | a set of offsets |
//! | [`rewrite`], [`options`], [`filter`], [`rules`], [`write`] | batches without the records that do not survive |

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
