//! Compaction beside what plain code makes of the decoded records. Batches here have more records than are remembered
//! in tests (see MOST_COLLECTED, MOST_REMEMBERED), so that they are read twice.

use std::collections::HashMap;

use roaring::RoaringTreemap;

use super::key_map::KeyMap;
use super::keys::{self, Progress, Unshadowed, feed};
use super::options::{Options, Stats};
use super::rewrite::rewrite;
use crate::codec::{Codec, Compressor};
use crate::decode::{self, decode};
use crate::header::{V2_HEADER, V2Header};
use crate::record::{Record, RecordHeader};
use crate::selection::Selection;
use crate::sink::{BatchValues, RecordSink};
use crate::status::Status;
use crate::varint::write_i64;
use crate::write::{Wrapper, message};

/// Offset, key, value.
type Row = (i64, Option<Vec<u8>>, Option<Vec<u8>>);

const MAX_BATCH_BYTES: usize = 1 << 20;
const BASE_OFFSET: i64 = 1000;
const BATCH_RECORDS: usize = 25;

/// 100 records in batches of 25: keys that come again or are null, and tombstones.
fn log(magic: i8, codec: Codec) -> Vec<u8> {
    let keys = (0..100).map(|row| (row % 11 != 0).then(|| format!("key-{}", row * row % 17).into_bytes()));
    let values = (0..100).map(|row| (row % 7 != 0).then(|| format!("value {row}").into_bytes()));
    let fields: Vec<_> = keys.zip(values).collect();
    let records = fields.iter().zip(0..).map(|((key, value), row)| Record {
        key: key.as_deref(),
        value: value.as_deref(),
        offset: BASE_OFFSET + row,
        timestamp_ms: 1_600_000_000_000 + row * row,
        sequence: -1,
    });
    let records: Vec<Record> = records.collect();
    let (mut compressor, mut out) = (Compressor::default(), Vec::new());
    compressor.begin(None);
    for batch in records.chunks(BATCH_RECORDS) {
        match (magic, codec) {
            (2, _) => v2_batch(batch, codec, &mut compressor, &mut out),
            (_, Codec::None) => batch.iter().for_each(|record| message(magic, 0, record, &mut out).unwrap()),
            _ => {
                let wrapper = Wrapper { magic, codec, append_time: None };
                let written = wrapper.write(batch.iter().copied(), &mut compressor, &mut Vec::new(), &mut out);
                written.unwrap();
            }
        }
    }
    out
}

fn v2_batch(records: &[Record], codec: Codec, compressor: &mut Compressor, out: &mut Vec<u8>) {
    let varint = |value: i64, out: &mut Vec<u8>| {
        let mut field = [0; 10];
        let bytes = write_i64(value, &mut field);
        out.extend(&field[..bytes]);
    };
    let (first, last) = (records[0], records[records.len() - 1]);
    let mut section = Vec::new();
    for record in records {
        let mut body = vec![0];
        varint(record.timestamp_ms - first.timestamp_ms, &mut body);
        varint(record.offset - first.offset, &mut body);
        for field in [record.key, record.value] {
            varint(field.map_or(-1, |field| field.len() as i64), &mut body);
            body.extend(field.unwrap_or_default());
        }
        body.push(0);
        varint(body.len() as i64, &mut section);
        section.extend(body);
    }
    let begins = out.len();
    out.extend([0; V2_HEADER]);
    compressor.compress(codec, 2, &section, out);
    let header = V2Header {
        base_offset: first.offset,
        leader_epoch: 0,
        crc: 0,
        attributes: codec.id().into(),
        last_offset_delta: (last.offset - first.offset) as i32,
        base_timestamp: first.timestamp_ms,
        max_timestamp: last.timestamp_ms,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: records.len() as i32,
    };
    header.write(&mut out[begins..]).unwrap();
}

/// Records one by one.
#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    /// Those of batches that were ended.
    ended: usize,
}

impl RecordSink for Rows {
    fn record_count(&self) -> usize {
        self.rows.len()
    }

    fn size_bytes(&self) -> usize {
        0
    }

    fn has_room(&self, _records: usize, _bytes: usize) -> bool {
        true
    }

    fn append(&mut self, record: &Record, _headers: &[RecordHeader]) {
        self.rows.push((record.offset, record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec)));
    }

    fn end_batch(&mut self, _batch: BatchValues) {
        self.ended = self.rows.len();
    }

    fn discard_batch(&mut self) {
        self.rows.truncate(self.ended);
    }
}

fn logs() -> Vec<Vec<u8>> {
    let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
    let mut all = codecs.map(|codec| log(2, codec)).to_vec();
    all.extend(codecs[..4].iter().flat_map(|&codec| [log(0, codec), log(1, codec)]));
    assert!(all.iter().all(|log| rows(log).len() == 100));
    all
}

fn rows(buffer: &[u8]) -> Vec<Row> {
    let options = decode::Options {
        base_position: 0,
        selection: Selection::default(),
        conditions: None,
        order: None,
        max_rows: None,
        max_bytes: None,
        check_crcs: true,
        max_batch_bytes: MAX_BATCH_BYTES,
        control: false,
        skipper: None,
    };
    let mut sink = Rows::default();
    let stopped = decode(buffer, &options, &mut sink);
    assert_eq!(stopped.status, Status::End);
    sink.rows
}

fn rewritten(
    buffer: &[u8],
    survivors: &RoaringTreemap,
    survivors_end: i64,
    nulled: Option<&RoaringTreemap>,
    delete_horizon_ms: Option<i64>,
) -> (Vec<u8>, Stats) {
    let options = Options {
        base_position: 0,
        survivors,
        survivors_end,
        now_ms: 0,
        delete_horizon_ms,
        verdicts: None,
        legacy_tombstones_kept: true,
        nulled,
        check_crcs: true,
        max_batch_bytes: MAX_BATCH_BYTES,
        max_bytes: usize::MAX,
        judged: None,
    };
    let mut out = Vec::new();
    let (stopped, stats) = rewrite(buffer, &options, &mut out);
    assert_eq!((stopped.status, stopped.position), (Status::End, buffer.len() as i64));
    (out, stats)
}

fn options(selection: Selection) -> keys::Options<'static> {
    keys::Options { base_position: 0, selection, order: None, check_crcs: true, max_batch_bytes: MAX_BATCH_BYTES }
}

/// Miri can run this one: it calls no C library.
#[test]
fn a_log_without_compression_is_copied() {
    let magics = if cfg!(miri) { 2..=2 } else { 0..=2 };
    for magic in magics {
        let buffer = log(magic, Codec::None);
        let mut map = KeyMap::new(1 << 20);
        feed(&buffer, &options(Selection::default()), &mut map);
        assert_eq!(map.len(), 9);
        let (out, _) = rewritten(&buffer, &RoaringTreemap::new(), 0, None, None);
        assert_eq!(out, buffer);
        let (out, _) = rewritten(&buffer, &RoaringTreemap::from([1003, 1050]), 1098, None, None);
        assert_eq!(rows(&out).iter().map(|row| row.0).collect::<Vec<_>>(), [1003, 1050, 1098, 1099]);
    }
}

#[test]
fn maps_hold_what_the_records_say() {
    for buffer in logs() {
        for (start_offset, end_offset) in [(None, None), (Some(1030), Some(1080))] {
            let selection = || Selection { start_offset, end_offset, ..Selection::default() };
            let mut rows = rows(&buffer);
            rows.retain(|row| selection().contains(row.0));
            let newest: HashMap<&[u8], i64> =
                rows.iter().filter_map(|(offset, key, _)| Some((key.as_deref()?, *offset))).collect();
            let mut map = KeyMap::new(1 << 20);
            let Progress { stopped, records, null_keys } = feed(&buffer, &options(selection()), &mut map);
            assert_eq!((stopped.status, stopped.position), (Status::End, buffer.len() as i64));
            let without_keys = rows.iter().filter(|(_, key, _)| key.is_none()).count();
            assert_eq!((records, null_keys), (rows.len() as u64, without_keys as u64));
            assert_eq!(map.entries().collect::<HashMap<_, _>>(), newest);

            for (map, expected) in [
                (&map, newest.values().map(|&offset| offset as u64).collect::<RoaringTreemap>()),
                (&KeyMap::new(0), rows.iter().filter(|row| row.1.is_some()).map(|row| row.0 as u64).collect()),
            ] {
                let mut survivors = RoaringTreemap::new();
                let mut unshadowed = Unshadowed::new(map, &mut survivors);
                feed(&buffer, &options(selection()), &mut unshadowed);
                unshadowed.finish();
                assert_eq!(survivors, expected);
            }
        }
    }
}

#[test]
fn a_map_that_becomes_full_within_a_batch_holds_the_records_before() {
    for buffer in logs() {
        let rows = rows(&buffer);
        for max_bytes in (0..900).step_by(45) {
            let mut map = KeyMap::new(max_bytes);
            let Progress { stopped, records, .. } = feed(&buffer, &options(Selection::default()), &mut map);
            if stopped.status == Status::Full {
                assert_eq!(stopped.next_offset, Some(rows[records as usize].0));
            }
            let before = &rows[..records as usize];
            let newest: HashMap<&[u8], i64> =
                before.iter().filter_map(|(offset, key, _)| Some((key.as_deref()?, *offset))).collect();
            assert_eq!(map.entries().collect::<HashMap<_, _>>(), newest);
        }
    }
}

#[test]
fn a_rewrite_leaves_the_records_that_survive() {
    for buffer in logs() {
        let rows = rows(&buffer);
        let every = |step: usize| rows.iter().step_by(step).map(|row| row.0 as u64).collect::<RoaringTreemap>();
        for survivors in [every(1), every(2), every(30), RoaringTreemap::new()] {
            for (nulled, delete_horizon_ms) in [(None, None), (Some(every(3)), None), (Some(every(3)), Some(5))] {
                let (out, stats) = rewritten(&buffer, &survivors, 1090, nulled.as_ref(), delete_horizon_ms);
                let has = |set: &RoaringTreemap, row: &&Row| set.contains(row.0 as u64);
                let kept = rows.iter().filter(|row| row.0 >= 1090 || has(&survivors, row));
                let kept = kept.map(|row| match nulled.as_ref().is_some_and(|nulled| has(nulled, &row)) {
                    true => (row.0, row.1.clone(), None),
                    false => row.clone(),
                });
                let kept: Vec<Row> = kept.collect();
                assert_eq!((self::rows(&out), stats.records_kept), (kept.clone(), kept.len() as u64));
                assert!(nulled.is_some() || survivors.len() < 100 || delete_horizon_ms.is_some() || out == buffer);
            }
        }
    }
}
