//! Batches made by hand, and rows to compare with. Each test file uses what it needs of it.
#![allow(dead_code)]

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef};
use kafka_log_arrow::columns::{Column, Constants, RecordColumns};
use kafka_log_arrow::decode::decode;
use kafka_log_format::crc::{crc32, crc32c};
use kafka_log_format::decode::Options;
use kafka_log_format::selection::Selection;
use kafka_log_format::status::Stopped;

pub const MAX_BATCH_BYTES: usize = 256 << 20;

pub fn options<'a>() -> Options<'a> {
    Options {
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
    }
}

pub fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// offset, timestamp in ms, timestamp type, key, value
pub type Row = (i64, i64, i32, Option<Vec<u8>>, Option<Vec<u8>>);

pub fn row(offset: i64, timestamp_ms: i64, timestamp_type: i32, key: Option<&str>, value: Option<&str>) -> Row {
    let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
    (offset, timestamp_ms, timestamp_type, bytes(key), bytes(value))
}

pub fn rows(buffer: &[u8], options: &Options) -> (Vec<Row>, Stopped) {
    let columns = [Column::Offset, Column::Timestamp, Column::TimestampType, Column::Key, Column::Value];
    let (records, stopped) = decode(buffer, &columns, Constants::default(), options);
    (rows_of(records), stopped)
}

fn rows_of(records: RecordColumns) -> Vec<Row> {
    let count = records.rows();
    let arrays = records.finish();
    for array in &arrays {
        array.to_data().validate_full().unwrap();
        assert_eq!(array.len(), count);
    }
    let bytes = |array: &ArrayRef, row: usize| {
        let array = array.as_binary::<i32>();
        array.is_valid(row).then(|| array.value(row).to_vec())
    };
    (0..count)
        .map(|row| {
            let offset = arrays[0].as_primitive::<Int64Type>().value(row);
            let timestamp = arrays[1].as_primitive::<TimestampMicrosecondType>().value(row) / 1000;
            let kind = arrays[2].as_primitive::<Int32Type>().value(row);
            (offset, timestamp, kind, bytes(&arrays[3], row), bytes(&arrays[4], row))
        })
        .collect()
}

pub fn varint(value: i64) -> Vec<u8> {
    let mut raw = (value << 1 ^ value >> 63) as u64;
    let mut bytes = Vec::new();
    while raw >= 0x80 {
        bytes.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    bytes.push(raw as u8);
    bytes
}

/// A v2 record without headers.
pub fn record(timestamp_delta: i64, offset_delta: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> Vec<u8> {
    let mut body = vec![0];
    body.extend(varint(timestamp_delta));
    body.extend(varint(offset_delta));
    for field in [key, value] {
        body.extend(varint(field.map_or(-1, |field| field.len() as i64)));
        body.extend(field.unwrap_or_default());
    }
    body.push(0);
    [varint(body.len() as i64), body].concat()
}

/// A v2 batch at offset 100 with base timestamp 1000, whose CRC is right.
pub fn batch(attributes: i16, count: i32, records: &[u8]) -> Vec<u8> {
    let mut crced = Vec::new();
    crced.extend(attributes.to_be_bytes());
    crced.extend((count.max(1) - 1).to_be_bytes());
    crced.extend(1000i64.to_be_bytes());
    crced.extend(2000i64.to_be_bytes());
    crced.extend((-1i64).to_be_bytes());
    crced.extend((-1i16).to_be_bytes());
    crced.extend((-1i32).to_be_bytes());
    crced.extend(count.to_be_bytes());
    crced.extend(records);
    let mut batch = Vec::new();
    batch.extend(100i64.to_be_bytes());
    batch.extend((crced.len() as i32 + 9).to_be_bytes());
    batch.extend(5i32.to_be_bytes());
    batch.push(2);
    batch.extend(crc32c(&crced).to_be_bytes());
    batch.extend(crced);
    batch
}

/// A v0 or v1 message whose CRC is right.
pub fn message(
    magic: u8,
    attributes: u8,
    offset: i64,
    timestamp: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) -> Vec<u8> {
    let mut crced = vec![magic, attributes];
    if magic == 1 {
        crced.extend(timestamp.to_be_bytes());
    }
    for field in [key, value] {
        crced.extend(field.map_or(-1, |field| field.len() as i32).to_be_bytes());
        crced.extend(field.unwrap_or_default());
    }
    let mut message = offset.to_be_bytes().to_vec();
    message.extend((crced.len() as i32 + 4).to_be_bytes());
    message.extend(crc32(&crced).to_be_bytes());
    message.extend(crced);
    message
}

pub fn xerial(blocks: &[&[u8]]) -> Vec<u8> {
    let mut stream = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for block in blocks {
        let compressed = snappy_block(block);
        stream.extend((compressed.len() as i32).to_be_bytes());
        stream.extend(compressed);
    }
    stream
}

pub fn snappy_block(content: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(content).unwrap()
}
