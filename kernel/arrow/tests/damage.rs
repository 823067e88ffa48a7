//! Bytes that no broker wrote: a plain fault each, never rows that are not there.

mod common;

use common::{Row, batch, message, options, record, row, rows, xerial};
use kafka_log_format::damage::Kind;
use kafka_log_format::decode::Options;
use kafka_log_format::selection::Selection;
use kafka_log_format::status::Status;

/// The kind of damage found in `buffer`, and how many rows came before it.
fn damage(buffer: &[u8]) -> (Kind, usize) {
    let (found, stopped) = rows(buffer, &options());
    assert_eq!(stopped.status, Status::Damaged, "{stopped:?}");
    let damage = stopped.damage.unwrap();
    assert!(!damage.fault.message.contains('\n') && damage.fault.message.len() > 20);
    assert_eq!(damage.position, stopped.position);
    (damage.fault.kind, found.len())
}

fn plain(records: &[Vec<u8>]) -> Vec<u8> {
    batch(0, records.len() as i32, &records.concat())
}

fn good() -> Vec<u8> {
    plain(&[record(0, 0, Some(b"k"), Some(b"v")), record(5, 1, None, None), record(6, 2, Some(b""), Some(b""))])
}

fn without_crcs<'a>() -> Options<'a> {
    Options { check_crcs: false, ..options() }
}

fn offsets(start_offset: Option<i64>, end_offset: Option<i64>) -> Selection {
    Selection { start_offset, end_offset, ..Selection::default() }
}

fn with_size(size: i32, magic: u8) -> Vec<u8> {
    let mut bytes = good();
    bytes[8..12].copy_from_slice(&size.to_be_bytes());
    bytes[16] = magic;
    bytes
}

#[test]
fn null_and_empty_differ() {
    let expected: [Row; 3] =
        [row(100, 1000, 0, Some("k"), Some("v")), row(101, 1005, 0, None, None), row(102, 1006, 0, Some(""), Some(""))];
    assert_eq!(rows(&good(), &options()).0, expected);
}

#[test]
fn cut_at_every_byte() {
    let (whole, cut) = (good(), good());
    for length in 0..cut.len() {
        let (found, stopped) = rows(&[&whole[..], &cut[..length]].concat(), &options());
        let expected = match length {
            0 => (Status::End, 0),
            1..=7 => (Status::Zeros, 0), // of offset 100 only the zeros are there
            8..=16 => (Status::Partial, 17),
            17..=60 => (Status::Partial, 61),
            _ => (Status::Partial, whole.len()),
        };
        assert_eq!((stopped.status, stopped.needed_bytes), expected, "{length}");
        assert_eq!((found.len(), stopped.position), (3, whole.len() as i64));
    }
}

#[test]
fn every_flipped_bit_that_the_crc_covers_is_noticed() {
    let good = good();
    for bit in 17 * 8..good.len() * 8 {
        let mut flipped = good.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(damage(&flipped), (Kind::Crc, 0), "bit {bit}");
    }
}

#[test]
fn flipped_bits_without_crcs_never_break_a_call() {
    let good = good();
    for bit in 0..good.len() * 8 {
        let mut flipped = good.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let (found, stopped) = rows(&flipped, &without_crcs());
        assert!(found.len() <= 3 && stopped.position <= 2 << 30);
    }
}

#[test]
fn impossible_prefixes() {
    for size in [13, 0, -1, i32::MIN] {
        assert_eq!(damage(&with_size(size, 2)), (Kind::Size, 0), "{size}");
    }
    assert_eq!(damage(&with_size(48, 2)), (Kind::Size, 0));
    assert_eq!(damage(&with_size(21, 1)), (Kind::Size, 0));
    assert_eq!(damage(&with_size(100, 3)), (Kind::Magic, 0));
    assert_eq!(damage(&with_size(100, 0xff)), (Kind::Magic, 0));
    assert_eq!(damage(&with_size(i32::MAX, 2)), (Kind::TooLarge, 0));
    let (_, stopped) = rows(&with_size(i32::MAX, 2), &Options { max_batch_bytes: usize::MAX, ..options() });
    assert_eq!(stopped.status, Status::Damaged); // 2^31 + 11 bytes are more than any file of a segment has
}

#[test]
fn zeros_are_the_end_only_if_nothing_else_follows() {
    let mut tail = [good(), vec![0; 1000]].concat();
    let (found, stopped) = rows(&tail, &options());
    assert_eq!((found.len(), stopped.status, stopped.position), (3, Status::Zeros, good().len() as i64));
    *tail.last_mut().unwrap() = 1;
    assert_eq!(damage(&tail), (Kind::Size, 3));
}

#[test]
fn a_damaged_batch_has_no_rows_at_all() {
    let records = [record(0, 0, None, Some(b"x")), vec![2, 0]];
    let (found, stopped) = rows(&[good(), plain(&records), good()].concat(), &options());
    assert_eq!((found, stopped.position), (rows(&good(), &options()).0, good().len() as i64));
    assert_eq!(stopped.next_offset, Some(103));
}

#[test]
fn records_fill_their_batch_exactly() {
    let one = record(0, 0, Some(b"key"), Some(b"value"));
    for count in [-1, 0x7fff_ffff, 0, 1, 3] {
        let (found, stopped) = rows(&batch(0, count, &[one.clone(), one.clone()].concat()), &options());
        assert_eq!(found.len(), 0, "{count}");
        let expected = if count == 0 { Status::End } else { Status::Damaged };
        assert_eq!(stopped.status, expected, "{count}");
    }
    for change in [-2i8, 2] {
        let mut wrong = one.clone();
        wrong[0] = wrong[0].wrapping_add_signed(change); // one byte less, one byte more
        assert_eq!(damage(&plain(&[wrong.clone()])), (Kind::Records, 0));
        assert_eq!(damage(&plain(&[wrong, one.clone()])), (Kind::Records, 0));
    }
}

#[test]
fn varints_may_be_long_but_not_too_long() {
    // length, attributes, timestamp delta 1, offset delta 0, key of one byte, null value, no headers
    let body = |key_length: &[u8]| [&[0, 2, 0], key_length, b"k", &[1, 0]].concat();
    let of = |body: Vec<u8>| plain(&[[vec![2 * body.len() as u8], body].concat()]);
    for key_length in [&[2][..], &[0x82, 0], &[0x82, 0x80, 0x80, 0], &[0x82, 0x80, 0x80, 0x80, 0]] {
        assert_eq!(rows(&of(body(key_length)), &options()).0, [row(100, 1001, 0, Some("k"), None)]);
    }
    assert_eq!(damage(&of(body(&[0x82, 0x80, 0x80, 0x80, 0x80, 0]))), (Kind::Records, 0));
}

#[test]
fn header_counts_and_names() {
    let of = |headers: &[u8]| {
        let body = [&[0, 0, 0, 1, 1], headers].concat();
        plain(&[[vec![2 * body.len() as u8], body].concat()])
    };
    assert_eq!(rows(&of(&[2, 0, 1]), &options()).0.len(), 1); // an empty name is a name
    for headers in [&[1][..], &[2], &[4, 0, 1], &[2, 1, 1], &[0xfe, 0xff, 0xff, 0xff, 0x0f], &[0, 0]] {
        assert_eq!(damage(&of(headers)), (Kind::Records, 0), "{headers:?}");
    }
}

#[test]
fn offset_deltas_need_not_be_dense() {
    let sparse = plain(&[record(-1000, 3, None, None), record(1 << 40, 70_000, None, None)]);
    let expected = [row(103, 0, 0, None, None), row(70_100, 1000 + (1 << 40), 0, None, None)];
    assert_eq!(rows(&sparse, &options()).0, expected);
}

#[test]
fn offsets_outside_the_range_are_left_out_within_a_batch() {
    let records: Vec<_> = (0..20).map(|n| record(n, n, None, Some(&[n as u8]))).collect();
    let ranged = Options { selection: offsets(Some(105), Some(117)), ..options() };
    let offsets: Vec<i64> = rows(&plain(&records), &ranged).0.iter().map(|row| row.0).collect();
    assert_eq!(offsets, (105..117).collect::<Vec<_>>());
}

#[test]
fn the_range_applies_to_offsets_that_are_not_in_order() {
    let deltas = (0..300).map(|n| if n % 7 == 0 { -n } else { n * (n % 3) });
    let batch = plain(&deltas.map(|delta| record(0, delta, None, Some(b"v"))).collect::<Vec<_>>());
    let all = rows(&batch, &options()).0;
    assert_eq!(all.len(), 300);
    for start in [-200, 100, 101, 250] {
        for end in [101, 399, 500, 1000] {
            let ranged = Options { selection: offsets(Some(start), Some(end)), ..options() };
            let expected: Vec<_> = all.iter().filter(|row| (start..end).contains(&row.0)).cloned().collect();
            assert_eq!(rows(&batch, &ranged).0, expected, "{start} {end}");
        }
    }
}

#[test]
fn an_offset_beyond_64_bits_is_negative() {
    let mut batch = plain(&[record(0, 200, None, None)]);
    batch[..8].copy_from_slice(&(i64::MAX - 90).to_be_bytes()); // no CRC covers the base offset
    let batches = [batch.clone(), batch].concat(); // the fast reader needs some bytes after the records
    let found = |start| rows(&batches, &Options { selection: offsets(start, None), ..options() }).0.len();
    assert_eq!((found(None), found(Some(0))), (2, 0));
}

#[test]
fn what_the_header_rules_out_is_not_looked_at() {
    let mut broken = plain(&[record(0, 0, None, None)]);
    broken[61] = 0xff;
    let (found, stopped) = rows(&broken[..61], &Options { selection: offsets(Some(101), None), ..options() });
    assert_eq!((found.len(), stopped.status, stopped.position), (0, Status::End, broken.len() as i64));
    let (_, stopped) = rows(&broken, &Options { selection: offsets(None, Some(100)), ..options() });
    assert_eq!((stopped.status, stopped.next_offset), (Status::End, Some(101)));
}

/// A wrapper around `inner`, whose offset and timestamp are its own.
fn wrapper(magic: u8, attributes: u8, offset: i64, inner: &[Vec<u8>]) -> Vec<u8> {
    message(magic, attributes | 2, offset, 9000, None, Some(&xerial(&[&inner.concat()])))
}

fn inner(magic: u8, offset: i64) -> Vec<u8> {
    message(magic, 0, offset, 7000 + offset, Some(b"k"), Some(b"v"))
}

#[test]
fn offsets_and_times_within_wrappers() {
    let of = |offset, timestamp, kind| row(offset, timestamp, kind, Some("k"), Some("v"));
    let cases = [
        // absolute with magic 0, relative with magic 1, where only the distance to the last one counts
        (wrapper(0, 0, 51, &[inner(0, 50), inner(0, 51)]), vec![of(50, -1, -1), of(51, -1, -1)]),
        (wrapper(1, 0, 54, &[inner(1, 0), inner(1, 4)]), vec![of(50, 7000, 0), of(54, 7004, 0)]),
        (wrapper(1, 0, 54, &[inner(1, 3), inner(1, 4)]), vec![of(53, 7003, 0), of(54, 7004, 0)]),
        (wrapper(1, 0, 0, &[inner(1, 0), inner(1, 1)]), vec![of(0, 7000, 0), of(1, 7001, 0)]),
        (wrapper(1, 8, 51, &[inner(1, 0), inner(1, 1)]), vec![of(50, 9000, 1), of(51, 9000, 1)]),
    ];
    for (buffer, expected) in cases {
        let (found, stopped) = rows(&buffer, &options());
        assert_eq!(found, expected, "{stopped:?}");
        assert_eq!(stopped.next_offset, Some(expected[1].0 + 1));
    }
    // KAFKA-4298: each inner message is read by its own magic.
    assert_eq!(rows(&wrapper(1, 0, 9, &[inner(0, 0)]), &options()).0[0].1, -1);
    assert_eq!(rows(&wrapper(0, 0, 9, &[inner(1, 9)]), &options()).0[0].1, 7009);
}

#[test]
fn a_cut_tail_within_a_wrapper_ends_it_quietly() {
    let whole = [inner(1, 0), inner(1, 1)].concat();
    for length in inner(1, 0).len()..whole.len() {
        let buffer = wrapper(1, 0, 50, &[whole[..length].to_vec()]);
        assert_eq!(rows(&buffer, &options()).0.len(), 1, "{length}");
    }
}

#[test]
fn wrappers_that_cannot_be() {
    let nested = message(1, 2, 0, 0, None, Some(&xerial(&[&inner(1, 0)])));
    let mut broken = inner(1, 0);
    *broken.last_mut().unwrap() ^= 1;
    let cases = [
        (message(1, 2, 5, 0, None, None), Kind::Records),
        (message(1, 2, 5, 0, None, Some(b"")), Kind::Compression),
        (wrapper(1, 0, 5, &[]), Kind::Records),
        (wrapper(1, 0, 5, &[inner(1, 0)[..30].to_vec()]), Kind::Records),
        (wrapper(1, 0, 5, &[vec![0; 40]]), Kind::Records),
        (wrapper(1, 0, 5, &[nested]), Kind::Records),
        (wrapper(1, 0, 5, &[inner(1, 6)]), Kind::Records),
        (wrapper(1, 0, 5, &[broken]), Kind::Crc),
        (message(1, 4, 5, 0, None, Some(b"x")), Kind::Codec),
        (message(0, 7, 5, 0, None, Some(b"x")), Kind::Codec),
    ];
    for (buffer, kind) in cases {
        assert_eq!(damage(&buffer), (kind, 0));
    }
    // A wrapper's own CRC is not looked at: the Java consumer does not either.
    let mut altered = wrapper(1, 0, 5, &[inner(1, 0)]);
    altered[12] ^= 1;
    assert_eq!(rows(&altered, &options()).1.status, Status::End);
    let mut altered = inner(1, 0);
    altered[12] ^= 1;
    assert_eq!(damage(&altered), (Kind::Crc, 0));
}

#[test]
fn limits_stop_between_batches() {
    let buffer = [good(), good(), good()].concat();
    for (most, expected) in [(0, 3), (1, 3), (3, 3), (4, 6), (7, 9), (9, 9)] {
        let (found, stopped) = rows(&buffer, &Options { max_rows: Some(most), ..options() });
        assert_eq!(found.len(), expected);
        let status = if expected == 9 { Status::End } else { Status::Limit };
        assert_eq!((stopped.status, stopped.position), (status, (expected / 3 * good().len()) as i64));
    }
    let (found, stopped) = rows(&buffer, &Options { max_bytes: Some(1), ..options() });
    assert_eq!((found.len(), stopped.status), (3, Status::Limit));
}
