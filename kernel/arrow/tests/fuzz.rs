//! The fuzz targets on stable Rust: inputs made of good ones by a few changes, the same in every run.
//!
//! `KERNEL_FUZZ_ROUNDS` is how many inputs each target gets. `make fuzz` runs the same targets under libFuzzer.

mod common;
#[path = "../../fuzz/targets/mod.rs"]
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::{env, fs};

use common::{batch, message, record, snappy_block};
use kafka_log_format::codec::{Codec, Compressor};
use kafka_log_format::compaction::buckets::KeyBuckets;
use kafka_log_format::compaction::keys::{Options, feed};
use kafka_log_format::compaction::packs::Kind;
use kafka_log_format::selection::Selection;

const DEFAULT_ROUNDS: usize = 1000;
/// Larger golden segments are not used as seeds.
const MOST_SEED_BYTES: u64 = 4 << 10;
/// Of the golden segments, one in so many is a seed.
const GOLDEN_STEP: usize = 8;

#[test]
fn lz4_block() {
    fuzz("lz4_block", &lz4_seeds());
}

#[test]
fn snappy_block_reader() {
    fuzz("snappy_block", &snappy_seeds());
}

#[test]
fn read() {
    fuzz("read", &buffer_seeds());
}

#[test]
fn compaction() {
    fuzz("compaction", &compaction_seeds());
}

#[test]
fn round_trip() {
    fuzz("round_trip", &contents());
}

/// For libFuzzer, which begins with the files that it finds.
#[test]
#[ignore = "writes the seeds of each target to fuzz/corpus"]
fn write_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let seeds = [lz4_seeds(), snappy_seeds(), buffer_seeds(), compaction_seeds(), contents()];
    for ((name, _), seeds) in targets::TARGETS.iter().zip(seeds) {
        let directory = corpus.join(name);
        fs::create_dir_all(&directory).unwrap();
        for (number, seed) in seeds.iter().enumerate() {
            let parameters = Random(number as u64).bytes(4);
            fs::write(directory.join(format!("seed-{number}")), [parameters, seed.clone()].concat()).unwrap();
        }
    }
}

/// Runs the target with this name on each seed, and on changed ones.
fn fuzz(name: &str, seeds: &[Vec<u8>]) {
    let (_, target) = targets::TARGETS.iter().find(|(known, _)| *known == name).unwrap();
    let rounds = env::var("KERNEL_FUZZ_ROUNDS").map_or(DEFAULT_ROUNDS, |rounds| rounds.parse().unwrap());
    let mut random = Random(1);
    for round in 0..rounds.max(seeds.len()) {
        let mut input = seeds[round % seeds.len()].clone();
        for _ in 0..if round < seeds.len() { 0 } else { 1 + random.below(5) } {
            change(&mut input, seeds, &mut random);
        }
        let input = [random.bytes(4), input].concat();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(&input))) {
            eprintln!("{name} failed in round {round} with the input {}", hex(&input));
            resume_unwind(panic);
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    const NUMBERS: [i32; 10] = [-1, 0, 1, 2, 49, 127, 128, 65_535, i32::MAX, i32::MIN];
    let at = random.below(input.len() + 1);
    let end = at + random.below(input.len() - at + 1).min(64);
    match random.below(8) {
        0 => input.truncate(at),
        1 => drop(input.drain(at..end)),
        2 => input.extend_from_within(at..end),
        3 => {
            let other = &seeds[random.below(seeds.len())];
            input.truncate(at);
            input.extend(&other[random.below(other.len() + 1)..]);
        }
        4 => drop(input.splice(at..at, [random.below(256) as u8])),
        5 if at + 4 <= input.len() => {
            input[at..at + 4].copy_from_slice(&NUMBERS[random.below(NUMBERS.len())].to_be_bytes());
        }
        6 if at < input.len() => input[at] = random.below(256) as u8,
        _ if at < input.len() => input[at] ^= 1 << random.below(8),
        _ => {}
    }
}

/// Splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

/// Noise, runs, and repetitions of several lengths from near and far.
fn contents() -> Vec<Vec<u8>> {
    let mut random = Random(2);
    let mut all = vec![Vec::new(), vec![7; 3], vec![7; 1000]];
    for round in 0..12 {
        let (most, longest) = ([100, 700, 3000][round % 3], [5, 20, 80, 400][round / 3]);
        let mut content = Vec::new();
        while content.len() < most {
            let bytes = 1 + random.below(longest);
            if content.is_empty() || random.below(3) == 0 {
                content.extend(random.bytes(bytes));
            } else {
                let offset = 1 + random.below(content.len());
                (0..bytes).for_each(|_| content.push(content[content.len() - offset]));
            }
        }
        all.push(content);
    }
    all
}

fn lz4_seeds() -> Vec<Vec<u8>> {
    let contents = contents().into_iter().filter(|content| !content.is_empty());
    // A frame without its header, the block's size, and the end mark.
    contents.map(|content| compressed(Codec::Lz4, &content)).map(|frame| frame[11..frame.len() - 4].to_vec()).collect()
}

fn snappy_seeds() -> Vec<Vec<u8>> {
    contents().iter().map(|content| snappy_block(content)).collect()
}

fn compressed(codec: Codec, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Compressor::default().compress(codec, 2, content, &mut out);
    out
}

/// Batches of all formats and codecs, and segments that brokers wrote.
fn buffer_seeds() -> Vec<Vec<u8>> {
    let records = [
        record(0, 0, Some(b"key"), Some(b"a value")),
        record(5, 1, Some(b"other"), None),
        record(-7, 2, Some(b"key"), Some(&[b'v'; 200])),
        record(9, 4, None, Some(b"")),
    ]
    .concat();
    let mut seeds = vec![Vec::new(), vec![0; 100]];
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let section = compressed(codec, &records);
        let id = i16::from(codec.id());
        // As it is, in a transaction with LogAppendTime, and with a delete horizon.
        seeds.push([0, 0x18, 0x40].map(|flags| batch(id | flags, 4, &section)).concat());
    }
    for magic in [0, 1] {
        let message = |offset, key| message(magic, 0, offset, 7000, Some(key), Some(b"v"));
        let messages = [message(0, b"a"), message(1, b"b"), message(3, b"a")].concat();
        seeds.push(messages.clone());
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4] {
            let mut value = Vec::new();
            Compressor::default().compress(codec, magic as i8, &messages, &mut value);
            let last_offset = if magic == 0 { 3 } else { 53 };
            seeds.push(common::message(magic, codec.id(), last_offset, 7000, None, Some(&value)));
        }
    }
    let mut golden = Vec::new();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/golden");
    segments(&data, &mut golden);
    golden.sort();
    assert!(golden.len() > 100, "expected segments below {}, found {}", data.display(), golden.len());
    seeds.extend(golden.iter().step_by(GOLDEN_STEP).map(|path| fs::read(path).unwrap()));
    seeds
}

/// The segments below a directory that are small enough.
fn segments(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            segments(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "log") {
            let bytes = fs::metadata(&path).unwrap().len();
            found.extend((1..=MOST_SEED_BYTES).contains(&bytes).then_some(path));
        }
    }
}

/// Buffers, and a pack of keys.
fn compaction_seeds() -> Vec<Vec<u8>> {
    let mut seeds = buffer_seeds();
    let mut buckets = KeyBuckets::new(Kind::Clean, 1, 1 << 20);
    let selection = Selection::default();
    let options = Options { base_position: 0, selection, order: None, check_crcs: true, max_batch_bytes: 1 << 20 };
    feed(&batch(0, 1, &record(0, 0, Some(b"key"), None)), &options, &mut buckets);
    seeds.extend(buckets.take());
    seeds
}
