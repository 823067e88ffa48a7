//! Compaction agrees with a plain model of it on decoded records.

use std::collections::HashMap;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use kafka_log_arrow::columns::{Column, Constants};
use kafka_log_arrow::decode::decode;
use kafka_log_format::compaction::key_map::KeyMap;
use kafka_log_format::compaction::keys::{self, Progress, Unshadowed, feed};
use kafka_log_format::compaction::options::Options;
use kafka_log_format::compaction::rewrite::rewrite;
use kafka_log_format::decode::Options as DecodeOptions;
use kafka_log_format::scan::{BatchRow, scan};
use kafka_log_format::selection::Selection;
use kafka_log_format::status::{Status, Stopped};
use roaring::RoaringTreemap;

/// The fields of a record that matter to compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    offset: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    /// Whether the offset is one of those that the batch's header claims.
    is_in_header: bool,
}

pub fn check(buffer: &[u8], check_crcs: bool, max_batch_bytes: usize) {
    let (rows, stopped) = rows_of(buffer, check_crcs, max_batch_bytes);
    let map = fed(buffer, &rows, &stopped, check_crcs, max_batch_bytes);
    let newest: RoaringTreemap = map.entries().filter_map(|(_, offset)| u64::try_from(offset).ok()).collect();
    let others = rows.iter().step_by(2).filter_map(|row| u64::try_from(row.offset).ok()).collect();
    for survivors in [newest, others] {
        rewritten(buffer, &rows, &stopped, check_crcs, max_batch_bytes, &survivors);
    }
}

/// A map of the newest offset of each key.
fn fed(buffer: &[u8], rows: &[Row], stopped: &Stopped, check_crcs: bool, max_batch_bytes: usize) -> KeyMap {
    let options =
        keys::Options { base_position: 0, selection: Selection::default(), order: None, check_crcs, max_batch_bytes };
    let keyed = || rows.iter().filter_map(|row| Some((row.key.as_deref()?, row.offset)));
    let mut newest: HashMap<&[u8], i64> = HashMap::new();
    for (key, offset) in keyed() {
        newest.entry(key).and_modify(|known| *known = offset.max(*known)).or_insert(offset);
    }
    let mut map = KeyMap::new(usize::MAX >> 1);
    let Progress { stopped: fed, records, null_keys } = feed(buffer, &options, &mut map);
    assert_eq!((fed.status, fed.position), (stopped.status, stopped.position));
    assert_eq!((records, null_keys), (rows.len() as u64, (rows.len() - keyed().count()) as u64));
    assert_eq!(map.len(), newest.len());
    assert!(map.entries().all(|(key, offset)| newest.get(key) == Some(&offset) && map.get(key) == Some(offset)));

    // A map without keys drops no record; this one drops all but the newest.
    let marked = |map: &KeyMap| {
        let mut marked = RoaringTreemap::new();
        let mut unshadowed = Unshadowed::new(map, &mut marked);
        feed(buffer, &options, &mut unshadowed);
        unshadowed.finish();
        marked
    };
    let not_negative = |offset: i64| u64::try_from(offset).ok();
    assert!(marked(&KeyMap::new(0)) == keyed().filter_map(|(_, offset)| not_negative(offset)).collect());
    assert!(marked(&map) == newest.values().filter_map(|&offset| not_negative(offset)).collect());
    map
}

/// A rewrite keeps exactly the records that survive.
fn rewritten(
    buffer: &[u8],
    rows: &[Row],
    stopped: &Stopped,
    check_crcs: bool,
    max_batch_bytes: usize,
    survivors: &RoaringTreemap,
) {
    let options = Options {
        base_position: 0,
        survivors,
        survivors_end: i64::MAX,
        now_ms: i64::MIN, // before any delete horizon: tombstones are kept
        delete_horizon_ms: None,
        verdicts: None,
        legacy_tombstones_kept: true,
        nulled: None,
        check_crcs,
        max_batch_bytes,
        max_bytes: usize::MAX,
        judged: None,
    };
    let mut out = Vec::new();
    let (end, _) = rewrite(buffer, &options, &mut out);
    // A batch may be dropped because of a wrong header: wrong offsets, or damage and a wrong end.
    let is_damaged = stopped.status == Status::Damaged || end.status == Status::Damaged;
    if is_damaged || rows.iter().any(|row| !row.is_in_header) {
        return;
    }
    // One of them may need only the header of a batch that is truncated after it.
    if stopped.status != Status::Partial && end.status != Status::Partial {
        assert_eq!((end.status, end.position), (stopped.status, stopped.position));
    }
    let survives =
        |row: &&Row| row.offset == i64::MAX || u64::try_from(row.offset).is_ok_and(|offset| survivors.contains(offset));
    let expected: Vec<&Row> = rows.iter().filter(survives).collect();
    let (found, _) = rows_of(&out, check_crcs, usize::MAX >> 1);
    assert_eq!(found.iter().collect::<Vec<_>>(), expected);
}

fn rows_of(buffer: &[u8], check_crcs: bool, max_batch_bytes: usize) -> (Vec<Row>, Stopped) {
    let columns = [Column::Offset, Column::Timestamp, Column::Key, Column::Value, Column::Position];
    let options = DecodeOptions {
        base_position: 0,
        selection: Selection::default(),
        conditions: None,
        order: None,
        max_rows: None,
        max_bytes: None,
        check_crcs,
        max_batch_bytes,
        control: false,
        skipper: None,
    };
    let (records, stopped) = decode(buffer, &columns, Constants::default(), &options);
    let (batches, _) = scan(buffer, 0, false, max_batch_bytes, None);
    let claims = |position: i64, offset: i64| {
        let found = batches.binary_search_by_key(&position, |batch| batch.position).expect("a row of a batch");
        let BatchRow { magic, base_offset, last_offset, .. } = batches[found];
        magic < 2 || base_offset.is_some_and(|base| (base..=last_offset).contains(&offset))
    };
    let count = records.rows();
    let arrays = records.finish();
    let number = |column: usize, row: usize| arrays[column].as_primitive::<Int64Type>().value(row);
    let bytes = |column: usize, row: usize| {
        let array = arrays[column].as_binary::<i32>();
        array.is_valid(row).then(|| array.value(row).to_vec())
    };
    let rows = (0..count).map(|row| Row {
        offset: number(0, row),
        timestamp: arrays[1].as_primitive::<TimestampMicrosecondType>().value(row),
        key: bytes(2, row),
        value: bytes(3, row),
        is_in_header: claims(number(4, row), number(0, row)),
    });
    (rows.collect(), stopped)
}
