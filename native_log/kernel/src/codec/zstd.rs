//! zstd: any number of frames, with or without content size.

use zstd_safe::zstd_sys::ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall;
use zstd_safe::{DCtx, get_error_name};

use super::Scratch;
use crate::damage::Fault;

/// A zstd context, made when first used.
#[derive(Default)]
pub struct Zstd(Option<DCtx<'static>>);

impl Zstd {
    pub fn decompress(&mut self, input: &[u8], out: &mut Scratch) -> Result<(), Fault> {
        let context = self.0.get_or_insert_with(DCtx::create);
        out.reserve(input.len().saturating_mul(4))?;
        loop {
            match context.decompress(out.room(), input) {
                Ok(written) => {
                    out.filled += written;
                    return Ok(());
                }
                Err(code) if is_too_small(code) => out.grow()?,
                Err(code) => {
                    let message = format!("the zstd stream is damaged: {}", get_error_name(code));
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
