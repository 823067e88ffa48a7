//! gzip (RFC 1952): one or more members, which only zeros may follow.

use std::ptr::NonNull;

use libdeflate_sys as sys;

use super::scratch::Scratch;
use crate::damage::Fault;

/// A libdeflate decompressor, created when first used.
#[derive(Default)]
pub struct Gzip(Option<NonNull<sys::libdeflate_decompressor>>);

// SAFETY: the decompressor is plain memory that only its owner touches.
unsafe impl Send for Gzip {}

impl Gzip {
    pub fn decompress(&mut self, input: &[u8], out: &mut Scratch) -> Result<(), Fault> {
        let mut rest = input;
        loop {
            rest = &rest[self.member(rest, out)?..];
            // java.util.zip.GZIPInputStream ignores anything after the last member. Zeros are harmless padding; no
            // producer wrote anything else.
            if rest.iter().all(|&byte| byte == 0) {
                return Ok(());
            }
        }
    }

    /// Decompresses the member that `input` begins with, and returns its length.
    fn member(&mut self, input: &[u8], out: &mut Scratch) -> Result<usize, Fault> {
        let context = self.context()?;
        out.reserve(input.len().saturating_mul(4))?;
        loop {
            let room = out.room();
            let (mut read, mut written) = (0, 0);
            // SAFETY: both ranges are valid for their lengths and do not overlap; the context is ours alone.
            let result = unsafe {
                sys::libdeflate_gzip_decompress_ex(
                    context.as_ptr(),
                    input.as_ptr().cast(),
                    input.len(),
                    room.as_mut_ptr().cast(),
                    room.len(),
                    &mut read,
                    &mut written,
                )
            };
            match result {
                sys::libdeflate_result_LIBDEFLATE_SUCCESS if read > 0 => {
                    out.filled += written;
                    return Ok(read.min(input.len()));
                }
                sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => out.grow()?,
                _ => return Err(Fault::compression("expected a valid gzip stream, found a damaged one")),
            }
        }
    }

    fn context(&mut self) -> Result<NonNull<sys::libdeflate_decompressor>, Fault> {
        if self.0.is_none() {
            // SAFETY: no precondition; null when memory is short.
            self.0 = NonNull::new(unsafe { sys::libdeflate_alloc_decompressor() });
        }
        self.0.ok_or_else(|| Fault::compression("expected memory for a gzip decompressor, found none"))
    }
}

impl Drop for Gzip {
    fn drop(&mut self) {
        if let Some(context) = self.0 {
            // SAFETY: allocated by libdeflate, freed once.
            unsafe { sys::libdeflate_free_decompressor(context.as_ptr()) }
        }
    }
}
