//! Divide a file into ranges of whole batches, for threads to work on.

use std::fs::File;
use std::io;

use crate::chunk::with_chunk;
use crate::scan::{BatchRow, Options, Scanned, scan_file};
use crate::status::{Status, Stopped};

/// How much is read for a header: more than it takes, so that one read returns several small batches.
const HEADER_CHUNK_BYTES: usize = 8 << 10;

/// Divides the batches of a file from `position` to `end`, reading only their headers, into ranges of up to
/// `range_bytes` bytes, or of one batch that is larger. Stops with Limit after `max_rows` batches, and with Partial at a
/// batch that ends after `end`. Fails with UnexpectedEof if the file ends before `end`.
pub fn divide_file(
    file: &File,
    position: i64,
    end: u64,
    range_bytes: u64,
    max_rows: usize,
    max_batch_bytes: usize,
) -> io::Result<(Vec<(i64, i64)>, Stopped)> {
    let options = Options::new(position, max_rows, max_batch_bytes);
    let sizes = HEADER_CHUNK_BYTES..=HEADER_CHUNK_BYTES;
    let scanned = with_chunk(|chunk| scan_file(file, end, options, chunk, sizes, |_, _| false))?;
    let Scanned { mut rows, mut stopped, .. } = scanned;
    if let Some(last) = rows.pop_if(|last| end_of(last) as u64 > end) {
        let next_offset = rows.last().map(|row| row.last_offset.wrapping_add(1));
        let (position, needed_bytes) = (last.position, last.size_in_bytes as usize);
        stopped = Stopped { status: Status::Partial, position, next_offset, needed_bytes, damage: None };
    }
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for row in &rows {
        match ranges.last_mut() {
            Some((start, range_end)) if (end_of(row) - *start) as u64 <= range_bytes => *range_end = end_of(row),
            _ => ranges.push((row.position, end_of(row))),
        }
    }
    Ok((ranges, stopped))
}

/// The position of the first byte after the batch.
fn end_of(row: &BatchRow) -> i64 {
    row.position.saturating_add(row.size_in_bytes.into())
}
