//! Write LZ4 blocks.

use super::repeats::{Format, SLACK, Sequence};
use crate::copy;

/// A length that does not fit in its four bits of the token.
const LONG: usize = 15;
const SHORTEST_MATCH: usize = 4;

pub struct Lz4;

// SAFETY: a token and an offset take no more bytes than the shortest match that they encode, and a length takes one byte for
// 255. LZ4_compressBound counts the last token and the lengths. Copies write at most SLACK bytes too many.
unsafe impl Format for Lz4 {
    /// LZ4_compressBound
    fn most_bytes(block_bytes: usize) -> usize {
        block_bytes + block_bytes / 255 + 16
    }

    #[inline(always)]
    unsafe fn begin(_: &[u8], to: *mut u8) -> *mut u8 {
        to
    }

    #[inline(always)]
    unsafe fn sequence(block: &[u8], sequence: Sequence, to: *mut u8) -> *mut u8 {
        let Sequence { literals, start, distance, bytes } = sequence;
        let more = bytes - SHORTEST_MATCH;
        // SAFETY: the caller's promise. A sequence takes no more bytes than it encodes, except those of its lengths, which
        // most_bytes counts.
        unsafe {
            let to = put_literals(block, literals, start, more.min(LONG) as u8, to);
            to.cast::<[u8; 2]>().write((distance as u16).to_le_bytes());
            put_length(more, to.add(2))
        }
    }

    #[inline(always)]
    unsafe fn end(block: &[u8], literals: usize, to: *mut u8) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { put_literals(block, literals, block.len(), 0, to) }
    }
}

/// Writes a token, whose lower half is given, and literals.
///
/// # Safety
/// There is room for them and SLACK bytes.
#[inline(always)]
unsafe fn put_literals(block: &[u8], from: usize, to: usize, token: u8, out: *mut u8) -> *mut u8 {
    let bytes = to - from;
    // SAFETY: the caller's promise.
    unsafe {
        out.write((bytes.min(LONG) << 4) as u8 | token);
        put_bytes(block, from, bytes, put_length(bytes, out.add(1)))
    }
}

/// Copies bytes of the block.
///
/// # Safety
/// They are within it. There is room for them and SLACK bytes.
#[inline(always)]
pub unsafe fn put_bytes(block: &[u8], from: usize, bytes: usize, out: *mut u8) -> *mut u8 {
    debug_assert!(from + bytes <= block.len());
    // SAFETY: the caller's promise; what is read is within the block.
    unsafe {
        let start = block.as_ptr().add(from);
        if bytes <= SLACK && from + SLACK <= block.len() {
            copy::copy32(start, out);
        } else {
            start.copy_to_nonoverlapping(out, bytes);
        }
        out.add(bytes)
    }
}

/// Writes the part of a length that is not in the token.
///
/// # Safety
/// There is room for `length` / 255 + 1 bytes.
#[inline(always)]
unsafe fn put_length(length: usize, out: *mut u8) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        if length >= LONG + 255 {
            return put_long_length(length - LONG, out);
        }
        out.write(length.wrapping_sub(LONG) as u8);
        out.add(usize::from(length >= LONG))
    }
}

/// # Safety
/// There is room for `rest` / 255 + 1 bytes.
#[cold]
unsafe fn put_long_length(mut rest: usize, mut out: *mut u8) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        while rest >= 255 {
            out.write(255);
            (out, rest) = (out.add(1), rest - 255);
        }
        out.write(rest as u8);
        out.add(1)
    }
}

#[cfg(test)]
mod tests {
    use std::os::raw::c_int;

    use super::super::lz4_block::tests::decompress;
    use super::super::repeats::{Finder, compress, tests::blocks};
    use super::*;

    #[test]
    fn liblz4_and_our_reader_read_it() {
        let mut finder = Finder::default();
        for block in blocks() {
            let mut out = b"before".to_vec();
            compress::<Lz4>(&mut finder, block[..].into(), &mut out);
            let compressed = &out[6..];
            assert!(compressed.len() <= Lz4::most_bytes(block.len()));
            let mut again = vec![1; block.len() + 1];
            // SAFETY: both ranges are valid for their lengths and do not overlap.
            let read = unsafe {
                let (from, to) = (compressed.as_ptr().cast(), again.as_mut_ptr().cast());
                lz4_sys::LZ4_decompress_safe(from, to, compressed.len() as c_int, again.len() as c_int)
            };
            assert_eq!((read, &again[..block.len()]), (block.len() as c_int, &block[..]));
            let mut again = vec![1; block.len()];
            let bytes = again.len();
            if let Some(end) = decompress(compressed, &mut again, 0, 0, bytes) {
                assert_eq!((end, &again), (bytes, &block));
            }
        }
    }
}
