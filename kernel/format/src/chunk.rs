//! A reusable buffer for the part of a file that is being read.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const PAGE: usize = 4 << 10;

/// A buffer larger than this is freed after a call.
const KEPT_BYTES: usize = 4 << 20;

thread_local! {
    static CHUNK: RefCell<Chunk> = RefCell::default();
}

/// Calls `read` with the buffer of this thread.
pub fn with_chunk<T>(read: impl FnOnce(&mut Chunk) -> T) -> T {
    CHUNK.with_borrow_mut(|chunk| {
        let result = read(chunk);
        chunk.trim(KEPT_BYTES);
        result
    })
}

/// Part of a file. Every byte has the same offset within a memory page as in the file. Linux copies with `rep movsb`,
/// which AMD processors run up to four times slower if the destination's offset within a page is 1 to 63 bytes higher.
#[derive(Default)]
pub struct Chunk {
    memory: Vec<u8>,
    /// Index in `memory` of the first byte.
    start: usize,
    len: usize,
}

impl Chunk {
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// Fills the chunk with the `bytes` bytes of the file from `position` on. The last `kept` bytes of the present content
    /// become the first ones; the rest is read from `file`. Fails with UnexpectedEof if the file ends earlier.
    pub fn fill(&mut self, file: &File, position: u64, kept: usize, bytes: usize) -> io::Result<()> {
        let end = self.start + self.len;
        let in_page = position as usize % PAGE;
        if self.memory.len() < bytes + PAGE {
            let memory = vec![0; bytes + PAGE];
            let previous = std::mem::replace(&mut self.memory, memory);
            self.start = index_of(&self.memory, in_page);
            self.memory[self.start..][..kept].copy_from_slice(&previous[end - kept..end]);
        } else {
            self.start = index_of(&self.memory, in_page);
            self.memory.copy_within(end - kept..end, self.start);
        }
        self.len = bytes;
        file.read_exact_at(&mut self.memory[self.start + kept..][..bytes - kept], position + kept as u64)
    }

    /// Frees the buffer if it holds more than `most` bytes.
    fn trim(&mut self, most: usize) {
        if self.memory.len() > most + PAGE {
            *self = Chunk::default();
        }
    }
}

/// The first index of the memory whose address has this offset within its page.
fn index_of(memory: &[u8], in_page: usize) -> usize {
    in_page.wrapping_sub(memory.as_ptr().addr()) % PAGE
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write};

    use super::*;

    /// A file with this content that is already unlinked.
    fn file_of(bytes: &[u8]) -> File {
        let path = std::env::temp_dir().join(format!("kafkalog-chunk-{}-{}", std::process::id(), bytes.len()));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn bytes_keep_their_offset_within_the_page() {
        let content: Vec<u8> = (0..200_000u32).map(|index| (index.wrapping_mul(index) >> 7) as u8).collect();
        let (file, mut chunk) = (file_of(&content), Chunk::default());
        let (mut position, mut kept) = (3, 0);
        for bytes in [10_000, 10_000, 50_000, 20_001, 6667] {
            chunk.fill(&file, position as u64, kept, bytes).unwrap();
            assert_eq!(chunk.bytes(), &content[position..position + bytes]);
            assert_eq!(chunk.bytes().as_ptr().addr() % PAGE, position % PAGE);
            kept = bytes / 3;
            position += bytes - kept;
        }
        chunk.trim(10_000);
        assert!(chunk.bytes().is_empty());
    }

    #[test]
    fn the_end_of_the_file_is_an_error() {
        let (file, mut chunk) = (file_of(&[7; 100]), Chunk::default());
        assert_eq!(chunk.fill(&file, 1, 0, 100).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        chunk.fill(&file, 1, 0, 99).unwrap();
        assert_eq!(chunk.bytes(), [7; 99]);
    }
}
