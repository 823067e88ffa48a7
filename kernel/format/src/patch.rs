//! Set the fields of v2 batches that a leader assigns. The CRC does not cover them, so they are set in place.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::header::{LEADER_EPOCH_AT, MAGIC_AT, PREFIX_BYTES, V2_HEADER};

/// Adds `base_offset` to the base offset of the batch at each position, and sets its leader epoch. The error is the first
/// position without a v2 batch, or with a batch whose offset would be out of range; then nothing is changed.
pub fn patch(
    data: &[Cell<u8>],
    positions: impl Iterator<Item = i64>,
    base_offset: i64,
    leader_epoch: i32,
) -> Result<(), i64> {
    let patched = |position: i64| {
        let start = usize::try_from(position).ok()?;
        let header = data.get(start..start.checked_add(V2_HEADER)?)?;
        let field: [u8; 8] = std::array::from_fn(|at| header[at].get());
        let offset = i64::from_be_bytes(field).checked_add(base_offset)?;
        (header[MAGIC_AT].get() == 2 && offset >= 0).then_some((header, offset))
    };
    let batches: Vec<_> = positions.map(|position| patched(position).ok_or(position)).collect::<Result<_, _>>()?;
    for (header, offset) in batches {
        let put = |at: usize, bytes: &[u8]| header[at..].iter().zip(bytes).for_each(|(cell, &byte)| cell.set(byte));
        put(0, &offset.to_be_bytes());
        put(LEADER_EPOCH_AT, &leader_epoch.to_be_bytes());
    }
    Ok(())
}

/// The bytes written of a batch: base offset, size, leader epoch.
const PATCHED_BYTES: usize = MAGIC_AT;

/// A batch in a file, and its new base offset.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    pub position: i64,
    pub size_bytes: i32,
    pub base_offset: i64,
}

/// Writes base offset, size and leader epoch of each batch. After an error, some of them may have been written.
pub fn write_prefixes(file: &File, batches: impl Iterator<Item = Placed>, leader_epoch: i32) -> io::Result<()> {
    for Placed { position, size_bytes, base_offset } in batches {
        let mut prefix = [0; PATCHED_BYTES];
        prefix[..8].copy_from_slice(&base_offset.to_be_bytes());
        prefix[8..LEADER_EPOCH_AT].copy_from_slice(&(size_bytes - PREFIX_BYTES as i32).to_be_bytes());
        prefix[LEADER_EPOCH_AT..].copy_from_slice(&leader_epoch.to_be_bytes());
        file.write_all_at(&prefix, position as u64)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_batches_or_none() {
        let mut data = [0; 2 * V2_HEADER];
        (data[MAGIC_AT], data[V2_HEADER + MAGIC_AT], data[V2_HEADER + 7]) = (2, 2, 5);
        let before = data;
        let cells = Cell::from_mut(&mut data[..]).as_slice_of_cells();
        let second = V2_HEADER as i64;
        assert_eq!(patch(cells, [0, second + 1].into_iter(), 1000, 7), Err(second + 1));
        assert_eq!(patch(cells, [0, -1].into_iter(), 1000, 7), Err(-1));
        assert_eq!(patch(cells, [0, second].into_iter(), i64::MAX, 7), Err(second));
        assert!(cells.iter().map(Cell::get).eq(before));
        assert_eq!(patch(cells, [0, second].into_iter(), 1000, 7), Ok(()));
        assert_eq!(data[..8], 1000i64.to_be_bytes());
        assert_eq!(data[V2_HEADER..V2_HEADER + 8], 1005i64.to_be_bytes());
        assert_eq!(data[V2_HEADER + LEADER_EPOCH_AT..V2_HEADER + MAGIC_AT], 7i32.to_be_bytes());
    }
}
