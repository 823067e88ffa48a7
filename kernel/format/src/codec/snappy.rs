//! Snappy in the frames of xerial's SnappyOutputStream, and raw blocks, which other clients wrote instead.

use snap::raw::{Decoder, decompress_len};

use super::scratch::Scratch;
use super::snappy_block;
use crate::big_endian::i32_at;
use crate::damage::Fault;

const HEADER: usize = 16;
const MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
/// The first bytes of MAGIC in place of a block length: another stream follows (SnappyInputStream.hasNextChunk).
const MAGIC_HEAD: i32 = i32::from_be_bytes([0x82, b'S', b'N', b'A']);
/// No element is denser than a copy: 3 bytes for 64.
const MAX_RATIO: usize = 22;

pub fn decompress(decoder: &mut Decoder, input: &[u8], out: &mut Scratch) -> Result<(), Fault> {
    if input.len() < HEADER || !input.starts_with(MAGIC) {
        return block(decoder, input, out);
    }
    check_version(input)?;
    let mut rest = &input[HEADER..];
    while rest.len() >= 4 {
        let length = i32_at(rest, 0);
        if length == MAGIC_HEAD {
            if rest.len() < HEADER || !rest.starts_with(MAGIC) {
                return Err(Fault::compression("expected the header of a snappy stream, found other bytes"));
            }
            check_version(rest)?;
            rest = &rest[HEADER..];
            continue;
        }
        if let Some(bytes) = two_blocks(rest, out) {
            rest = &rest[bytes..];
            continue;
        }
        let body = usize::try_from(length).ok().and_then(|length| rest[4..].get(..length)).ok_or_else(|| {
            Fault::compression(format!("expected a snappy block of {length} bytes, found {}", rest.len() - 4))
        })?;
        block(decoder, body, out)?;
        rest = &rest[4 + body.len()..];
    }
    Ok(()) // SnappyInputStream ignores up to three bytes at the end, too
}

fn check_version(header: &[u8]) -> Result<(), Fault> {
    match i32_at(header, 8) {
        version if version < 1 => {
            Err(Fault::compression(format!("expected a snappy stream of version 1 or later, found version {version}")))
        }
        _ => Ok(()),
    }
}

/// Decompresses the next two blocks at once, if there are two valid ones. Returns their size with their lengths.
fn two_blocks(input: &[u8], out: &mut Scratch) -> Option<usize> {
    let (first, first_length) = next_block(input)?;
    let (second, second_length) = next_block(&input[4 + first.len()..])?;
    if snappy_block::has_long_literals(elements(first)) {
        return None;
    }
    let length = first_length + second_length;
    out.reserve(length).ok()?;
    let (first_room, second_room) = out.room().get_mut(..length)?.split_at_mut(first_length);
    snappy_block::decompress_two([elements(first), elements(second)], [first_room, second_room])?;
    out.filled += length;
    Some(8 + first.len() + second.len())
}

/// The next block, and the length of its content that it claims, if that is possible.
fn next_block(input: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = input.split_first_chunk()?;
    let block = rest.get(..usize::try_from(i32::from_be_bytes(*length)).ok()?)?;
    let length = decompress_len(block).ok()?;
    (1..=block.len().saturating_mul(MAX_RATIO)).contains(&length).then_some((block, length))
}

/// The bytes of a block after the length with which it begins.
fn elements(block: &[u8]) -> &[u8] {
    let length_bytes = block.iter().position(|&byte| byte < 0x80).map_or(block.len(), |last| last + 1);
    &block[length_bytes..]
}

fn block(decoder: &mut Decoder, input: &[u8], out: &mut Scratch) -> Result<(), Fault> {
    let damaged =
        |error: snap::Error| Fault::compression(format!("expected a valid snappy block, found damage: {error}"));
    if input.is_empty() {
        return Err(Fault::compression("expected a snappy block, found no bytes"));
    }
    let length = decompress_len(input).map_err(damaged)?;
    if length > input.len().saturating_mul(MAX_RATIO) {
        let bytes = input.len();
        let most = bytes.saturating_mul(MAX_RATIO);
        let message = format!("expected at most {most} bytes in a snappy block of {bytes}, found {length}");
        return Err(Fault::compression(message));
    }
    if length > out.limit - out.filled {
        let total = out.filled + length;
        return Err(Fault::too_large(format_args!("one that decompresses to {total}"), out.limit));
    }
    if length == 0 {
        return decoder.decompress(input, &mut []).map(drop).map_err(damaged);
    }
    out.reserve(length)?;
    if !snappy_block::has_long_literals(elements(input))
        && snappy_block::decompress(elements(input), &mut out.room()[..length]).is_some()
    {
        out.filled += length;
        return Ok(());
    }
    out.filled += decoder.decompress(input, &mut out.room()[..length]).map_err(damaged)?;
    Ok(())
}
