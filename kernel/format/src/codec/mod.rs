//! The compression codecs, as Kafka frames them.

mod choice;
mod compress;
mod decompress;
mod gzip;
mod id;
mod lz4;
pub mod lz4_block;
mod lz4_write;
mod repeats;
#[cfg(test)]
mod samples;
mod scratch;
mod snappy;
pub mod snappy_block;
mod snappy_write;
mod zstd;

pub use compress::Compressor;
pub use decompress::{Decompressor, with_decompressor};
pub use id::Codec;
pub use scratch::SLACK;
