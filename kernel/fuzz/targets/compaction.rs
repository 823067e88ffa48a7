//! Compaction of any bytes results in a log that can be read and that another compaction does not change.

use kafka_log_arrow::columns::{Column, Constants};
use kafka_log_arrow::decode::decode;
use kafka_log_format::compaction::buckets::KeyBuckets;
use kafka_log_format::compaction::key_map::KeyMap;
use kafka_log_format::compaction::keys::{self, Progress, feed};
use kafka_log_format::compaction::options::{Options, Stats};
use kafka_log_format::compaction::packs::{Kind, Merger};
use kafka_log_format::compaction::rewrite::rewrite;
use kafka_log_format::compaction::survivors::from_unsorted;
use kafka_log_format::decode::Options as DecodeOptions;
use kafka_log_format::scan::scan;
use kafka_log_format::selection::Selection;
use kafka_log_format::status::{Status, Stopped};
use roaring::RoaringTreemap;

use super::model;
use super::sealed::sealed;

const MAX_BATCH_BYTES: usize = 1 << 20;
const MAX_MAP_BYTES: usize = 1 << 20;

pub fn run(data: &[u8]) {
    let Some((&[flags, buckets, map_bytes, verdict], buffer)) = data.split_first_chunk() else { return };
    let _ = Merger::default().add(&[buffer]); // may fail: a pack from another process may be damaged
    let [check_crcs, is_sealed, tombstones_kept, is_open, is_nulled, has_horizon, has_verdicts, all_fits] =
        [0, 1, 2, 3, 4, 5, 6, 7].map(|bit| flags >> bit & 1 == 1);
    let buffer = if is_sealed { sealed(buffer) } else { buffer.to_vec() };
    model::check(&buffer, check_crcs, MAX_BATCH_BYTES);
    let max_bytes = if all_fits { MAX_MAP_BYTES } else { 64 * usize::from(map_bytes) };
    let (survivors, stopped) = collected(&buffer, check_crcs, 1 + usize::from(buckets), max_bytes);
    let nulled: RoaringTreemap = survivors.iter().filter(|offset| offset % 3 == 0).collect();
    let verdicts = vec![verdict; buffer.len()];
    let options = Options {
        base_position: 0,
        survivors: &survivors,
        survivors_end: if is_open { stopped.next_offset.unwrap_or(0) } else { i64::MAX },
        now_ms: 0,
        delete_horizon_ms: has_horizon.then_some(1000),
        verdicts: has_verdicts.then_some(&verdicts),
        legacy_tombstones_kept: tombstones_kept,
        nulled: is_nulled.then_some(&nulled),
        check_crcs,
        max_batch_bytes: MAX_BATCH_BYTES,
        max_bytes: usize::MAX,
        judged: None,
    };
    let mut out = Vec::new();
    let (_, stats) = rewrite(&buffer, &options, &mut out);
    is_a_log(&out, &stats, check_crcs);
    let mut again = Vec::new();
    let (stopped, _) = rewrite(&out, &options, &mut again);
    assert_eq!((stopped.status, stopped.position), (Status::End, out.len() as i64));
    // Nulled records are tombstones, which the second compaction may drop.
    assert!(is_nulled || again == out, "a second compaction changed what the first one had left");
}

/// The newest offsets of all keys, on which the map and the buckets agree, and where the map stopped.
fn collected(buffer: &[u8], check_crcs: bool, buckets: usize, max_bytes: usize) -> (RoaringTreemap, Stopped) {
    let selection = Selection::default();
    let options =
        keys::Options { base_position: 0, selection, order: None, check_crcs, max_batch_bytes: MAX_BATCH_BYTES };
    let mut map = KeyMap::new(max_bytes);
    let Progress { stopped, records, null_keys } = feed(buffer, &options, &mut map);
    assert!(map.size_bytes() <= max_bytes);
    let offsets = map.entries().filter_map(|(_, offset)| u64::try_from(offset).ok()).collect();
    let survivors = from_unsorted(offsets);

    let mut dirty = KeyBuckets::new(Kind::Dirty, buckets, max_bytes);
    let by_buckets = feed(buffer, &options, &mut dirty);
    assert!(dirty.size_bytes() <= max_bytes);
    let mut merger = Merger::default();
    for pack in dirty.take() {
        merger.add(&[&pack]).unwrap();
    }
    let merged = merger.survivors();
    if stopped.status != Status::Full && by_buckets.stopped.status != Status::Full {
        assert_eq!(
            (stopped.position, stopped.next_offset),
            (by_buckets.stopped.position, by_buckets.stopped.next_offset)
        );
        assert_eq!((records, null_keys), (by_buckets.records, by_buckets.null_keys));
        assert!(survivors == merged, "the map and the packs disagree on the newest offsets");
    }
    (survivors, stopped)
}

/// The batches and records are those that the rewrite counted.
fn is_a_log(out: &[u8], stats: &Stats, check_crcs: bool) {
    let (rows, stopped) = scan(out, 0, true, MAX_BATCH_BYTES, None);
    assert_eq!((stopped.status, stopped.position), (Status::End, out.len() as i64));
    assert_eq!(rows.len() as u64, stats.batches_kept + stats.batches_emptied);
    assert_eq!(out.len() as u64, stats.bytes_kept);
    // The CRC of a wrapper is not checked, and its first offset is unknown.
    assert!(!check_crcs || rows.iter().all(|row| row.base_offset.is_none() || row.is_valid == Some(true)));
    let options = DecodeOptions {
        base_position: 0,
        selection: Selection::default(),
        conditions: None,
        order: None,
        max_rows: None,
        max_bytes: None,
        check_crcs,
        max_batch_bytes: MAX_BATCH_BYTES,
        control: true,
        skipper: None,
    };
    let columns = [Column::Key, Column::Value, Column::Headers];
    let (records, stopped) = decode(out, &columns, Constants::default(), &options);
    assert_eq!((stopped.status, stopped.position, stopped.damage), (Status::End, out.len() as i64, None));
    assert_eq!(records.rows() as u64, stats.records_kept);
}
