//! Hints to the operating system and the processor about the use of memory.

/// Size of the large pages of most processors. An allocation with this alignment begins at the start of a page.
pub const LARGE_PAGE: usize = 2 << 20;

/// Asks the system for large pages within an allocation. The processor caches the addresses of a limited number of pages,
/// so random access to large pages seldom waits for an address translation.
pub fn advise_large_pages<T>(start: *const T, count: usize) {
    #[cfg(target_os = "linux")]
    {
        let (start, bytes) = (start as usize, count * size_of::<T>());
        let first = start.next_multiple_of(LARGE_PAGE);
        let bytes = (start + bytes).saturating_sub(first) / LARGE_PAGE * LARGE_PAGE;
        if bytes > 0 {
            // SAFETY: the advice is about whole pages within the caller's allocation. It changes no content. If it fails, the
            // pages stay small.
            unsafe { libc::madvise(first as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, count);
}

/// Prefetches the memory at an address into the cache. Any address is allowed.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint, which never faults and changes nothing.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
