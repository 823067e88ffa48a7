//! liblz4 and snap as a Java client uses them: independent blocks in Kafka's frames.

use std::os::raw::c_int;

use kafka_log_format::codec::Codec;
use lz4_sys::{LZ4_compress_default, LZ4_decompress_safe};

/// Magic, descriptor of independent blocks of 64 KiB, and its checksum.
const LZ4_HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
const LZ4_BLOCK: usize = 64 << 10;
const LZ4_STORED: u32 = 1 << 31;
const SNAPPY_HEADER: [u8; 16] = *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
const SNAPPY_BLOCK: usize = 32 << 10;

/// A library, with memory that it uses again.
pub struct Library {
    codec: Codec,
    room: Vec<u8>,
    out: Vec<u8>,
    encoder: snap::raw::Encoder,
    decoder: snap::raw::Decoder,
}

impl Library {
    pub fn new(codec: Codec) -> Self {
        let room = vec![0; 2 * LZ4_BLOCK];
        Library { codec, room, out: Vec::new(), encoder: snap::raw::Encoder::new(), decoder: snap::raw::Decoder::new() }
    }

    pub fn compress(&mut self, content: &[u8]) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        if self.codec == Codec::Lz4 {
            out.extend(LZ4_HEADER);
            for block in content.chunks(LZ4_BLOCK) {
                // SAFETY: both ranges are valid for the lengths given.
                let written = unsafe {
                    let (from, to) = (block.as_ptr().cast(), self.room.as_mut_ptr().cast());
                    LZ4_compress_default(from, to, block.len() as c_int, block.len() as c_int - 1)
                };
                let (length, data) = match written {
                    0 => (block.len() as u32 | LZ4_STORED, block),
                    written => (written as u32, &self.room[..written as usize]),
                };
                out.extend(length.to_le_bytes());
                out.extend(data);
            }
            out.extend([0; 4]);
        } else {
            out.extend(SNAPPY_HEADER);
            for block in content.chunks(SNAPPY_BLOCK) {
                let written = self.encoder.compress(block, &mut self.room).expect("the room is large enough");
                out.extend((written as u32).to_be_bytes());
                out.extend(&self.room[..written]);
            }
        }
        out
    }

    /// Decompresses a frame that is known to be whole; to how many bytes.
    pub fn decompress(&mut self, frame: &[u8], content_bytes: usize) -> usize {
        if self.out.len() < content_bytes {
            self.out.resize(content_bytes, 0);
        }
        let (header, trailer) = if self.codec == Codec::Lz4 { (LZ4_HEADER.len(), 4) } else { (SNAPPY_HEADER.len(), 0) };
        let (mut rest, mut filled) = (&frame[header..frame.len() - trailer], 0);
        while let Some((length, data)) = rest.split_first_chunk() {
            let room = &mut self.out[filled..content_bytes];
            let bytes = if self.codec == Codec::Lz4 {
                let length = u32::from_le_bytes(*length);
                let block = &data[..(length & !LZ4_STORED) as usize];
                rest = &data[block.len()..];
                if length & LZ4_STORED != 0 {
                    room[..block.len()].copy_from_slice(block);
                    block.len()
                } else {
                    let (from, to) = (block.as_ptr().cast(), room.as_mut_ptr().cast());
                    // SAFETY: both ranges are valid for the lengths given.
                    let read = unsafe { LZ4_decompress_safe(from, to, block.len() as c_int, room.len() as c_int) };
                    usize::try_from(read).expect("a whole block")
                }
            } else {
                let block = &data[..u32::from_be_bytes(*length) as usize];
                rest = &data[block.len()..];
                self.decoder.decompress(block, room).expect("a whole block")
            };
            filled += bytes;
        }
        filled
    }
}
