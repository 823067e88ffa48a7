//! Byte for byte what brokers and clients of all three formats write.

mod common;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use common::{MAX_BATCH_BYTES, bytes_of, options, row, rows};
use kafka_log_arrow::columns::{Column, Constants};
use kafka_log_arrow::decode::decode;
use kafka_log_format::find::find_batch;
use kafka_log_format::scan::scan;
use kafka_log_format::status::Status;

const V0: &str = "0000000000000000000000162356c1370000000000036b65790000000576616c7565";
const V0_NULL_KEY: &str = "00000000000000000000001 3acc084000000ffffffff0000000576616c7565";
const V1: &str = "00000000000000000000001efa8f80f5010000000174876e8000000000036b65790000000576616c7565";
const V2: &str = "000000000000000000000040ffffffff02c65781af00000000000000000174876e800000000174876e8000\
                  ffffffffffffffffffffffffffff000000011c000000066b65790a76616c756500";
const V2_NULL_KEY: &str = "00000000000000000000003dffffffff025543e71a00000000000000000174876e800000000174876e8000\
                           ffffffffffffffffffffffffffff0000000116000000010a76616c756500";
const V2_TEN_HEADER: &str = "0000000000000000000000b3ffffffff020b669e6500000000000900000174876e800000000174876e8000\
                             ffffffffffffffffffffffffffff0000000a";
const COMMIT: &str = "000000000000002a000000420000000002f16784c100300000000000000174876e800000000174876e8000\
                      00000000000000070003ffffffff000000012000000008000000010c00000000000500";
const ABORT: &str = "000000000000002a0000004200000000020559528900300000000000000174876e800000000174876e8000\
                     00000000000000070003ffffffff000000012000000008000000000c00000000000500";
const EMPTY: &str = "0000000000000064000000310000000402090209f4000000000009ffffffffffffffff00000174876e8000\
                     000000000000000700030000001400000000";
const TOMBSTONE: &str = "00000000000000640000003c0000000402a14a35f5004000000009000001748c94dc0000000174876e8000\
                         ffffffffffffffffffffffffffff000000011400ffefb25206026b0100";
const HEADERS: &str = "00000000000000000000003fffffffff02c213b57c00000000000000000174876e800000000174876e8000\
                       ffffffffffffffffffffffffffff000000011a00000001010402680231026801";
const TIME: i64 = 1_600_000_000_000;

fn ten() -> Vec<u8> {
    let mut batch = bytes_of(V2_TEN_HEADER);
    for number in 0..10 {
        batch.extend(bytes_of("180000"));
        batch.extend([2 * number, 1, 0x0c]);
        batch.extend(b"value");
        batch.extend([b'0' + number, 0]);
    }
    batch
}

#[test]
fn single_records_of_every_format() {
    let expected = [
        (V0, row(0, -1, -1, Some("key"), Some("value"))),
        (V0_NULL_KEY, row(0, -1, -1, None, Some("value"))),
        (V1, row(0, TIME, 0, Some("key"), Some("value"))),
        (V2, row(0, TIME, 0, Some("key"), Some("value"))),
        (V2_NULL_KEY, row(0, TIME, 0, None, Some("value"))),
        (TOMBSTONE, row(103, TIME, 0, Some("k"), None)),
    ];
    for (hex, row) in expected {
        let buffer = bytes_of(hex);
        let (found, stopped) = rows(&buffer, &options());
        assert_eq!(found, [row], "{hex}");
        assert_eq!((stopped.status, stopped.position), (Status::End, buffer.len() as i64));
    }
}

#[test]
fn a_segment_may_mix_the_formats() {
    let buffer = [bytes_of(V0), bytes_of(V2), bytes_of(V1), ten()].concat();
    let (found, stopped) = rows(&buffer, &options());
    assert_eq!(found.len(), 13);
    assert_eq!(found[12], row(9, TIME, 0, None, Some("value9")));
    assert_eq!(stopped.next_offset, Some(10));
}

#[test]
fn the_next_offset_is_that_behind_the_last_one_kept_or_not() {
    assert_eq!(rows(&bytes_of(TOMBSTONE), &options()).1.next_offset, Some(110));
    let (found, stopped) = rows(&bytes_of(EMPTY), &options());
    assert_eq!((found.len(), stopped.status, stopped.next_offset), (0, Status::End, Some(110)));
}

#[test]
fn markers_are_rows_only_when_asked_for() {
    let buffer = bytes_of(COMMIT);
    let (found, stopped) = rows(&buffer, &options());
    assert_eq!((found.len(), stopped.next_offset), (0, Some(43)));
    let mut with_control = options();
    with_control.control = true;
    let (found, _) = rows(&buffer, &with_control);
    assert_eq!(found, [(42, TIME, 0, Some(vec![0, 0, 0, 1]), Some(vec![0, 0, 0, 0, 0, 5]))]);
}

#[test]
fn headers_keep_order_duplicates_and_nulls() {
    let columns = [Column::Headers];
    let (records, _) = decode(&[bytes_of(V2), bytes_of(HEADERS)].concat(), &columns, Constants::default(), &options());
    let arrays = records.finish();
    let lists = arrays[0].as_list::<i32>();
    assert!(lists.is_null(0));
    let entries = lists.value(1);
    let entries = entries.as_struct();
    let names: Vec<_> = entries.column(0).as_string::<i32>().iter().collect();
    let values: Vec<_> = entries.column(1).as_binary::<i32>().iter().collect();
    assert_eq!((names, values), (vec![Some("h"), Some("h")], vec![Some(&b"1"[..]), None]));
}

#[test]
fn scanned_headers() {
    let buffer = [bytes_of(COMMIT), bytes_of(ABORT), bytes_of(EMPTY), bytes_of(TOMBSTONE), bytes_of(V0)].concat();
    let (batches, stopped) = scan(&buffer, 1000, true, MAX_BATCH_BYTES, None);
    assert_eq!((stopped.status, stopped.position), (Status::End, 1000 + buffer.len() as i64));
    assert_eq!(
        batches.iter().map(|batch| batch.control_type).collect::<Vec<_>>(),
        [Some(1), Some(0), None, None, None]
    );
    assert!(batches.iter().all(|batch| batch.is_valid == Some(true)));
    let [commit, _, empty, tombstone, v0] = &batches[..] else { panic!("five batches") };
    assert_eq!((commit.producer_id, commit.producer_epoch, commit.last_sequence), (7, 3, -1));
    assert!(commit.is_transactional && commit.is_control);
    assert_eq!((empty.base_sequence, empty.last_sequence, empty.record_count), (20, 29, Some(0)));
    assert_eq!((empty.base_offset, empty.last_offset, empty.leader_epoch), (Some(100), 109, 4));
    assert_eq!((tombstone.base_timestamp, tombstone.delete_horizon_ms), (None, Some(1_600_086_400_000)));
    assert_eq!((v0.position, v0.base_offset, v0.max_timestamp), (1000 + 78 * 2 + 61 + 72, Some(0), -1));
}

#[test]
fn a_scan_needs_no_more_than_headers() {
    let ten = ten();
    let (batches, stopped) = scan(&ten[..61], 0, false, MAX_BATCH_BYTES, None);
    assert_eq!((batches.len(), stopped.status, stopped.position), (1, Status::End, 191));
    let (batches, stopped) = scan(&ten[..60], 0, false, MAX_BATCH_BYTES, None);
    assert_eq!((batches.len(), stopped.status, stopped.needed_bytes), (0, Status::Partial, 61));
    let (_, stopped) = scan(&bytes_of(COMMIT)[..61], 0, false, MAX_BATCH_BYTES, None);
    assert_eq!((stopped.status, stopped.needed_bytes), (Status::Partial, 78));
}

#[test]
fn a_batch_is_found_behind_garbage() {
    let mut buffer = vec![2; 100];
    buffer.extend(ten());
    buffer.extend(bytes_of(V1));
    assert_eq!(find_batch(&buffer, 0, 0, i64::MAX, 0), Some(100));
    assert_eq!(find_batch(&buffer, 101, 0, i64::MAX, 0), Some(291));
    assert_eq!(find_batch(&buffer, 0, 1, i64::MAX, 0), None);
    assert_eq!(find_batch(&buffer[..buffer.len() - 1], 101, 0, i64::MAX, 0), None);
    assert_eq!(find_batch(&[], 0, 0, i64::MAX, 0), None);
}
