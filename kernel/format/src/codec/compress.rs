//! Compress batches in the frames of Kafka's Java client.

use std::io::Cursor;
use std::os::raw::c_int;
use std::ptr::NonNull;

use libdeflate_sys as deflate;
use xxhash_rust::xxh32::xxh32;
use zstd_safe::{CCtx, CParameter};

use super::choice::Choice;
use super::id::Codec;
use super::lz4_write::Lz4;
use super::snappy_write::Snappy;

/// zlib's level -1 means this one.
const GZIP_LEVEL: i32 = 6;
/// At this level Kafka uses lz4's fast compressor, at any other the slow one of high compression.
const LZ4_FAST_LEVEL: i32 = 9;
const ZSTD_LEVEL: i32 = 3;
/// Chain log and least match of zstd's level 3 for inputs up to 128 KiB. From there to 256 KiB the level has 16 and 4, with
/// which batches of records take longer and become larger.
const ZSTD_SMALL: (u32, u32) = (15, 5);
const ZSTD_MIDDLE: std::ops::RangeInclusive<usize> = (128 << 10) + 1..=256 << 10;
/// Leaves the parameters to the level.
const ZSTD_BY_LEVEL: (u32, u32) = (0, 0);
/// xerial's header: its magic, version 1, readable by version 1.
const XERIAL_HEADER: [u8; 16] = *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
const XERIAL_BLOCK: usize = 32 << 10;
/// Magic, and the descriptor of independent blocks of 64 KiB.
const LZ4_HEADER: [u8; 6] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40];
const LZ4_BLOCK: usize = 64 << 10;
const LZ4_STORED: u32 = 1 << 31;

/// Reusable contexts, created when first needed.
#[derive(Default)]
pub struct Compressor {
    level: Option<i32>,
    gzip: Option<Gzip>,
    snappy: Option<snap::raw::Encoder>,
    choice: Choice,
    zstd: Option<CCtx<'static>>,
}

impl Compressor {
    /// Sets the level, which the codec must have, and forgets previous input. None: the default of each codec in Kafka.
    pub fn begin(&mut self, level: Option<i32>) {
        if level != self.level {
            *self = Compressor { level, ..Compressor::default() };
        }
        self.choice.begin();
    }

    /// Appends the compressed payload of a batch of format `magic`. The codec must be known.
    pub fn compress(&mut self, codec: Codec, magic: i8, input: &[u8], out: &mut Vec<u8>) {
        self.compress_and_prefetch(codec, magic, input, &[], out);
    }

    /// Does the same, and prefetches `next`, which the caller reads next.
    pub fn compress_and_prefetch(&mut self, codec: Codec, magic: i8, input: &[u8], next: &[u8], out: &mut Vec<u8>) {
        match codec {
            Codec::None | Codec::Unknown(_) => out.extend_from_slice(input),
            Codec::Gzip => self.gzip(input, out),
            Codec::Snappy => self.snappy(input, next, out),
            Codec::Lz4 => self.lz4(magic, input, next, out),
            Codec::Zstd => self.zstd(input, out),
        }
    }

    fn gzip(&mut self, input: &[u8], out: &mut Vec<u8>) {
        let level = self.level.filter(|&level| level >= 0).unwrap_or(GZIP_LEVEL);
        self.gzip.get_or_insert_with(|| Gzip::new(level)).compress(input, out);
    }

    fn snappy(&mut self, input: &[u8], next: &[u8], out: &mut Vec<u8>) {
        let encoder = self.snappy.get_or_insert_with(snap::raw::Encoder::new);
        out.extend(XERIAL_HEADER);
        let library = |block: &[u8], out: &mut Vec<u8>| {
            append(out, snap::raw::max_compress_len(block.len()), |room| {
                encoder.compress(block, room).expect("the room is what the encoder asks for")
            });
        };
        self.choice.compress::<Snappy>(input, next, XERIAL_BLOCK, out, library, |_, begins, out| {
            let compressed = (out.len() - begins - 4) as u32;
            out[begins..begins + 4].copy_from_slice(&compressed.to_be_bytes());
        });
    }

    fn lz4(&mut self, magic: i8, input: &[u8], next: &[u8], out: &mut Vec<u8>) {
        out.extend(LZ4_HEADER);
        // KAFKA-3160: clients of magic 0 expect the checksum to cover the magic of the frame too.
        let checked = if magic == 0 { &LZ4_HEADER[..] } else { &LZ4_HEADER[4..] };
        out.push((xxh32(checked, 0) >> 8) as u8);
        match self.level.filter(|&level| level != LZ4_FAST_LEVEL) {
            None => self.choice.compress::<Lz4>(
                input,
                next,
                LZ4_BLOCK,
                out,
                |block, out| lz4_block(None, block, out),
                lz4_frame,
            ),
            high => {
                for block in input.chunks(LZ4_BLOCK) {
                    let begins = out.len();
                    out.extend([0; 4]);
                    lz4_block(high, block, out);
                    lz4_frame(block, begins, out);
                }
            }
        }
        out.extend([0; 4]);
    }

    fn zstd(&mut self, input: &[u8], out: &mut Vec<u8>) {
        let context = self.zstd.get_or_insert_with(|| {
            let mut context = CCtx::create();
            let level = self.level.unwrap_or(ZSTD_LEVEL);
            for parameter in [CParameter::CompressionLevel(level), CParameter::ContentSizeFlag(false)] {
                context.set_parameter(parameter).expect("both are within zstd's bounds");
            }
            context
        });
        let small = self.level.is_none_or(|level| level == ZSTD_LEVEL) && ZSTD_MIDDLE.contains(&input.len());
        let (chain_log, min_match) = if small { ZSTD_SMALL } else { ZSTD_BY_LEVEL };
        for parameter in [CParameter::ChainLog(chain_log), CParameter::MinMatch(min_match)] {
            context.set_parameter(parameter).expect("both are within zstd's bounds");
        }
        let begins = out.len() as u64;
        out.reserve(zstd_safe::compress_bound(input.len()));
        let mut end = Cursor::new(out);
        end.set_position(begins);
        context.compress2(&mut end, input).expect("the room is what zstd asks for");
    }
}

/// Appends what `write` puts into `most` bytes of room. Returns how much that is.
fn append(out: &mut Vec<u8>, most: usize, write: impl FnOnce(&mut [u8]) -> usize) -> usize {
    let begins = out.len();
    out.resize(begins + most, 0);
    let written = write(&mut out[begins..]);
    out.truncate(begins + written);
    written
}

/// Appends the block, compressed at `high`, a level of high compression, or by the fast compressor. Appends nothing if the
/// block does not become smaller.
fn lz4_block(high: Option<i32>, block: &[u8], out: &mut Vec<u8>) {
    append(out, block.len() - 1, |room| {
        let (from, to) = (block.as_ptr().cast(), room.as_mut_ptr().cast());
        let (bytes, most) = (block.len() as c_int, room.len() as c_int);
        // SAFETY: both ranges are valid for their lengths, which fit c_int, and do not overlap.
        let written = unsafe {
            match high {
                None => lz4_sys::LZ4_compress_default(from, to, bytes, most),
                Some(level) => lz4_sys::LZ4_compress_HC(from, to, bytes, most, level),
            }
        };
        written.max(0) as usize
    });
}

/// Fills in the length of a block, or stores it without compression if it did not become smaller.
fn lz4_frame(block: &[u8], begins: usize, out: &mut Vec<u8>) {
    let compressed = out.len() - begins - 4;
    let mut length = compressed as u32;
    if !(1..block.len()).contains(&compressed) {
        out.truncate(begins + 4);
        out.extend_from_slice(block);
        length = block.len() as u32 | LZ4_STORED;
    }
    out[begins..begins + 4].copy_from_slice(&length.to_le_bytes());
}

struct Gzip(NonNull<deflate::libdeflate_compressor>);

// SAFETY: the compressor is plain memory that only its owner touches.
unsafe impl Send for Gzip {}

impl Gzip {
    /// `level` is one of zlib's.
    fn new(level: i32) -> Self {
        // SAFETY: libdeflate knows these levels.
        let context = unsafe { deflate::libdeflate_alloc_compressor(level) };
        Gzip(NonNull::new(context).expect("libdeflate had no memory for a compressor"))
    }

    fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) {
        // SAFETY: the context is ours alone.
        let most = unsafe { deflate::libdeflate_gzip_compress_bound(self.0.as_ptr(), input.len()) };
        out.reserve(most);
        let room = out.spare_capacity_mut();
        let (to, room_bytes) = (room.as_mut_ptr().cast(), room.len());
        // SAFETY: both ranges are valid for their lengths and do not overlap; the context is ours alone. libdeflate returns
        // how many bytes after the end it wrote.
        unsafe {
            let from = input.as_ptr().cast();
            let written = deflate::libdeflate_gzip_compress(self.0.as_ptr(), from, input.len(), to, room_bytes);
            out.set_len(out.len() + written);
        }
    }
}

impl Drop for Gzip {
    fn drop(&mut self) {
        // SAFETY: it was allocated in `new` and is freed once.
        unsafe { deflate::libdeflate_free_compressor(self.0.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decompressor, SLACK};
    use super::*;

    #[test]
    fn what_was_compressed_is_read_again() {
        let mut noise = 1u32;
        let noise: Vec<u8> = (0..150_000)
            .map(|_| {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (noise >> 24) as u8
            })
            .collect();
        let text = b"some words again and again, ".repeat(5000);
        let (mut compressor, mut decompressor) = (Compressor::default(), Decompressor::default());
        for input in [&text[..], &noise, &noise[..1], &text[..65_536], &noise[..65_537]] {
            for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
                for magic in [0, 2] {
                    if codec == Codec::Zstd && magic == 0 {
                        continue;
                    }
                    let mut out = b"before".to_vec();
                    compressor.compress_and_prefetch(codec, magic, input, &noise, &mut out);
                    let again = decompressor.decompress(codec, magic, &out[6..], 1 << 20).unwrap();
                    assert_eq!(&again[..again.len() - SLACK], input, "{codec:?} {magic}");
                }
            }
        }
    }

    #[test]
    fn higher_levels_compress_better() {
        let text: Vec<u8> = (0..20_000u32).flat_map(|at| (at * at % 7919).to_string().into_bytes()).collect();
        for (codec, low, high) in [(Codec::Gzip, 1, 9), (Codec::Lz4, 9, 17), (Codec::Zstd, -5, 19)] {
            let size = |level| {
                let (mut compressor, mut out) = (Compressor::default(), Vec::new());
                compressor.begin(Some(level));
                compressor.compress(codec, 2, &text, &mut out);
                out.len()
            };
            assert!(size(high) < size(low), "{codec:?}: {} {}", size(high), size(low));
        }
    }
}
