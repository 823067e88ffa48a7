//! Encode rows as messages of magic 0 and 1, or as wrappers of compressed messages.

use super::options::{EncodeError, MOST, MOST_PLAIN, Options};
use super::ratio::Ratio;
use super::rows::{Cursor, Part};
use super::workspace::Workspace;
use kafka_log_format::codec::Codec;
use kafka_log_format::header::{V0_HEADER, V1_HEADER};
use kafka_log_format::record::Record;
use kafka_log_format::write::{Wrapper, message};

/// Size of the lengths of key and value.
const LENGTHS: usize = 8;

/// Appends the rows as messages or wrappers. Returns how many rows.
pub(super) fn batches(
    parts: &[Part],
    options: &Options,
    ratio: &mut Ratio,
    workspace: &mut Workspace,
    out: &mut Vec<u8>,
) -> Result<usize, EncodeError> {
    let mut at = Cursor::new(parts);
    let overhead = LENGTHS + if options.magic == 0 { V0_HEADER } else { V1_HEADER };
    if options.codec == Codec::None {
        while let Some(mut record) = record(&at, options)? {
            record.timestamp_ms = options.append_time_ms.unwrap_or(record.timestamp_ms);
            let size_bytes = overhead + content_bytes(&record);
            check_size(at.row, at.row, size_bytes, options)?;
            let too_large = EncodeError::TooLarge { first_row: at.row, last_row: at.row, size_bytes };
            message(options.magic, options.timestamp_flag() as i8, &record, out).map_err(|_| too_large)?;
            at = at.next();
        }
        return Ok(at.row);
    }
    let append_time = options.append_time_ms.filter(|_| options.magic > 0);
    let wrapper = Wrapper { magic: options.magic, codec: options.codec, append_time };
    let limit = options.batch_size.min(MOST);
    let Workspace { compressor, plain } = workspace;
    let mut within = Vec::new();
    while at.get().is_some() {
        within.clear();
        let (first_row, mut written) = (at.row, 0);
        while let Some(record) = record(&at, options)? {
            let bytes = overhead + content_bytes(&record);
            let estimated = overhead + ratio.compressed(written) + bytes;
            if !within.is_empty() && (estimated > limit || written + bytes > MOST_PLAIN) {
                break;
            }
            within.push(record);
            written += bytes;
            at = at.next();
        }
        if !options.finish && at.get().is_none() {
            return Ok(first_row);
        }
        let last_row = at.row - 1;
        if written > MOST {
            return Err(EncodeError::TooLarge { first_row, last_row, size_bytes: written });
        }
        let begins = out.len();
        let too_large = EncodeError::TooLarge { first_row, last_row, size_bytes: written };
        let compressed = wrapper.write(within.iter().copied(), compressor, plain, out).map_err(|_| too_large)?;
        ratio.observe(written, compressed);
        check_size(first_row, last_row, out.len() - begins, options)?;
    }
    Ok(at.row)
}

/// The record of the current row, if there is one.
fn record<'a>(at: &Cursor<'a>, options: &Options) -> Result<Option<Record<'a>>, EncodeError> {
    let Some((records, row)) = at.get() else { return Ok(None) };
    if records.headers.of_row(row).len() > 0 {
        return Err(EncodeError::Headers { row: at.row });
    }
    Ok(Some(Record {
        key: records.key.get(row),
        value: records.value.get(row),
        offset: options.base_offset + at.row as i64,
        timestamp_ms: records.checked_timestamp(row, at.row, options.now_ms)?,
        sequence: -1,
    }))
}

fn content_bytes(record: &Record) -> usize {
    [record.key, record.value].into_iter().flatten().map(<[u8]>::len).sum()
}

fn check_size(first_row: usize, last_row: usize, size_bytes: usize, options: &Options) -> Result<(), EncodeError> {
    if size_bytes > options.max_message_bytes.unwrap_or(MOST).min(MOST) {
        return Err(EncodeError::TooLarge { first_row, last_row, size_bytes });
    }
    Ok(())
}
