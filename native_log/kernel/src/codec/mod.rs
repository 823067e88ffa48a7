//! The compression codecs, as Kafka frames them.

mod choice;
mod compress;
mod gzip;
mod lz4;
pub mod lz4_block;
mod lz4_write;
mod repeats;
#[cfg(test)]
mod samples;
mod snappy;
pub mod snappy_block;
mod snappy_write;
mod zstd;

pub use compress::Compressor;

use crate::damage::{Fault, Kind};

/// Bytes behind the decompressed ones that may be read (their content means nothing).
pub const SLACK: usize = 64;

/// More scratch memory than this is given back after use: one huge batch must not stay with its thread.
const KEPT_SCRATCH: usize = 16 << 20;

/// Attribute bits 0-2 of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
    Unknown(u8),
}

impl Codec {
    pub fn from_attributes(attributes: u8) -> Self {
        match attributes & 7 {
            0 => Codec::None,
            1 => Codec::Gzip,
            2 => Codec::Snappy,
            3 => Codec::Lz4,
            4 => Codec::Zstd,
            id => Codec::Unknown(id),
        }
    }

    /// One that can be written.
    pub fn named(name: &str) -> Option<Self> {
        [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd]
            .into_iter()
            .find(|codec| codec.name() == name)
    }

    /// What `from_attributes` makes it of.
    pub fn id(self) -> u8 {
        match self {
            Codec::None => 0,
            Codec::Gzip => 1,
            Codec::Snappy => 2,
            Codec::Lz4 => 3,
            Codec::Zstd => 4,
            Codec::Unknown(id) => id,
        }
    }

    /// As the `compression` column has it.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
            Codec::Unknown(5) => "unknown(5)",
            Codec::Unknown(6) => "unknown(6)",
            Codec::Unknown(_) => "unknown(7)",
        }
    }
}

/// Memory and contexts that one thread uses again for batch after batch.
#[derive(Default)]
pub struct Decompressor {
    scratch: Scratch,
    gzip: gzip::Gzip,
    snappy: snap::raw::Decoder,
    zstd: zstd::Zstd,
}

impl Decompressor {
    /// Decompresses one records section of a batch of format `magic`, to at most `limit` bytes. Of the slice
    /// returned the last SLACK bytes are no part of the result.
    pub fn decompress(&mut self, codec: Codec, magic: i8, input: &[u8], limit: usize) -> Result<&[u8], Fault> {
        let out = &mut self.scratch;
        out.begin(limit);
        match codec {
            Codec::Gzip | Codec::Snappy | Codec::Lz4 | Codec::Zstd if input.is_empty() => {
                return Err(Fault::compression(format!("the {} stream has no bytes at all", codec.name())));
            }
            Codec::Gzip => self.gzip.decompress(input, out)?,
            Codec::Snappy => snappy::decompress(&mut self.snappy, input, out)?,
            Codec::Lz4 => lz4::decompress(input, magic, out)?,
            Codec::Zstd if magic >= 2 => self.zstd.decompress(input, out)?,
            Codec::Zstd => {
                let message = format!("compression 4 (zstd) in a message of magic {magic}, which has only 0 to 3");
                return Err(Fault::new(Kind::Codec, message));
            }
            Codec::None | Codec::Unknown(_) => {
                let message =
                    format!("compression {} is unknown; known are none, gzip, snappy, lz4 and zstd", codec.name());
                return Err(Fault::new(Kind::Codec, message));
            }
        }
        Ok(out.finish())
    }

    /// To be called between batches: drops memory that only an unusually large one needed.
    pub fn trim(&mut self) {
        if self.scratch.memory.len() > KEPT_SCRATCH {
            self.scratch.memory = Vec::new();
        }
    }
}

/// Decompressed bytes of one batch. Grows only when what is there was really filled, never by a claimed size.
#[derive(Default)]
struct Scratch {
    /// Initialised to its length, which is the capacity in use plus SLACK.
    memory: Vec<u8>,
    filled: usize,
    limit: usize,
}

impl Scratch {
    fn begin(&mut self, limit: usize) {
        self.filled = 0;
        self.limit = limit;
    }

    /// Makes room for `more` bytes behind those filled, as far as the limit lets it, and at least for one.
    fn reserve(&mut self, more: usize) -> Result<(), Fault> {
        let wanted = self.filled.saturating_add(more.max(1)).min(self.limit);
        if wanted <= self.filled {
            return Err(Fault::too_large("the batch decompresses to more than", self.filled, self.limit));
        }
        if self.memory.len() < wanted + SLACK {
            let doubled = (self.memory.len() * 2).max(64 << 10).min(self.limit.saturating_add(SLACK));
            self.memory.resize(doubled.max(wanted + SLACK), 0);
        }
        Ok(())
    }

    /// Twice the room there was: called when the rest was too small.
    fn grow(&mut self) -> Result<(), Fault> {
        let room = self.room().len();
        if self.filled + room >= self.limit {
            return Err(Fault::too_large("the batch decompresses to more than", self.limit, self.limit));
        }
        self.reserve(room.saturating_mul(2).max(64 << 10))
    }

    /// All the free room.
    fn room(&mut self) -> &mut [u8] {
        let end = self.memory.len().saturating_sub(SLACK).min(self.limit);
        &mut self.memory[self.filled.min(end)..end]
    }

    fn finish(&mut self) -> &[u8] {
        if self.memory.len() < self.filled + SLACK {
            self.memory.resize(self.filled + SLACK, 0);
        }
        &self.memory[..self.filled + SLACK]
    }
}
