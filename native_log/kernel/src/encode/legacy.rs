//! Rows to messages of magic 0 and 1, and to wrappers of them where they are compressed.

use super::columns::Records;
use super::ratio::Ratio;
use super::{MOST, MOST_PLAIN, Options, Refusal, Workspace};
use crate::codec::Codec;
use crate::columns::Record;
use crate::header::{V0_HEADER, V1_HEADER};
use crate::write::{Wrapper, message};

/// The lengths of key and value.
const LENGTHS: usize = 8;

/// Appends the rows as messages of the magic asked for.
pub(super) fn batches(
    records: &Records,
    options: &Options,
    ratio: &mut Ratio,
    workspace: &mut Workspace,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let overhead = LENGTHS + if options.magic == 0 { V0_HEADER } else { V1_HEADER };
    if options.codec == Codec::None {
        for row in 0..records.rows {
            let mut record = record(records, row, options)?;
            record.timestamp_ms = options.append_time_ms.unwrap_or(record.timestamp_ms);
            check_size(row, row, overhead + content_bytes(&record), options)?;
            message(options.magic, options.timestamp_flag() as i8, &record, out);
        }
        return Ok(());
    }
    let append_time = options.append_time_ms.filter(|_| options.magic > 0);
    let wrapper = Wrapper { magic: options.magic, codec: options.codec, append_time };
    let limit = options.batch_size.min(MOST);
    let Workspace { compressor, plain } = workspace;
    let mut within = Vec::new();
    let mut row = 0;
    while row < records.rows {
        within.clear();
        let mut written = 0;
        for row in row..records.rows {
            let record = record(records, row, options)?;
            let bytes = overhead + content_bytes(&record);
            let estimated = overhead + ratio.compressed(written) + bytes;
            if !within.is_empty() && (estimated > limit || written + bytes > MOST_PLAIN) {
                break;
            }
            within.push(record);
            written += bytes;
        }
        let last_row = row + within.len() - 1;
        if written > MOST {
            return Err(Refusal::TooLarge { first_row: row, last_row, size_bytes: written });
        }
        let begins = out.len();
        let compressed = wrapper.write(&within, compressor, plain, out);
        ratio.observe(written, compressed);
        check_size(row, last_row, out.len() - begins, options)?;
        row = last_row + 1;
    }
    Ok(())
}

fn record<'a>(records: &Records<'a>, row: usize, options: &Options) -> Result<Record<'a>, Refusal> {
    if records.headers.of_row(row).len() > 0 {
        return Err(Refusal::Headers { row });
    }
    Ok(Record {
        key: records.key.get(row),
        value: records.value.get(row),
        offset: options.base_offset + row as i64,
        timestamp_ms: records.checked_timestamp(row, options.now_ms)?,
        sequence: -1,
    })
}

fn content_bytes(record: &Record) -> usize {
    [record.key, record.value].into_iter().flatten().map(<[u8]>::len).sum()
}

fn check_size(first_row: usize, last_row: usize, size_bytes: usize, options: &Options) -> Result<(), Refusal> {
    if size_bytes > options.max_message_bytes.unwrap_or(MOST).min(MOST) {
        return Err(Refusal::TooLarge { first_row, last_row, size_bytes });
    }
    Ok(())
}
