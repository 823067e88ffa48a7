//! What the system and the processor are told of memory.

/// The large pages of most processors; an allocation so aligned begins with one.
pub const LARGE_PAGE: usize = 2 << 20;

/// Asks for large pages within an allocation, where the system has them: the processor keeps in mind where only so many
/// pages are, and what is read or written at many places seldom waits for an address then.
pub fn advise_large_pages<T>(start: *const T, count: usize) {
    #[cfg(target_os = "linux")]
    {
        let (start, bytes) = (start as usize, count * size_of::<T>());
        let first = start.next_multiple_of(LARGE_PAGE);
        let bytes = (start + bytes).saturating_sub(first) / LARGE_PAGE * LARGE_PAGE;
        if bytes > 0 {
            // SAFETY: advice about whole pages within the caller's allocation; it changes no content, and where it fails
            // pages stay small.
            unsafe { libc::madvise(first as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, count);
}

/// Asks for the memory at an address ahead of its use; any address will do.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
