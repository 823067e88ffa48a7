//! Write the batches of a buffer again without the records that do not survive.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::cursor::{BatchHeader, Cursor, Stop};
use super::filter::Filter;
use super::options::{Options, Stats, Verdict};
use crate::codec::with_decompressor;
use crate::header::{MAGIC_END, V2_HEADER};
use crate::status::{Status, Stopped};

/// Size of a read where batches are small.
const CHUNK: usize = 64 << 10;
/// Size of the first read after a skipped batch.
const PEEK: usize = 4 << 10;
/// A batch of this size or more is read by itself, if it has to be read at all.
const LARGE_BATCH: usize = 16 << 10;

/// Appends the batches in `buffer` to `out`, without the records that do not survive.
pub fn rewrite(buffer: &[u8], options: &Options, out: &mut Vec<u8>) -> (Stopped, Stats) {
    with_decompressor(|decompressor| {
        let mut filter = Filter::new(options, decompressor, out);
        let stopped = filter_batches(buffer, options.base_position, options, &mut filter);
        (stopped, filter.finish())
    })
}

/// Does the same with a file from `base_position` to `end`, without verdicts. Large batches that are dropped by their header
/// are not read. The rest is read in chunks that stay in the processor's cache.
pub fn rewrite_file(file: &File, end: u64, options: &Options, out: &mut Vec<u8>) -> io::Result<(Stopped, Stats)> {
    with_decompressor(|decompressor| {
        let mut filter = Filter::new(options, decompressor, out);
        let (mut chunk, mut bytes_to_read) = (Vec::new(), CHUNK);
        let mut position = options.base_position as u64;
        let mut next_offset = None;
        loop {
            let bytes = usize::try_from(end.saturating_sub(position)).unwrap_or(usize::MAX).min(bytes_to_read);
            if chunk.len() < bytes {
                chunk.resize(bytes, 0);
            }
            file.read_exact_at(&mut chunk[..bytes], position)?;
            let mut stopped = filter_batches(&chunk[..bytes], position as i64, options, &mut filter);
            next_offset = stopped.next_offset.or(next_offset);
            stopped.next_offset = next_offset;
            let (read_to, stopped_at) = (position + bytes as u64, stopped.position as u64);
            bytes_to_read = match stopped.status {
                Status::End if stopped_at > read_to => PEEK,
                Status::End => CHUNK,
                Status::Partial if stopped.needed_bytes < LARGE_BATCH => CHUNK,
                // The next header is read too. It says whether its batch has to be read.
                Status::Partial => stopped.needed_bytes + V2_HEADER,
                // These may be the first bytes of an offset.
                Status::Zeros if read_to - stopped_at < MAGIC_END as u64 => CHUNK,
                _ => return Ok((stopped, filter.finish())),
            };
            if stopped_at >= end
                || stopped_at + stopped.needed_bytes as u64 > end
                || (stopped_at == position && read_to == end)
            {
                return Ok((stopped, filter.finish()));
            }
            position = stopped_at;
        }
    })
}

fn filter_batches(buffer: &[u8], base_position: i64, options: &Options, filter: &mut Filter) -> Stopped {
    let mut cursor = Cursor::new(buffer, base_position, options.max_batch_bytes, None);
    let mut verdicts = options.verdicts.map(|verdicts| verdicts.iter());
    let stop = loop {
        let (prefix, header) = match cursor.header() {
            Ok(found) => found,
            Err(stop) => break stop,
        };
        if options.stops_before(&header, filter.output_bytes()) {
            break Stop::Status(Status::Limit);
        }
        let verdict = match verdicts.as_mut().map(Iterator::next) {
            None => Verdict::default(),
            Some(Some(&flags)) => Verdict::of(flags),
            Some(None) => break Stop::Status(Status::Limit),
        };
        let used = match &header {
            BatchHeader::V2(header) => filter.v2_batch(header, &prefix, verdict, &cursor),
            BatchHeader::Legacy(header) => filter.legacy_batch(header, &prefix, verdict, &cursor),
        };
        match used {
            Ok(next_offset) => cursor.advance(&prefix, next_offset, next_offset),
            Err(stop) => break stop,
        }
    };
    cursor.stopped(stop)
}
