//! LZ4 frames as Kafka reads them (Lz4BlockInputStream), and two more kinds that other clients write: blocks that refer to
//! the previous block, and several frames in a row.

use std::os::raw::{c_char, c_int};

use lz4_sys as _; // links the library
use xxhash_rust::xxh32::xxh32;

use super::lz4_block;
use super::scratch::Scratch;
use crate::damage::Fault;

const MAGIC: [u8; 4] = 0x184d_2204u32.to_le_bytes();
const BLOCK_CHECKSUM: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const CONTENT_CHECKSUM: u8 = 1 << 2;
const RESERVED: u8 = 0b11;
const STORED: u32 = 1 << 31;
/// How far back a match can refer.
const WINDOW: usize = 64 << 10;
/// No run is denser than one byte for 255.
const MAX_RATIO: usize = 256;

unsafe extern "C" {
    // liblz4, which lz4-sys builds and links, has this function, but lz4-sys does not declare it.
    fn LZ4_decompress_safe_usingDict(
        source: *const c_char,
        dest: *mut c_char,
        source_bytes: c_int,
        dest_capacity: c_int,
        dictionary: *const c_char,
        dictionary_bytes: c_int,
    ) -> c_int;
}

pub fn decompress(input: &[u8], magic: i8, out: &mut Scratch) -> Result<(), Fault> {
    let mut rest = input;
    loop {
        rest = frame(rest, magic, out)?;
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// Decompresses the frame that `input` begins with. Returns the bytes after it.
fn frame<'a>(input: &'a [u8], magic: i8, out: &mut Scratch) -> Result<&'a [u8], Fault> {
    let mut rest = Input(input);
    if rest.take(4)? != MAGIC {
        return Err(Fault::compression("expected an lz4 frame with magic 04 22 4d 18, found other bytes"));
    }
    let descriptor = rest.0;
    let &[flags, block_descriptor] = rest.take(2)? else { return Err(ended()) };
    if flags >> 6 != 1 || flags & RESERVED != 0 || !matches!(block_descriptor, 0x40 | 0x50 | 0x60 | 0x70) {
        let message =
            format!("expected an lz4 frame descriptor of version 1, found {flags:02x} {block_descriptor:02x}");
        return Err(Fault::compression(message));
    }
    let described = if flags & CONTENT_SIZE != 0 { 2 + rest.take(8)?.len() } else { 2 };
    let checksum = rest.take(1)?[0];
    let expected = (xxh32(&descriptor[..described], 0) >> 8) as u8;
    // KAFKA-3160: writers of magic 0 computed the checksum over too many bytes, so readers cannot check it.
    if magic != 0 && checksum != expected {
        let message = format!("expected checksum {checksum:#04x} by the lz4 frame header, found {expected:#04x}");
        return Err(Fault::compression(message));
    }
    let block_bytes = 1usize << (8 + 2 * (block_descriptor >> 4));
    let began = out.filled;
    loop {
        let length = rest.u32()?;
        if length == 0 {
            break;
        }
        let data = rest.take((length & !STORED) as usize)?;
        if data.len() > block_bytes {
            let message = format!("expected an lz4 block of at most {block_bytes} bytes, found {}", data.len());
            return Err(Fault::compression(message));
        }
        if flags & BLOCK_CHECKSUM != 0 && rest.u32()? != xxh32(data, 0) {
            return Err(Fault::compression("expected an lz4 block with a correct checksum, found a wrong one"));
        }
        if length & STORED != 0 {
            stored(data, out)?;
        } else if let Some(next) = rest.next_block(block_bytes).filter(|_| flags & BLOCK_CHECKSUM == 0)
            && next.len() >= data.len() / 4 // otherwise most of the first block would be read alone
            && lz4_block::is_regular(data)
            && two_blocks([data, next], block_bytes, began, out)
        {
            rest.take(4 + next.len())?;
        } else {
            block(data, block_bytes, began, out)?;
        }
    }
    if flags & CONTENT_CHECKSUM != 0 {
        rest.take(4)?; // Kafka does not check it
    }
    Ok(rest.0)
}

fn stored(data: &[u8], out: &mut Scratch) -> Result<(), Fault> {
    if data.is_empty() {
        return Ok(());
    }
    out.reserve(data.len())?;
    let room = out.room();
    if room.len() < data.len() {
        return Err(out.too_large());
    }
    room[..data.len()].copy_from_slice(data);
    out.filled += data.len();
    Ok(())
}

/// Decompresses two blocks at once. Returns false, and decompresses nothing, unless the first block is full and the second
/// one does not refer to it.
fn two_blocks(inputs: [&[u8]; 2], block_bytes: usize, began: usize, out: &mut Scratch) -> bool {
    let most = inputs.map(|input| block_bytes.min(input.len().saturating_mul(MAX_RATIO)));
    if most[0] < block_bytes || out.reserve(most[0] + most[1]).is_err() || out.room().len() < most[0] + most[1] {
        return false;
    }
    let filled = out.filled;
    let history = (filled - began).min(WINDOW);
    let ends = lz4_block::decompress_two(inputs, &mut out.memory, filled - history, filled, most);
    match ends {
        [Some(first), Some(second)] if first == filled + block_bytes => {
            out.filled = second;
            true
        }
        _ => false,
    }
}

/// Decompresses one block, which may refer to what its frame has filled since `began`.
fn block(data: &[u8], block_bytes: usize, began: usize, out: &mut Scratch) -> Result<(), Fault> {
    let most = block_bytes.min(data.len().saturating_mul(MAX_RATIO));
    out.reserve(most)?;
    let filled = out.filled;
    let capacity = most.min(out.room().len());
    let history = (filled - began).min(WINDOW);
    let dest = out.room().as_mut_ptr();
    // SAFETY: source and destination are valid for the lengths given and do not overlap; the history lies right
    // before the destination in the same allocation, so that `dest - history` is inside it. Lengths are at most
    // 4 MiB, which fits c_int.
    let written = unsafe {
        LZ4_decompress_safe_usingDict(
            data.as_ptr().cast(),
            dest.cast(),
            data.len() as c_int,
            capacity as c_int,
            dest.sub(history).cast(),
            history as c_int,
        )
    };
    match usize::try_from(written) {
        Ok(written) => {
            out.filled += written.min(capacity);
            Ok(())
        }
        Err(_) if capacity < most => Err(out.too_large()),
        Err(_) => Err(Fault::compression("expected a valid lz4 block, found a damaged one")),
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or_else(ended)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next block, if it is a compressed block of an allowed size.
    fn next_block(&self, most_bytes: usize) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk()?;
        let length = u32::from_le_bytes(*length) as usize; // the length of a stored block is larger than allowed
        rest.get(..length).filter(|data| (1..=most_bytes).contains(&data.len()))
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        let mut field = [0; 4];
        field.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(field))
    }
}

fn ended() -> Fault {
    Fault::compression("expected the rest of an lz4 frame, found the end")
}

#[cfg(test)]
mod tests {
    use super::super::repeats::tests::{Noise, records};
    use super::super::samples::Random;
    use super::super::{Codec, Compressor};
    use super::*;

    const LIMIT: usize = 1 << 20;

    fn decompressed(frame: &[u8], read: impl Fn(&[u8], &mut Scratch) -> Result<(), Fault>) -> Result<Vec<u8>, String> {
        let mut out = Scratch::default();
        out.begin(LIMIT);
        read(frame, &mut out).map_err(|fault| format!("{fault:?}"))?;
        Ok(out.memory[..out.filled].to_vec())
    }

    /// Reads the blocks of a frame without checksums by liblz4.
    fn by_liblz4(frame: &[u8], out: &mut Scratch) -> Result<(), Fault> {
        let mut rest = Input(&frame[7..]);
        loop {
            let length = rest.u32()?;
            match rest.take((length & !STORED) as usize)? {
                [] => return Ok(()),
                data if length & STORED != 0 => stored(data, out)?,
                data => block(data, WINDOW, 0, out)?,
            }
        }
    }

    #[test]
    fn blocks_read_two_at_once_are_as_liblz4_reads_them() {
        let content = records(&mut Noise(8), 300_000);
        let mut frame = Vec::new();
        Compressor::default().compress(Codec::Lz4, 2, &content, &mut frame);
        let first = &frame[11..][..u32::from_le_bytes([frame[7], frame[8], frame[9], frame[10]]) as usize];
        assert!(lz4_block::is_regular(first));
        assert_eq!(decompressed(&frame, |frame, out| decompress(frame, 2, out)).as_ref(), Ok(&content));

        let mut random = Random(9);
        let mut read = 0;
        for _ in 0..100 {
            let mut damaged = frame.clone();
            for _ in 0..1 + random.below(2) {
                let at = 7 + random.below(frame.len() - 7 - 4);
                damaged[at] ^= 1 << random.below(8);
            }
            let expected = decompressed(&damaged, by_liblz4);
            read += usize::from(expected.is_ok());
            // With a wrong length, the rest may look like the beginning of another frame.
            if expected != Err(format!("{:?}", ended())) {
                assert_eq!(decompressed(&damaged, |frame, out| decompress(frame, 2, out)), expected);
            }
        }
        assert!(read > 20, "{read}");
    }
}
