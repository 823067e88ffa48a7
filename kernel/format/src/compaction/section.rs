//! The decompressed records of a batch.

use crate::codec::{Codec, Decompressor, SLACK};
use crate::damage::Fault;
use crate::header::{LegacyHeader, V2_HEADER, V2Header};
use crate::legacy;

/// The records of a v2 batch, decompressed.
pub fn records_section<'a>(
    header: &V2Header,
    batch: &'a [u8],
    decompressor: &'a mut Decompressor,
    max_batch_bytes: usize,
) -> Result<&'a [u8], Fault> {
    let stored = &batch[V2_HEADER..];
    if header.codec() == Codec::None {
        return Ok(stored);
    }
    let readable = decompressor.decompress(header.codec(), 2, stored, max_batch_bytes.min(MAX_SECTION))?;
    Ok(&readable[..readable.len() - SLACK])
}

/// The messages in a wrapper, decompressed.
pub fn wrapper_content<'a>(
    header: &LegacyHeader,
    message: &'a [u8],
    decompressor: &'a mut Decompressor,
    max_batch_bytes: usize,
) -> Result<&'a [u8], Fault> {
    let stored = legacy::wrapped(header, message)?;
    let limit = max_batch_bytes.min(MAX_SECTION);
    let readable = decompressor.decompress(header.codec(), header.magic, stored, limit)?;
    Ok(&readable[..readable.len() - SLACK])
}

/// Indexes in a section have 32 bits.
const MAX_SECTION: usize = i32::MAX as usize;
