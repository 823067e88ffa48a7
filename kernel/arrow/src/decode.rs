//! Batches to columns.

use std::fs::File;
use std::io;

use kafka_log_format::decode::{self, Options};
use kafka_log_format::status::Stopped;

use crate::columns::{Column, Constants, RecordColumns};

/// Reads batches from the beginning of `buffer` until something stops it.
pub fn decode<'a>(
    buffer: &[u8],
    columns: &'a [Column],
    constants: Constants<'a>,
    options: &Options,
) -> (RecordColumns<'a>, Stopped) {
    let mut records = RecordColumns::new(columns, constants);
    let stopped = decode::decode(buffer, options, &mut records);
    (records, stopped)
}

/// Does the same with the bytes of `file` from the base position to `end`. Fails with UnexpectedEof if the file ends before
/// `end`.
pub fn decode_file<'a>(
    file: &File,
    end: u64,
    columns: &'a [Column],
    constants: Constants<'a>,
    options: &Options,
) -> io::Result<(RecordColumns<'a>, Stopped)> {
    let mut records = RecordColumns::new(columns, constants);
    let stopped = decode::decode_file(file, end, options, &mut records)?;
    Ok((records, stopped))
}
