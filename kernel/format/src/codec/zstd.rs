//! zstd (RFC 8878): any number of frames, with or without a content size.

use zstd_safe::zstd_sys::ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall;
use zstd_safe::{DCtx, get_error_name};

use super::scratch::Scratch;
use crate::damage::Fault;

const MAGIC: u32 = 0xfd2f_b528;
/// The magic of frames that readers skip, without its lowest four bits.
const SKIPPABLE: u32 = 0x184d_2a50;
const MAX_BLOCK: usize = 128 << 10;
/// The limit of zstd and of zstd-jni: frames that refer further back are rejected.
const MAX_WINDOW: u64 = 1 << 27;

/// A zstd context, created when first used.
#[derive(Default)]
pub struct Zstd(Option<DCtx<'static>>);

impl Zstd {
    pub fn decompress(&mut self, input: &[u8], out: &mut Scratch) -> Result<(), Fault> {
        let most = most_content(input)?;
        let context = self.0.get_or_insert_with(DCtx::create);
        out.reserve(most.min(input.len().saturating_mul(4)))?;
        loop {
            match context.decompress(out.room(), input) {
                Ok(written) => {
                    out.filled += written;
                    return Ok(());
                }
                // For some damaged frames, zstd reports this no matter how much room there is.
                Err(code) if is_too_small(code) && out.room().len() < most => out.grow()?,
                Err(code) => {
                    let message = format!("expected a valid zstd stream, found damage: {}", get_error_name(code));
                    return Err(Fault::compression(message));
                }
            }
        }
    }
}

fn is_too_small(code: usize) -> bool {
    // SAFETY: a pure function of its argument.
    unsafe { zstd_safe::zstd_sys::ZSTD_getErrorCode(code) == ZSTD_error_dstSize_tooSmall }
}

/// The largest size that the blocks in `input` can decompress to, by the headers of frames and blocks. Content sizes are
/// not trusted.
fn most_content(input: &[u8]) -> Result<usize, Fault> {
    let mut rest = Input(input);
    let mut most = 0usize;
    while !rest.0.is_empty() {
        let magic = rest.number(4)? as u32;
        if magic & !0xf == SKIPPABLE {
            let bytes = rest.number(4)?;
            rest.take(bytes as usize)?;
        } else if magic == MAGIC {
            most = most.saturating_add(frame(&mut rest)?);
        } else {
            return Err(Fault::compression(format!(
                "expected a zstd frame with magic {MAGIC:#010x}, found {magic:#010x}"
            )));
        }
    }
    Ok(most)
}

/// The largest size that the frame after this magic can decompress to.
fn frame(rest: &mut Input) -> Result<usize, Fault> {
    let descriptor = rest.take(1)?[0];
    let single_segment = descriptor & 0x20 != 0;
    if !single_segment {
        let window = rest.take(1)?[0];
        let base = 1u64 << (10 + (window >> 3));
        let bytes = base + base / 8 * u64::from(window & 7);
        if bytes > MAX_WINDOW {
            return Err(Fault::compression(format!(
                "expected a zstd frame with a window of at most {MAX_WINDOW} bytes, found {bytes}"
            )));
        }
    }
    rest.take([0, 1, 2, 4][usize::from(descriptor & 3)])?; // dictionary id
    rest.take([usize::from(single_segment), 2, 4, 8][usize::from(descriptor >> 6)])?; // content size
    let mut most = 0usize;
    loop {
        let header = rest.number(3)? as usize;
        let (is_last, kind, bytes) = (header & 1 == 1, header >> 1 & 3, header >> 3);
        let (stored, content) = match kind {
            0 => (bytes, bytes),
            1 => (1, bytes), // one repeated byte
            _ => (bytes, MAX_BLOCK),
        };
        rest.take(stored)?;
        most = most.saturating_add(content.min(MAX_BLOCK));
        if is_last {
            break;
        }
    }
    if descriptor & 4 != 0 {
        rest.take(4)?; // checksum
    }
    Ok(most)
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self
            .0
            .split_at_checked(bytes)
            .ok_or_else(|| Fault::compression("expected the rest of a zstd frame, found the end"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads a little-endian number of `bytes` bytes.
    fn number(&mut self, bytes: usize) -> Result<u64, Fault> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }
}
