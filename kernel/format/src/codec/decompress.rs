//! The decompressor of a thread, for all codecs.

use std::cell::RefCell;

use super::id::Codec;
use super::scratch::Scratch;
use super::{gzip, lz4, snappy, zstd};
use crate::damage::{Fault, Kind};

/// Reusable memory and contexts of one thread.
#[derive(Default)]
pub struct Decompressor {
    scratch: Scratch,
    gzip: gzip::Gzip,
    snappy: snap::raw::Decoder,
    zstd: zstd::Zstd,
}

impl Decompressor {
    /// Decompresses the records of a batch of format `magic` to at most `limit` bytes. SLACK bytes follow them in the
    /// returned slice.
    pub fn decompress(&mut self, codec: Codec, magic: i8, input: &[u8], limit: usize) -> Result<&[u8], Fault> {
        let out = &mut self.scratch;
        out.begin(limit);
        match codec {
            Codec::Gzip | Codec::Snappy | Codec::Lz4 | Codec::Zstd if input.is_empty() => {
                return Err(Fault::compression(format!("expected a {} stream, found no bytes", codec.name())));
            }
            Codec::Gzip => self.gzip.decompress(input, out)?,
            Codec::Snappy => snappy::decompress(&mut self.snappy, input, out)?,
            Codec::Lz4 => lz4::decompress(input, magic, out)?,
            Codec::Zstd if magic >= 2 => self.zstd.decompress(input, out)?,
            Codec::Zstd => {
                let message = format!("expected compression 0 to 3 with magic {magic}, found 4 (zstd)");
                return Err(Fault::new(Kind::Codec, message));
            }
            Codec::None | Codec::Unknown(_) => {
                let message = format!("expected compression none, gzip, snappy, lz4 or zstd, found {}", codec.name());
                return Err(Fault::new(Kind::Codec, message));
            }
        }
        Ok(out.finish())
    }

    /// Frees memory that only an unusually large batch needed.
    pub fn trim(&mut self) {
        self.scratch.trim();
    }
}

thread_local! {
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::default();
}

/// Calls `work` with the decompressor of this thread.
pub fn with_decompressor<R>(work: impl FnOnce(&mut Decompressor) -> R) -> R {
    DECOMPRESSOR.with_borrow_mut(|decompressor| {
        let result = work(decompressor);
        decompressor.trim();
        result
    })
}
