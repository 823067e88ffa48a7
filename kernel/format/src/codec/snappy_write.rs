//! Write blocks of snappy's raw format.

use super::lz4_write::put_bytes;
use super::repeats::{Format, Sequence};

/// The longest and the shortest copy.
const LONGEST_COPY: usize = 64;
const SHORTEST_COPY: usize = 4;

pub struct Snappy;

// SAFETY: the length at the beginning takes at most three bytes. A sequence takes at most two bytes more than it encodes, and
// only if it encodes 260 or more. Copies write at most SLACK bytes too many.
unsafe impl Format for Snappy {
    /// snappy's MaxCompressedLength
    fn most_bytes(block_bytes: usize) -> usize {
        32 + block_bytes + block_bytes / 6
    }

    #[inline(always)]
    unsafe fn begin(block: &[u8], mut to: *mut u8) -> *mut u8 {
        let mut length = block.len();
        // SAFETY: the caller's promise; these are a few bytes.
        unsafe {
            while length >= 0x80 {
                to.write(length as u8 | 0x80);
                (to, length) = (to.add(1), length >> 7);
            }
            to.write(length as u8);
            to.add(1)
        }
    }

    #[inline(always)]
    unsafe fn sequence(block: &[u8], sequence: Sequence, to: *mut u8) -> *mut u8 {
        let Sequence { literals, start, distance, bytes } = sequence;
        // SAFETY: the caller's promise. A sequence takes at most two bytes more than it encodes, and only if it encodes 260
        // or more.
        unsafe { put_copies(distance, bytes, put_literals(block, literals, start, to)) }
    }

    #[inline(always)]
    unsafe fn end(block: &[u8], literals: usize, to: *mut u8) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { put_literals(block, literals, block.len(), to) }
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
/// There is room for three bytes for every 60 bytes to be copied, rounded up.
#[inline(always)]
unsafe fn put_copies(distance: usize, mut bytes: usize, mut out: *mut u8) -> *mut u8 {
    let long = |bytes: usize| [((bytes - 1) << 2 | 2) as u8, distance as u8, (distance >> 8) as u8];
    // SAFETY: the caller's promise.
    unsafe {
        while bytes > LONGEST_COPY {
            // At least the shortest copy must be left.
            let part = if bytes >= LONGEST_COPY + SHORTEST_COPY { LONGEST_COPY } else { LONGEST_COPY - SHORTEST_COPY };
            out.cast::<[u8; 3]>().write(long(part));
            (out, bytes) = (out.add(3), bytes - part);
        }
        // Three bytes, or two if two are enough.
        let short = bytes < 12 && distance < 2048;
        let tag = (distance >> 8 << 5 | bytes.wrapping_sub(4) << 2 | 1) as u8;
        out.cast::<[u8; 3]>().write(if short { [tag, distance as u8, 0] } else { long(bytes) });
        out.add(if short { 2 } else { 3 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::repeats::{Finder, compress, tests::blocks};
    use super::*;

    #[test]
    fn snap_reads_it() {
        let mut finder = Finder::default();
        for block in blocks() {
            let mut out = b"before".to_vec();
            compress::<Snappy>(&mut finder, block[..].into(), &mut out);
            assert!(out.len() <= 6 + Snappy::most_bytes(block.len()));
            assert_eq!(snap::raw::Decoder::new().decompress_vec(&out[6..]).unwrap(), block);
        }
    }
}
