//! Scanning, decoding and searching any bytes ends within the buffer.

use std::fs::File;
use std::os::unix::fs::FileExt;

use arrow_array::Array;
use kafka_log_arrow::batch_columns::batch_columns;
use kafka_log_arrow::columns::{Column, Constants};
use kafka_log_arrow::decode::decode;
use kafka_log_format::check::{self, check_file};
use kafka_log_format::decode::Options;
use kafka_log_format::find::find_batch;
use kafka_log_format::header::MAGIC_END;
use kafka_log_format::ranges::divide_file;
use kafka_log_format::scan::scan;
use kafka_log_format::selection::Selection;
use kafka_log_format::status::Status;
use kafka_log_format::text::{self, format_batches};

use super::sealed::sealed;

const MAX_BATCH_BYTES: usize = 1 << 20;
const BASE_POSITION: i64 = 1000;
/// After how many batches a search continues.
const FOUND_BATCHES: usize = 16;
const CONSTANTS: Constants = Constants { topic: Some("topic"), partition: Some(3), segment: None };
const COLUMNS: [Column; 17] = [
    Column::Key,
    Column::Value,
    Column::Topic,
    Column::Partition,
    Column::Offset,
    Column::Timestamp,
    Column::TimestampType,
    Column::Headers,
    Column::LeaderEpoch,
    Column::ProducerId,
    Column::ProducerEpoch,
    Column::Sequence,
    Column::IsTransactional,
    Column::Compression,
    Column::Magic,
    Column::BatchOffset,
    Column::Position,
];

pub fn run(data: &[u8]) {
    let Some((&[flags, limit, start, max_batch], buffer)) = data.split_first_chunk() else { return };
    let [check_crcs, control, is_sealed, has_range] = [0, 1, 2, 3].map(|bit| flags >> bit & 1 == 1);
    let buffer = if is_sealed { sealed(buffer) } else { buffer.to_vec() };
    let end_offset = has_range.then(|| i64::from(limit));
    let options = Options {
        base_position: BASE_POSITION,
        selection: Selection { start_offset: end_offset.map(|end| end / 2), end_offset, ..Selection::default() },
        conditions: None,
        order: None,
        max_rows: None,
        max_bytes: None,
        check_crcs,
        max_batch_bytes: MAX_BATCH_BYTES,
        control,
        skipper: None,
    };
    scanned(&buffer, check_crcs);
    decoded(&buffer, options, limit.into());
    found(&buffer, start.into(), usize::from(max_batch) << 8);
    printed(&buffer, check_crcs, control);
    checked(&buffer);
}

/// The batches of the rows follow each other, and the scan ends where the last one ends.
fn scanned(buffer: &[u8], check_crcs: bool) {
    let (rows, stopped) = scan(buffer, BASE_POSITION, check_crcs, MAX_BATCH_BYTES, None);
    let end = BASE_POSITION + buffer.len() as i64;
    let mut position = BASE_POSITION;
    for row in &rows {
        assert_eq!(row.position, position);
        assert!(position < end && row.size_in_bytes > 0);
        position += i64::from(row.size_in_bytes);
    }
    assert_eq!(stopped.position, position);
    assert!(!check_crcs || position <= end);
    assert_eq!(stopped.status == Status::Damaged, stopped.damage.is_some());
    for array in batch_columns(&rows).1 {
        array.to_data().validate_full().unwrap();
        assert_eq!(array.len(), rows.len());
    }
}

/// A check of a file returns the rows of a scan, up to a wrong CRC, and ranges of a file consist of whole batches.
fn checked(buffer: &[u8]) {
    let path = std::env::temp_dir().join(format!("kafkalog-fuzz-{}", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all_at(buffer, 0).unwrap();
    let end = buffer.len() as u64;
    let options = check::Options {
        check_records: true,
        accept_newer: false,
        max_rows: 100,
        max_bytes: 50_000,
        max_batch_bytes: MAX_BATCH_BYTES,
        order: None,
        skipper: None,
    };
    let checked = check_file(&file, 0, end, &options).unwrap();
    let newer = check_file(&file, 0, end, &check::Options { accept_newer: true, ..options }).unwrap();
    assert_eq!(checked.rows, newer.rows[..checked.rows.len()]);
    let (rows, _) = scan(buffer, 0, true, MAX_BATCH_BYTES, None);
    assert_eq!(checked.rows, rows[..checked.rows.len()]);
    let positions: Vec<i64> = checked.rows.iter().map(|row| row.position).collect();
    assert!(checked.invalid_records.iter().all(|position| positions.contains(position)));
    assert!(checked.stopped.position as u64 <= end);
    let (ranges, stopped) = divide_file(&file, 0, end, 1000, 100, MAX_BATCH_BYTES).unwrap();
    assert!(ranges.iter().all(|(start, end)| start < end));
    assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0));
    assert!(stopped.position as u64 <= end && ranges.last().is_none_or(|&(_, end)| end == stopped.position));
}

/// Each step of decoding makes progress, and all steps together return what one call returns.
fn decoded(buffer: &[u8], mut options: Options, max_rows: usize) {
    let (records, all) = decode(buffer, &COLUMNS, CONSTANTS, &options);
    let rows = records.rows();
    let arrays = records.finish();
    for array in &arrays {
        array.to_data().validate_full().unwrap();
        assert_eq!(array.len(), rows);
    }
    // There is a loop for each set of columns; the result does not depend on the requested columns.
    for columns in [&[][..], &[Column::Key], &[Column::Value], &[Column::Offset, Column::Key], &[Column::Sequence]] {
        let (some, stopped) = decode(buffer, columns, CONSTANTS, &options);
        assert_eq!((some.rows(), &stopped), (rows, &all));
        for (column, array) in columns.iter().zip(some.finish()) {
            assert!(*array == *arrays[*column as usize], "column {} differs", column.name());
        }
    }
    assert!(all.position >= BASE_POSITION);
    assert_eq!(all.status == Status::Damaged, all.damage.is_some());
    assert_eq!(all.status == Status::Partial, all.needed_bytes > 0);
    options.max_rows = Some(max_rows);
    let (mut found_rows, mut at) = (0, 0);
    loop {
        options.base_position = BASE_POSITION + at as i64;
        let (records, stopped) = decode(&buffer[at..], &[Column::Offset], CONSTANTS, &options);
        found_rows += records.rows();
        if stopped.status != Status::Limit {
            assert_eq!((found_rows, stopped.position, stopped.status), (rows, all.position, all.status));
            assert_eq!(stopped.damage, all.damage);
            break;
        }
        let next = (stopped.position - BASE_POSITION) as usize;
        assert!(at < next, "a limit stopped a call without progress");
        if next > buffer.len() {
            break; // skipped a batch that continues after the buffer
        }
        at = next;
    }
}

/// The text is UTF-8. Without records, it has a line for each batch.
fn printed(buffer: &[u8], record_metadata: bool, contents: bool) {
    let options = text::Options { records: true, record_metadata, contents, max_batch_bytes: MAX_BATCH_BYTES };
    let (lines, stopped) = format_batches(buffer, BASE_POSITION, &options, Vec::new());
    assert_eq!(stopped.status == Status::Damaged, stopped.damage.is_some());
    assert_eq!(lines.first_offset.is_some(), lines.last_offset.is_some());
    String::from_utf8(lines.text).unwrap();
    let (batches, all) =
        format_batches(buffer, BASE_POSITION, &text::Options { records: false, ..options }, Vec::new());
    assert!(all.position >= stopped.position);
    let end = (all.position - BASE_POSITION) as usize;
    let (rows, _) = scan(&buffer[..end], BASE_POSITION, false, MAX_BATCH_BYTES, None);
    assert_eq!(String::from_utf8(batches.text).unwrap().lines().count(), rows.len());
}

/// Each batch begins in the buffer, not before the start of the search.
fn found(buffer: &[u8], mut start: usize, max_batch_bytes: usize) {
    for _ in 0..FOUND_BATCHES {
        let Some(at) = find_batch(buffer, start, i64::MIN, i64::MAX, max_batch_bytes) else { return };
        assert!(start <= at && at + MAGIC_END <= buffer.len());
        let (rows, stopped) = scan(&buffer[at..], 0, false, max_batch_bytes.max(buffer.len()), None);
        // If a control batch continues after the buffer, a scan needs more than its header.
        let is_found = !rows.is_empty() || stopped.status == Status::Partial;
        assert!(is_found, "a batch was found at {at}, where a scan finds none");
        start = at + 1;
    }
}
