//! Asking for memory before it is used, so that it comes out of slow memory while something else is worked on.
//!
//! A third of the time that it takes to read records that are not compressed went into waiting for the page cache. So the
//! part of a file that is read next is mapped, but never looked at there: the processor is asked to fetch it, which is
//! a hint that does nothing where there is no page (any more), while looking would end the process if the file was
//! truncated meanwhile. The read then copies what is in the processor's cache.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

use crate::memory::prefetch;

const CACHE_LINE: usize = 64;

/// Memory that is soon needed: addresses, behind which there need not be anything.
#[derive(Clone, Copy)]
pub struct Ahead {
    start: *const u8,
    bytes: usize,
}

impl Ahead {
    /// Of `bytes`, at most `most` from `from` on.
    pub fn of(bytes: &[u8], from: usize, most: usize) -> Self {
        Ahead { start: bytes.as_ptr(), bytes: bytes.len() }.part(from, most)
    }

    /// At most `most` bytes from `from` on.
    pub fn part(self, from: usize, most: usize) -> Self {
        let from = from.min(self.bytes);
        Ahead { start: self.start.wrapping_add(from), bytes: most.min(self.bytes - from) }
    }

    /// All of it, bit by bit while `bytes` bytes are used.
    pub fn while_using(self, bytes: usize) -> Fetch {
        Fetch { ahead: self, fetched: 0, rate: ((self.bytes as u64) << RATE_BITS) / bytes.max(1) as u64 }
    }
}

const RATE_BITS: u32 = 16;

#[derive(Clone, Copy)]
pub struct Fetch {
    ahead: Ahead,
    /// Of its bytes.
    fetched: usize,
    /// How many of them for each that is used, times 2^16.
    rate: u64,
}

impl Fetch {
    /// So many bytes are used by now.
    #[inline(always)]
    pub fn used(&mut self, bytes: usize) {
        let wanted = ((bytes as u64 * self.rate) >> RATE_BITS) as usize;
        while self.fetched < wanted {
            prefetch(self.ahead.start.wrapping_add(self.fetched));
            self.fetched += CACHE_LINE;
        }
    }
}

/// What comes next of a file.
#[derive(Default)]
pub struct Coming {
    mapped: Option<Mapped>,
    /// Up to where it was looked whether it can be mapped.
    known_to: u64,
}

impl Coming {
    /// The `bytes` bytes from `position` on, positions only ever rising; not behind `end`. None: it cannot be asked for.
    pub fn of(&mut self, file: &File, position: u64, end: u64, bytes: usize) -> Option<Ahead> {
        let until = end.min(position + bytes as u64);
        if until > self.known_to && position < end {
            self.known_to = end.min(position + WINDOW);
            self.mapped = None; // the old one goes first
            self.mapped = Mapped::of(file, position, self.known_to);
        }
        self.mapped.as_ref().map(|mapped| mapped.at(position, bytes))
    }
}

/// So much of a file is mapped at a time.
const WINDOW: u64 = 4 << 20;

/// Part of a file, where it is in the page cache. (What is not in it is left to the system, which reads ahead itself.)
struct Mapped {
    start: *mut libc::c_void,
    bytes: usize,
    position: u64,
}

impl Mapped {
    fn of(file: &File, position: u64, end: u64) -> Option<Self> {
        // Mappings begin at pages, of which these are the largest that systems have.
        const PAGE: u64 = 64 << 10;
        let from = position / PAGE * PAGE;
        let bytes = usize::try_from(end.checked_sub(from)?).ok()?;
        if !is_cached(file, end.checked_sub(1)?) {
            return None;
        }
        // SAFETY: a new mapping, of which only addresses are made use of.
        unsafe {
            let (protection, offset) = (libc::PROT_READ, from as libc::off_t);
            let start = libc::mmap(null_mut(), bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), offset);
            if start == libc::MAP_FAILED {
                return None;
            }
            let mapped = Mapped { start, bytes, position: from };
            fault_in(start, bytes).then_some(mapped)
        }
    }

    /// At most `most` bytes from `position` on, as far as they are mapped.
    fn at(&self, position: u64, most: usize) -> Ahead {
        let from = usize::try_from(position.saturating_sub(self.position)).unwrap_or(usize::MAX);
        Ahead { start: self.start.cast_const().cast(), bytes: self.bytes }.part(from, most)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`, and unmapped once.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

/// Whether a byte of a file can be read without waiting for a disk.
#[cfg(target_os = "linux")]
fn is_cached(file: &File, position: u64) -> bool {
    let mut byte = 0u8;
    let to = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: one byte is written, to where there is one.
    unsafe { libc::preadv2(file.as_raw_fd(), &to, 1, position as libc::off_t, libc::RWF_NOWAIT) == 1 }
}

/// Other systems have no such call.
#[cfg(not(target_os = "linux"))]
fn is_cached(_: &File, _: u64) -> bool {
    false
}

/// Gives the pages of a mapping their addresses; false where the system cannot, or the file was truncated.
///
/// # Safety
/// It is a mapping of so many bytes.
#[cfg(target_os = "linux")]
unsafe fn fault_in(start: *mut libc::c_void, bytes: usize) -> bool {
    // SAFETY: the caller's promise; no content changes.
    unsafe { libc::madvise(start, bytes, libc::MADV_POPULATE_READ) == 0 }
}

#[cfg(not(target_os = "linux"))]
unsafe fn fault_in(_: *mut libc::c_void, _: usize) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Write;

    use super::*;

    /// A file of so many bytes, without a name.
    fn file_of(bytes: usize) -> File {
        let path = std::env::temp_dir().join(format!("kafkalog-ahead-{}-{bytes}", std::process::id()));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(&vec![7; bytes]).unwrap();
        file
    }

    #[test]
    fn what_comes_is_what_is_there() {
        let bytes = 9 << 20;
        let (file, mut coming) = (file_of(bytes), Coming::default());
        let end = bytes as u64;
        for position in (5..end).step_by(300_000) {
            let ahead = coming.of(&file, position, end, 300_000).unwrap();
            assert_eq!(ahead.bytes, 300_000.min(bytes - position as usize));
            // SAFETY: mapped, and nobody truncates it.
            assert_eq!(unsafe { ahead.start.read() }, 7);
        }
        assert!(coming.of(&file, end, end, 1).is_none_or(|ahead| ahead.bytes == 0));
        assert!(Coming::default().of(&file, end, end + 1, 1).is_none());
    }

    #[test]
    fn a_file_that_is_truncated_meanwhile_is_no_harm() {
        let bytes = 1 << 20;
        let (file, mut coming) = (file_of(bytes), Coming::default());
        let ahead = coming.of(&file, 0, bytes as u64, bytes).unwrap();
        file.set_len(1).unwrap();
        let mut fetch = ahead.while_using(1000);
        fetch.used(1000);
        assert!(fetch.fetched >= bytes);
        assert!(Coming::default().of(&file, 0, bytes as u64, bytes).is_none());
    }

    #[test]
    fn all_is_asked_for_by_the_end() {
        let memory = [0; 1000];
        for (used, ahead) in [(1000, 700), (300, 1000), (1, 1000), (1000, 0)] {
            let mut fetch = Ahead::of(&memory, 0, ahead).while_using(used);
            (0..=used).for_each(|bytes| fetch.used(bytes));
            assert!(fetch.fetched + CACHE_LINE >= ahead, "{used} {ahead}");
            assert!(fetch.fetched < ahead + CACHE_LINE, "{used} {ahead}");
        }
        assert_eq!(Ahead::of(&memory, 990, 100).bytes, 10);
        assert_eq!(Ahead::of(&memory, 2000, 100).bytes, 0);
    }
}
