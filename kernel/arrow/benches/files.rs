//! Decoding a file to the seven columns of Spark's kafka source, CRCs checked, with calls of several sizes:
//!
//!     cargo bench --bench files                    # everything, a few minutes
//!     cargo bench --bench files -- kb1/none
//!
//! In nanoseconds a record, from the page cache. "pread" is reading the same bytes and no more: nothing that reads a file
//! into memory is faster. Calls with low limits should take little longer than large ones.

mod support;

use std::cell::RefCell;
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;

use kafka_log_arrow::columns::{Column, Constants};
use kafka_log_arrow::decode::decode_file;
use kafka_log_format::codec::Codec;
use kafka_log_format::decode::Options;
use kafka_log_format::selection::Selection;

use support::batches::{MAX_BATCH_BYTES, encoded};
use support::measure::{Contender, in_turn, is_selected};
use support::shapes::SHAPES;

/// Records that are encoded, and how large the file is that they are written to again and again: more than the processor's
/// caches hold.
const BYTES: usize = 8 << 20;
const FILE_BYTES: usize = 96 << 20;
const ROUNDS: usize = 5;
const CALL_BYTES: u64 = 4 << 20;
const CONSTANTS: Constants = Constants { topic: Some("topic"), partition: Some(0), segment: None };
const COLUMNS: [Column; 7] = [
    Column::Key,
    Column::Value,
    Column::Topic,
    Column::Partition,
    Column::Offset,
    Column::Timestamp,
    Column::TimestampType,
];

fn main() {
    println!("{:<28} {:>9} {:>9} {:>9} {:>9} {:>9}", "ns/record", "4 MiB", "256 KiB", "64 KiB", "1000 rows", "pread");
    for shape in SHAPES.iter().filter(|shape| !["random", "zeros"].contains(&shape.name)) {
        for codec in [Codec::None, Codec::Lz4, Codec::Snappy, Codec::Zstd] {
            for batch_size in [16 << 10, 64 << 10] {
                let place = format!("{}/{}/{}k", shape.name, codec.name(), batch_size >> 10);
                if is_selected(&place) {
                    let (batches, records) = encoded(shape, codec, batch_size, BYTES);
                    let copies = FILE_BYTES.div_ceil(batches.len());
                    let times = measure(&file_of(&batches, copies), copies * records);
                    let columns: Vec<String> = times.iter().map(|time| format!("{time:9.1}")).collect();
                    println!("{place:<28} {}", columns.join(" "));
                }
            }
        }
    }
}

fn measure(file: &File, records: usize) -> Vec<f64> {
    let limited = |max_bytes, max_rows| move || assert_eq!(decoded(file, max_bytes, max_rows), records);
    let chunk = RefCell::new(vec![0; 1 << 20]);
    in_turn(
        &mut [
            Contender::new("4 MiB", records, limited(None, None)),
            Contender::new("256 KiB", records, limited(Some(256 << 10), None)),
            Contender::new("64 KiB", records, limited(Some(64 << 10), None)),
            Contender::new("1000 rows", records, limited(None, Some(1000))),
            Contender::new("pread", records, || {
                let mut position = 0;
                while let Ok(bytes @ 1..) = file.read_at(&mut chunk.borrow_mut(), position) {
                    position += bytes as u64;
                }
            }),
        ],
        ROUNDS,
    )
}

/// How many records the file has.
fn decoded(file: &File, max_bytes: Option<usize>, max_rows: Option<usize>) -> usize {
    let size = file.metadata().expect("an open file").len();
    let (mut position, mut rows) = (0, 0);
    while position < size {
        let options = Options {
            base_position: position as i64,
            selection: Selection::default(),
            conditions: None,
            order: None,
            max_rows,
            max_bytes,
            check_crcs: true,
            max_batch_bytes: MAX_BATCH_BYTES,
            control: false,
            skipper: None,
        };
        let (records, stopped) =
            decode_file(file, size.min(position + CALL_BYTES), &COLUMNS, CONSTANTS, &options).expect("a file");
        assert!(stopped.position as u64 > position, "{stopped:?}");
        position = stopped.position as u64;
        rows += records.rows();
        black_box(records.finish());
    }
    rows
}

/// A file without a name, written as a broker does: a little at a time.
fn file_of(batches: &[u8], copies: usize) -> File {
    let path = std::env::temp_dir().join(format!("kafkalog-bench-{}", std::process::id()));
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).expect("a temporary file");
    std::fs::remove_file(&path).expect("the file just created");
    for part in std::iter::repeat_n(batches.chunks(64 << 10), copies).flatten() {
        file.write_all(part).expect("room in the temporary folder");
    }
    file
}
