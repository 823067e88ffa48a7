//! The reader of snappy blocks agrees with the snap crate.

use kafka_log_format::codec::{Codec, Decompressor, SLACK, snappy_block};
use snap::raw::{Decoder, decompress_len};

/// Blocks that claim to hold more are left out: snap would take as much memory.
const MOST_BYTES: usize = 1 << 20;

pub fn run(data: &[u8]) {
    let Some((&[cut, ..], block)) = data.split_first_chunk::<4>() else { return };
    let half = &block[block.len().min(usize::from(cut))..];
    let (Some(one), Some(two)) = (one_block(block), one_block(half)) else { return };
    for (blocks, expected) in [([block, half], [&one, &two]), ([half, block], [&two, &one])] {
        two_blocks(blocks, expected);
    }
}

/// The result of snap for a block, which is also that of the kernel. The outer None: the block is left out.
fn one_block(block: &[u8]) -> Option<Option<Vec<u8>>> {
    let bytes = decompress_len(block).unwrap_or(0);
    if bytes > MOST_BYTES {
        return None;
    }
    let expected = Decoder::new().decompress_vec(block).ok();
    snappy_block::has_long_literals(elements(block));
    // Exactly the bytes that the reader may access, so that AddressSanitizer detects other accesses.
    let mut memory = vec![0xee; bytes];
    if bytes > 0 && snappy_block::decompress(elements(block), &mut memory).is_some() {
        assert_eq!(Some(&memory), expected.as_ref());
    }
    // A stream that begins with xerial's magic is not a bare block.
    if !block.starts_with(b"\x82SNAPPY\0") {
        let expected = expected.as_deref().filter(|_| !block.is_empty());
        assert_eq!(decompress(block).as_deref(), expected);
    }
    Some(expected)
}

/// Decompresses both together, and as blocks of a stream.
fn two_blocks(blocks: [&[u8]; 2], expected: [&Option<Vec<u8>>; 2]) {
    if blocks.iter().any(|block| block.is_empty()) {
        return;
    }
    let [mut one, mut two] = blocks.map(|block| vec![0xee; decompress_len(block).unwrap_or(0)]);
    let rest = blocks.map(elements);
    if !one.is_empty() && !two.is_empty() && snappy_block::decompress_two(rest, [&mut one, &mut two]).is_some() {
        assert_eq!([Some(one), Some(two)].each_ref(), expected);
    }
    let mut stream = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for block in blocks {
        stream.extend((block.len() as u32).to_be_bytes());
        stream.extend(block);
    }
    let both = expected[0].as_ref().zip(expected[1].as_ref()).map(|(one, two)| [&one[..], two].concat());
    assert_eq!(decompress(&stream), both);
}

fn decompress(stream: &[u8]) -> Option<Vec<u8>> {
    let mut decompressor = Decompressor::default();
    let out = decompressor.decompress(Codec::Snappy, 2, stream, 2 * MOST_BYTES).ok()?;
    Some(out[..out.len() - SLACK].to_vec())
}

/// The bytes of a block after its length.
fn elements(block: &[u8]) -> &[u8] {
    let length_bytes = block.iter().position(|&byte| byte < 0x80).map_or(block.len(), |last| last + 1);
    &block[length_bytes..]
}
