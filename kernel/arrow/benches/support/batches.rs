//! Records to batches, as Kafka's producer cuts them.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StructArray};
use arrow_schema::{DataType, Field};
use kafka_log_arrow::encode::columns::Records;
use kafka_log_arrow::encode::ratio::Ratio;
use kafka_log_arrow::encode::rows::Part;
use kafka_log_arrow::encode::{Options, encode};
use kafka_log_format::codec::{Codec, Decompressor, SLACK};
use kafka_log_format::header::{V2_HEADER, V2Header};

use super::shapes::Shape;

pub const MAX_BATCH_BYTES: usize = 256 << 20;

/// Records of about `bytes` bytes in batches of a `batch.size`, and how many records they are.
pub fn encoded(shape: &Shape, codec: Codec, batch_size: usize, bytes: usize) -> (Vec<u8>, usize) {
    let values = shape.values(bytes);
    let keys: Vec<String> = (0..values.len()).map(|number| format!("key-{number:012}")).collect();
    let column = |name: &str, array: BinaryArray| -> (Arc<Field>, ArrayRef) {
        (Arc::new(Field::new(name, DataType::Binary, false)), Arc::new(array))
    };
    let rows = StructArray::from(vec![
        column("key", BinaryArray::from_iter_values(keys)),
        column("value", BinaryArray::from_iter_values(&values)),
    ]);
    let options = Options {
        magic: 2,
        codec,
        level: None,
        batch_size,
        max_message_bytes: None,
        base_offset: 0,
        leader_epoch: 0,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        is_transactional: false,
        append_time_ms: None,
        now_ms: 1_767_225_600_000,
        finish: true,
    };
    let records = Records::of(&rows).expect("binary columns");
    // About what the estimate of a producer that has been sending for a while is.
    let (mut ratio, mut batches) = (Ratio(0.5), Vec::new());
    encode(&[Part::all(records)], &options, &mut ratio, &mut batches).expect("records of usual sizes");
    (batches, values.len())
}

/// The compressed payload of each batch, and its content.
pub fn payloads(batches: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut rest, mut decompressor, mut all) = (batches, Decompressor::default(), Vec::new());
    while let Some(header) = rest.first_chunk::<V2_HEADER>() {
        let total = 12 + u32::from_be_bytes(header[8..12].try_into().expect("four bytes")) as usize;
        let payload = &rest[V2_HEADER..total];
        let content = decompressor.decompress(V2Header::parse(header).codec(), 2, payload, MAX_BATCH_BYTES);
        let content = content.expect("what was compressed before");
        all.push((payload.to_vec(), content[..content.len() - SLACK].to_vec()));
        rest = &rest[total..];
    }
    all
}
