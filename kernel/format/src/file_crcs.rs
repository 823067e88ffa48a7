//! The checksums of many, possibly overlapping ranges of a file, whose bytes are read once.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::crc::Checksum;

/// The number of bytes between two stored checksums, of which there are four MiB for each GiB of a file. For each range, up to
/// this many bytes at either end are read again.
const STEP: u64 = 1 << 10;
const READ_BYTES: u64 = 1 << 20;

/// The checksums of ranges of a file; see `RangeCrcs` for the arithmetic.
pub struct FileCrcs {
    prefixes: Prefixes,
    buffer: Vec<u8>,
    /// The blocks in which a range began and ended last: those of the next ranges are often the same.
    first: Block,
    last: Block,
}

struct Prefixes {
    checksum: &'static Checksum,
    /// Position of the first byte that the checksums cover.
    from: u64,
    /// The checksums of the first 0, STEP, 2 * STEP ... bytes from there on. Empty: nothing was read yet.
    crcs: Vec<u32>,
}

/// Bytes of a file.
#[derive(Default)]
struct Block {
    position: u64,
    bytes: Vec<u8>,
}

impl Block {
    /// The `bytes` bytes from `position` on. Reads STEP bytes, or up to the end of the file, if it does not have them yet.
    fn at(&mut self, file: &File, position: u64, bytes: usize) -> io::Result<&[u8]> {
        if self.position != position || self.bytes.len() < bytes {
            self.bytes.resize(STEP as usize, 0);
            self.position = position;
            let read = file.read_at(&mut self.bytes, position);
            self.bytes.truncate(*read.as_ref().unwrap_or(&0));
            read?;
        }
        self.bytes.get(..bytes).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl Prefixes {
    fn end(&self) -> u64 {
        self.from + (self.crcs.len() as u64 - 1) * STEP
    }

    /// The checksum of the covered bytes before `end`, at most STEP bytes after the last prefix.
    fn before(&self, end: u64, file: &File, block: &mut Block) -> io::Result<u32> {
        let (steps, rest) = ((end - self.from) / STEP, (end - self.from) % STEP);
        let bytes = block.at(file, end - rest, rest as usize)?;
        Ok(self.checksum.extended(self.crcs[steps as usize], bytes))
    }
}

impl FileCrcs {
    pub fn new(checksum: &'static Checksum) -> Self {
        let prefixes = Prefixes { checksum, from: 0, crcs: Vec::new() };
        FileCrcs { prefixes, buffer: Vec::new(), first: Block::default(), last: Block::default() }
    }

    /// The checksum of the bytes in `range`. Fails with UnexpectedEof if the file ends earlier.
    pub fn of(&mut self, file: &File, range: Range<u64>) -> io::Result<u32> {
        let checksum = self.prefixes.checksum;
        let bytes = range.end.saturating_sub(range.start);
        if bytes <= 2 * STEP {
            return Ok((checksum.of)(self.read(file, range.start, bytes)?));
        }
        // The bytes between ranges are read, too, unless they are many.
        let Prefixes { from, crcs, .. } = &self.prefixes;
        if crcs.is_empty() || !(*from..=self.prefixes.end() + READ_BYTES).contains(&range.start) {
            self.prefixes = Prefixes { checksum, from: range.start, crcs: vec![0] };
        }
        self.extend(file, range.end)?;
        let start = self.prefixes.before(range.start, file, &mut self.first)?;
        let end = self.prefixes.before(range.end, file, &mut self.last)?;
        Ok(checksum.shifted(start, bytes) ^ end)
    }

    /// Computes the checksums of all prefixes that end at or before `end`.
    fn extend(&mut self, file: &File, end: u64) -> io::Result<()> {
        loop {
            let position = self.prefixes.end();
            let bytes = READ_BYTES.min(end.saturating_sub(position) / STEP * STEP);
            if bytes == 0 {
                return Ok(());
            }
            self.read(file, position, bytes)?;
            let Prefixes { checksum, crcs, .. } = &mut self.prefixes;
            for step in self.buffer.chunks_exact(STEP as usize) {
                let before = crcs.last().copied().unwrap_or_default();
                crcs.push(checksum.extended(before, step));
            }
        }
    }

    fn read(&mut self, file: &File, position: u64, bytes: u64) -> io::Result<&[u8]> {
        self.buffer.resize(bytes as usize, 0);
        file.read_exact_at(&mut self.buffer, position)?;
        Ok(&self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::crc::{CRC32, CRC32C};

    #[test]
    fn ranges_have_the_checksums_of_their_bytes() {
        let bytes: Vec<u8> = (0..3 * READ_BYTES as u32).map(|at| (at.wrapping_mul(at) / 7) as u8).collect();
        let path = std::env::temp_dir().join(format!("kafkalog-crcs-{}", std::process::id()));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(&bytes).unwrap();
        let ranges = [
            [(100, 2_500_000), (100, 100), (70_000, 90_000), (99, 50_000), (2_000_000, 3_000_000), (5, 3_145_728)],
            [(8192, 16_384), (8191, 16_385), (3_000_000, 3_000_001), (0, 8192), (0, 8193), (4096, 1_048_576 + 4096)],
        ];
        for checksum in [&CRC32C, &CRC32] {
            let mut crcs = FileCrcs::new(checksum);
            for (start, end) in ranges.into_iter().flatten() {
                let expected = (checksum.of)(&bytes[start as usize..end as usize]);
                assert_eq!(crcs.of(&file, start..end).unwrap(), expected, "{start} {end}");
            }
            assert_eq!(crcs.of(&file, 5..3_145_729).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
            assert_eq!(crcs.of(&file, 5..3_145_728).unwrap(), (checksum.of)(&bytes[5..]));
        }
    }
}
