//! Copies of whole registers, for lengths that are short and not known beforehand: what is copied too much costs less
//! than a call, or a branch that is predicted wrongly.

/// # Safety
/// 16 bytes are readable, and writable; they may overlap.
#[inline(always)]
pub unsafe fn copy16(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { to.cast::<[u8; 16]>().write_unaligned(from.cast::<[u8; 16]>().read_unaligned()) }
}

/// # Safety
/// 32 bytes are readable, and writable; they may overlap.
#[inline(always)]
pub unsafe fn copy32(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { to.cast::<[u8; 32]>().write_unaligned(from.cast::<[u8; 32]>().read_unaligned()) }
}

/// Writes `bytes` bytes at `at`, each a copy of the one `offset` before it.
#[inline]
pub fn repeat(memory: &mut [u8], at: usize, offset: usize, bytes: usize) {
    let (mut done, source) = (0, at - offset);
    while done < bytes {
        // What is there is a period, or several.
        let next = (offset + done).min(bytes - done);
        memory.copy_within(source..source + next, at + done);
        done += next;
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2")
}
