//! The writer of snappy's raw format, for blocks of records.

use super::lz4_write::put_bytes;
use super::repeats::{Finder, Sequence, Shape};

/// Written behind the end by a copy, at most.
const SLACK: usize = 32;
/// A copy has no more bytes, and no fewer.
const LONGEST_COPY: usize = 64;
const SHORTEST_COPY: usize = 4;

/// No block comes to more (snappy: MaxCompressedLength).
fn most_bytes(block_bytes: usize) -> usize {
    32 + block_bytes + block_bytes / 6
}

/// Appends a block of at most 64 KiB, compressed.
pub fn compress(finder: &mut Finder, block: &[u8], out: &mut Vec<u8>) -> Shape {
    out.reserve(most_bytes(block.len()) + SLACK);
    let mut length = block.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    // SAFETY: the block comes to most_bytes at most, and so much and SLACK are reserved.
    unsafe {
        let mut to = out.as_mut_ptr().add(out.len());
        let shape = finder.sequences(block, |Sequence { literals, start, distance, bytes }| {
            to = put_copies(distance, bytes, put_literals(block, literals, start, to));
        });
        to = put_literals(block, shape.literals, block.len(), to);
        out.set_len(to.offset_from_unsigned(out.as_ptr()));
        shape
    }
}

/// # Safety
/// There is room for the literals, three bytes more, and SLACK bytes.
#[inline(always)]
unsafe fn put_literals(block: &[u8], from: usize, to: usize, out: *mut u8) -> *mut u8 {
    let bytes = to - from;
    if bytes == 0 {
        return out;
    }
    let length = bytes - 1;
    // SAFETY: the caller's promise.
    unsafe {
        let out = match length {
            ..60 => {
                out.write((length << 2) as u8);
                out.add(1)
            }
            60..256 => {
                out.cast::<[u8; 2]>().write([60 << 2, length as u8]);
                out.add(2)
            }
            _ => {
                out.cast::<[u8; 3]>().write([61 << 2, length as u8, (length >> 8) as u8]);
                out.add(3)
            }
        };
        put_bytes(block, from, bytes, out)
    }
}

/// # Safety
/// There is room for three bytes for each 60 to be copied, or part of them.
#[inline(always)]
unsafe fn put_copies(distance: usize, mut bytes: usize, mut out: *mut u8) -> *mut u8 {
    let long = |bytes: usize| [((bytes - 1) << 2 | 2) as u8, distance as u8, (distance >> 8) as u8];
    // SAFETY: the caller's promise.
    unsafe {
        while bytes > LONGEST_COPY {
            // Not so much that less than the shortest copy is left.
            let part = if bytes >= LONGEST_COPY + SHORTEST_COPY { LONGEST_COPY } else { LONGEST_COPY - SHORTEST_COPY };
            out.cast::<[u8; 3]>().write(long(part));
            (out, bytes) = (out.add(3), bytes - part);
        }
        // Three bytes, or two where these suffice.
        let short = bytes < 12 && distance < 2048;
        let tag = (distance >> 8 << 5 | bytes.wrapping_sub(4) << 2 | 1) as u8;
        out.cast::<[u8; 3]>().write(if short { [tag, distance as u8, 0] } else { long(bytes) });
        out.add(if short { 2 } else { 3 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::repeats;
    use super::*;

    #[test]
    fn snap_reads_it() {
        let mut finder = Finder::default();
        for block in repeats::tests::blocks() {
            let mut out = b"before".to_vec();
            compress(&mut finder, &block, &mut out);
            assert!(out.len() <= 6 + most_bytes(block.len()));
            assert_eq!(snap::raw::Decoder::new().decompress_vec(&out[6..]).unwrap(), block);
        }
    }
}
