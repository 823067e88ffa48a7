//! Copy short bytes by whole registers. To copy a few bytes too many costs less than a call of memcpy, or than a branch
//! that is mispredicted.

/// # Safety
/// 16 bytes at `from` are readable and 16 bytes at `to` writable. They may overlap.
#[inline(always)]
pub unsafe fn copy16(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { to.cast::<[u8; 16]>().write_unaligned(from.cast::<[u8; 16]>().read_unaligned()) }
}

/// # Safety
/// 32 bytes at `from` are readable and 32 bytes at `to` writable. They may overlap.
#[inline(always)]
pub unsafe fn copy32(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { to.cast::<[u8; 32]>().write_unaligned(from.cast::<[u8; 32]>().read_unaligned()) }
}

/// Longer bytes are copied by memcpy.
const SHORT_COPY: usize = 512;
/// How many bytes `copy_short` may read and write after those that it copies.
pub const COPY_SLACK: usize = 64;

/// Copies `bytes` bytes and up to COPY_SLACK more.
///
/// # Safety
/// `bytes` + COPY_SLACK bytes at `from` are readable and at `to` writable. They do not overlap.
#[inline(always)]
pub unsafe fn copy_short(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if bytes > SHORT_COPY {
            from.copy_to_nonoverlapping(to, bytes);
            return;
        }
        let mut done = 0;
        loop {
            let first = from.add(done).cast::<Register>().read_unaligned();
            let second = from.add(done + 32).cast::<Register>().read_unaligned();
            to.add(done).cast::<Register>().write_unaligned(first);
            to.add(done + 32).cast::<Register>().write_unaligned(second);
            done += 64;
            if done >= bytes {
                return;
            }
        }
    }
}

/// 32 bytes. On x86-64 they are one or two registers; the compiler would copy an array there to the stack first.
#[cfg(target_arch = "x86_64")]
type Register = std::arch::x86_64::__m256i;
#[cfg(not(target_arch = "x86_64"))]
type Register = [u128; 2];

/// Writes `bytes` bytes at `at`, each a copy of the byte `offset` bytes before it.
#[inline]
pub fn repeat(memory: &mut [u8], at: usize, offset: usize, bytes: usize) {
    let (mut done, source) = (0, at - offset);
    while done < bytes {
        // The bytes written so far are one or more whole periods.
        let next = (offset + done).min(bytes - done);
        memory.copy_within(source..source + next, at + done);
        done += next;
    }
}
