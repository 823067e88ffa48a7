//! The reader of LZ4 blocks agrees with liblz4.

use std::os::raw::{c_char, c_int};

use kafka_log_format::codec::{Codec, Decompressor, SLACK, lz4_block};

unsafe extern "C" {
    /// lz4-sys builds it and does not declare it.
    fn LZ4_decompress_safe_usingDict(
        source: *const c_char,
        dest: *mut c_char,
        source_bytes: c_int,
        capacity: c_int,
        history: *const c_char,
        history_bytes: c_int,
    ) -> c_int;
}

/// The most bytes in a block of the frame below.
const FRAME_BLOCK: usize = 64 << 10;

pub fn run(data: &[u8]) {
    let Some((&[from, history, capacity_high, capacity_low], block)) = data.split_first_chunk() else { return };
    // The kernel never reads 0 bytes; for those, liblz4 accepts only one block.
    let capacity = usize::from(u16::from_be_bytes([capacity_high, capacity_low])).max(1);
    let from = 4 * usize::from(from);
    let history = from.min(4 * usize::from(history));
    let one = one_block(block, history, from, capacity);
    // Together with halves of itself, whose references and ends differ.
    let half = &block[block.len() / 2..];
    lz4_block::is_regular(block);
    two_blocks([block, half], from, [one.map_or(capacity, |bytes| bytes.max(1)), capacity]);
    two_blocks([half, block], from, [capacity, capacity]);
    frame(block);
}

/// How many bytes a block decompresses to after `from` bytes. It may refer to the last `history` of them.
fn one_block(block: &[u8], history: usize, from: usize, capacity: usize) -> Option<usize> {
    let before: Vec<u8> = (0..from).map(|index| index as u8).collect();
    let expected = by_liblz4(block, &before[from - history..], capacity);
    // Exactly the bytes that the reader may access, so that AddressSanitizer detects other accesses.
    let mut memory = before.clone();
    memory.resize(from + capacity + 1, 0xee);
    // Together with a block of one byte, it is read alone.
    let blocks = [block, &[0x10, 7]];
    let end = lz4_block::decompress_two(blocks, &mut memory, from - history, from, [capacity, 1])[0]?;
    assert_eq!(Some(&memory[from..end]), expected.as_deref());
    assert_eq!(memory[..from], before);
    Some(end - from)
}

fn two_blocks(blocks: [&[u8]; 2], from: usize, capacities: [usize; 2]) {
    let mut memory = vec![0xee; from + capacities[0] + capacities[1]];
    let ends = lz4_block::decompress_two(blocks, &mut memory, from, from, capacities);
    for (index, begins) in [from, from + capacities[0]].into_iter().enumerate() {
        if let Some(end) = ends[index] {
            assert_eq!(Some(&memory[begins..end]), by_liblz4(blocks[index], &[], capacities[index]).as_deref());
        }
    }
}

/// A frame of this block is read if, and only if, liblz4 reads the block.
fn frame(block: &[u8]) {
    if block.is_empty() || block.len() > FRAME_BLOCK {
        return;
    }
    let mut frame = vec![0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
    frame.extend((block.len() as u32).to_le_bytes());
    frame.extend(block);
    frame.extend([0; 4]);
    let mut decompressor = Decompressor::default();
    let found = decompressor.decompress(Codec::Lz4, 2, &frame, FRAME_BLOCK).ok();
    assert_eq!(found.map(|out| &out[..out.len() - SLACK]), by_liblz4(block, &[], FRAME_BLOCK).as_deref());
}

fn by_liblz4(block: &[u8], history: &[u8], capacity: usize) -> Option<Vec<u8>> {
    // The history lies right before the room, as it does in the kernel.
    let mut memory = history.to_vec();
    memory.resize(history.len() + capacity, 0);
    let start = memory.as_mut_ptr().cast::<c_char>();
    // SAFETY: the block, the history, and the room after it have the sizes given, which fit in a c_int.
    let written = unsafe {
        LZ4_decompress_safe_usingDict(
            block.as_ptr().cast(),
            start.add(history.len()),
            block.len() as c_int,
            capacity as c_int,
            start,
            history.len() as c_int,
        )
    };
    let written = usize::try_from(written).ok()?;
    Some(memory[history.len()..][..written].to_vec())
}
