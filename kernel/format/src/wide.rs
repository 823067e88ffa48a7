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

/// Longer copies are left to memcpy.
const SHORT_COPY: usize = 512;
/// How many bytes `copy` may read and write behind what it copies.
pub const COPY_SLACK: usize = 32;

/// Copies `bytes` bytes and up to COPY_SLACK more.
///
/// # Safety
/// So much is readable and writable, and does not overlap.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if bytes > SHORT_COPY {
            from.copy_to_nonoverlapping(to, bytes);
            return;
        }
        let mut done = 0;
        loop {
            // Two registers of 16 bytes. (The compiler makes a call of memcpy out of a loop over arrays.)
            let first = from.add(done).cast::<Register>().read_unaligned();
            let second = from.add(done + 16).cast::<Register>().read_unaligned();
            to.add(done).cast::<Register>().write_unaligned(first);
            to.add(done + 16).cast::<Register>().write_unaligned(second);
            done += 32;
            if done >= bytes {
                return;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
type Register = std::arch::x86_64::__m128i;
#[cfg(not(target_arch = "x86_64"))]
type Register = u128;

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
