//! Continue after damage, if the batch that follows is near. native_log.segment.damage has the same rules for any distance.

mod near;

use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::crc::{CRC32, CRC32C};
use crate::damage::{Damage, Fault, Kind, Skipped};
use crate::file_crcs::FileCrcs;
use crate::header::{LEGACY_CRC_FROM, Prefix, V2_CRC_FROM, V2_HEADER, V2Header};
use crate::order::Order;
use crate::skip::near::Near;

/// How far from the start of the damage the next batch is searched. Any bytes can look like the header of a batch. Limiting
/// the search, and the size of the batches that are read to check them, keeps the time proportional to the size of the file.
pub const NEAR_BYTES: usize = 16 << 10;

/// What is known of a file while its damage is skipped.
pub struct Skipper {
    /// Where the batches of the file end.
    end: i64,
    /// The checksums of batches that end far away. None: the file of the order does not have all of its bytes yet.
    far: Option<Mutex<FarCrcs>>,
    /// Batches up to this size are read without first checking that their size is right.
    trusted_bytes: AtomicUsize,
}

struct FarCrcs {
    v2: FileCrcs,
    legacy: FileCrcs,
}

/// What is known of a batch by its header.
pub enum Claimed {
    /// It is small, or its checksum is right, or there was no damage before it.
    Trusted,
    /// Its size or its checksum is wrong.
    False(Fault),
    /// It is large, and its checksum cannot be computed here.
    Unknown,
}

impl Skipper {
    pub fn new(end: i64, has_whole_file: bool) -> Self {
        let far = || Mutex::new(FarCrcs { v2: FileCrcs::new(&CRC32C), legacy: FileCrcs::new(&CRC32) });
        let trusted_bytes = AtomicUsize::new(usize::MAX);
        Skipper { end, far: has_whole_file.then(far), trusted_bytes }
    }

    /// Decides, before a batch is read, whether its size can be true. `rest` begins with the batch.
    pub fn claimed(&self, prefix: &Prefix, rest: &[u8], position: i64, order: &Order) -> Claimed {
        let left = self.left(position);
        if prefix.total > left {
            return Claimed::False(cut_off(prefix.total, left));
        }
        if prefix.total <= self.trusted_bytes.load(Ordering::Relaxed) {
            return Claimed::Trusted;
        }
        let Some(header) = rest.first_chunk::<V2_HEADER>().filter(|_| prefix.magic == 2) else {
            return Claimed::Unknown; // readers ignore the checksum of a wrapper
        };
        match self.far_crc(order.file(), prefix, position as u64) {
            None => Claimed::Unknown,
            Some(crc) => match V2Header::parse(header).check_computed_crc(crc) {
                Ok(()) => {
                    // What follows a valid batch is likely to be valid, too.
                    self.trusted_bytes.store(prefix.total.saturating_mul(2), Ordering::Relaxed);
                    Claimed::Trusted
                }
                Err(fault) => Claimed::False(fault),
            },
        }
    }

    /// Skips the damage with which `rest` begins. Returns what was skipped, and how many bytes of `rest` that are. The error is
    /// the damage, if the next batch is not near, or if more is needed to find it or to describe the damage.
    ///
    /// `rows` is the number of rows that the call returns before the damage.
    pub fn skip(
        &self,
        damage: Damage,
        rest: &[u8],
        order: &Order,
        max_batch_bytes: usize,
        rows: usize,
    ) -> Result<(Skipped, usize), Damage> {
        let near = Near::new(self, rest, damage.position, order, max_batch_bytes);
        let Some(batch) = near.next_batch(&damage) else { return Err(damage) };
        self.trusted_bytes.store(NEAR_BYTES, Ordering::Relaxed);
        let end_position = damage.position.saturating_add(batch.at as i64);
        let (offset, next_offset) = (order.next_offset(), batch.first_offset);
        Ok((Skipped { rows, damage: self.described(damage), end_position, offset, next_offset }, batch.at))
    }

    /// A batch that claims more bytes than the file has cannot be read with any `max_batch_bytes`.
    fn described(&self, mut damage: Damage) -> Damage {
        let left = self.left(damage.position);
        match usize::try_from(damage.size_bytes) {
            Ok(total) if damage.kind() == Kind::TooLarge && total > left => damage.fault = cut_off(total, left),
            _ => {}
        }
        damage
    }

    fn has_whole_file(&self) -> bool {
        self.far.is_some()
    }

    /// How many bytes the file has from a position on.
    fn left(&self, position: i64) -> usize {
        usize::try_from(self.end.saturating_sub(position)).unwrap_or_default()
    }

    /// The checksum of a batch that may end far away; None if it cannot be computed here.
    fn far_crc(&self, file: &File, prefix: &Prefix, position: u64) -> Option<u32> {
        let mut far = self.far.as_ref()?.lock().ok()?;
        let end = position.checked_add(prefix.total as u64)?;
        match prefix.magic {
            2 => far.v2.of(file, position + V2_CRC_FROM as u64..end),
            _ => far.legacy.of(file, position + LEGACY_CRC_FROM as u64..end),
        }
        .ok()
    }
}

fn cut_off(total: usize, left: usize) -> Fault {
    Fault::new(Kind::Size, format!("expected a batch of {total} bytes, found only {left} up to the segment's end"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::crc::crc32c;

    /// A batch without records, of `size` bytes after its header.
    fn batch(offset: i64, size: usize) -> Vec<u8> {
        let mut bytes = vec![7; V2_HEADER + size];
        bytes[..8].copy_from_slice(&offset.to_be_bytes());
        bytes[8..12].copy_from_slice(&((V2_HEADER + size - 12) as i32).to_be_bytes());
        bytes[16] = 2;
        bytes[21..V2_HEADER].fill(0);
        set_crc(&mut bytes);
        bytes
    }

    fn set_crc(batch: &mut [u8]) {
        let crc = crc32c(&batch[V2_CRC_FROM..]);
        batch[17..21].copy_from_slice(&crc.to_be_bytes());
    }

    fn with_size(mut batch: Vec<u8>, total: usize) -> Vec<u8> {
        batch[8..12].copy_from_slice(&((total - 12) as i32).to_be_bytes());
        batch
    }

    fn damage(kind: Kind, size: usize) -> Damage {
        Damage { fault: Fault::new(kind, ""), position: 0, size_bytes: size as i64, offset: 0 }
    }

    fn file_of(bytes: &[u8]) -> File {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("kafkalog-skip-{}-{number}", std::process::id()));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    /// Where the next batch is found if the first `known` bytes of the file are at hand; with and without the file.
    fn found(bytes: &[u8], known: usize, damage: &Damage, next: i64, end: i64) -> [Option<usize>; 2] {
        let file = file_of(bytes);
        [false, true].map(|has_whole_file| {
            let skipper = Skipper::new(bytes.len() as i64, has_whole_file);
            let order = Order::new(next, end, &file);
            skipper.skip(damage.clone(), &bytes[..known], &order, 1 << 20, 0).ok().map(|(_, bytes)| bytes)
        })
    }

    #[test]
    fn the_next_batch_begins_where_the_size_of_a_damaged_one_says() {
        let mut bytes = [batch(5, 100), batch(6, 0), batch(7, 0)].concat();
        bytes[80] ^= 1;
        let (size, crc) = (V2_HEADER + 100, |size| damage(Kind::Crc, size));
        assert_eq!(found(&bytes, bytes.len(), &crc(size), 5, 100), [Some(size); 2]);
        // Offsets that are too low or too high belong to no batch of the log.
        assert_eq!(found(&bytes, bytes.len(), &crc(size), 7, 100), [Some(size + V2_HEADER); 2]);
        assert_eq!(found(&bytes, bytes.len(), &crc(size), 5, 6), [None; 2]);
        // The batch is cut off in the bytes at hand.
        assert_eq!(found(&bytes, size + 60, &crc(size), 5, 100), [None, Some(size)]);
    }

    #[test]
    fn batches_that_a_wrong_size_covers_are_found() {
        let (first, wrong) = (V2_HEADER + 20, 2 * V2_HEADER + 20);
        let bytes = [with_size(batch(5, 20), wrong), batch(6, 0), batch(7, 0), batch(8, 0)].concat();
        assert_eq!(found(&bytes, bytes.len(), &damage(Kind::Crc, wrong), 5, 100), [Some(first); 2]);
        // Nothing within a batch with a right checksum is one of the log.
        let content = [batch(5, 0), batch(6, 0)].concat();
        let mut outer = batch(4, content.len());
        outer[V2_HEADER..].copy_from_slice(&content);
        set_crc(&mut outer);
        let total = outer.len();
        let bytes = [outer, batch(9, 0), batch(10, 0)].concat();
        assert_eq!(found(&bytes, bytes.len(), &damage(Kind::Records, total), 4, 100), [Some(total); 2]);
        assert_eq!(found(&bytes, bytes.len(), &damage(Kind::Crc, total), 4, 100), [Some(V2_HEADER); 2]);
    }

    #[test]
    fn claims_of_batches_that_end_far_away_are_checked_in_the_file() {
        let far = 5 * NEAR_BYTES;
        let claims = with_size(batch(6, 0), far);
        let rest = [batch(8, 0), vec![7; far], batch(9, 0)].concat();
        let bytes = [with_size(batch(5, 0), far), claims, rest].concat();
        let found = |bytes: &[u8], size| found(bytes, NEAR_BYTES, &damage(Kind::Crc, size), 5, 100);
        assert_eq!(found(&bytes, far), [None, Some(2 * V2_HEADER)]);
        // A batch that is as large as it claims to be is the next one.
        let bytes = [with_size(batch(5, 0), 3 * far), batch(6, far), batch(7, 0)].concat();
        assert_eq!(found(&bytes, 3 * far), [None, Some(V2_HEADER)]);
    }

    #[test]
    fn far_batches_are_not_found() {
        for (gap, expected) in [(NEAR_BYTES - 200, true), (NEAR_BYTES, false)] {
            let bytes = [vec![0xff; gap], batch(6, 0), batch(7, 0)].concat();
            let found = found(&bytes, bytes.len(), &damage(Kind::Size, 0), 5, 100);
            assert_eq!(found, [expected.then_some(gap); 2]);
        }
    }

    #[test]
    fn offsets_of_the_next_segment_need_a_longer_message() {
        let bytes = [batch(90, 0), batch(6, 0), batch(7, 0)].concat();
        let order = damage(Kind::Order, V2_HEADER);
        assert_eq!(found(&bytes, bytes.len(), &order, 5, 100), [Some(V2_HEADER); 2]);
        assert_eq!(found(&bytes, bytes.len(), &order, 5, 90), [None; 2]);
    }

    #[test]
    fn sizes_are_checked_after_damage() {
        let (large, small) = (batch(6, 2 * NEAR_BYTES), batch(9, 0));
        let total = large.len();
        let mut changed = large.clone();
        changed[total - 1] ^= 1;
        for (bytes, is_valid) in [(&large, true), (&changed, false)] {
            let bytes = [&[0xff; 70], &small[..], bytes, &small].concat();
            let (file, at) = (file_of(&bytes), 70 + V2_HEADER);
            for has_whole_file in [false, true] {
                let skipper = Skipper::new(bytes.len() as i64, has_whole_file);
                let order = Order::new(5, 100, &file);
                let claimed = || {
                    let prefix = Prefix { offset: 6, total, magic: 2 };
                    skipper.claimed(&prefix, &bytes[at..], at as i64, &order)
                };
                assert!(matches!(claimed(), Claimed::Trusted));
                assert!(skipper.skip(damage(Kind::Size, 0), &bytes, &order, 1 << 20, 0).is_ok());
                let found = claimed();
                match (has_whole_file, is_valid) {
                    (false, _) => assert!(matches!(found, Claimed::Unknown)),
                    (true, true) => assert!(matches!(found, Claimed::Trusted)),
                    (true, false) => assert!(matches!(found, Claimed::False(fault) if fault.kind == Kind::Crc)),
                }
            }
        }
        let file = file_of(&small);
        let prefix = Prefix { offset: 9, total: V2_HEADER + 1, magic: 2 };
        let claimed = Skipper::new(V2_HEADER as i64, true).claimed(&prefix, &small, 0, &Order::new(5, 100, &file));
        assert!(matches!(claimed, Claimed::False(fault) if fault.kind == Kind::Size));
    }
}
