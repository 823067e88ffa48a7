//! The bodies of the fuzz targets: functions of any bytes that panic if the kernel is wrong. `tests/fuzz.rs` runs them
//! on stable Rust, `fuzz_targets` as libFuzzer targets. The first four bytes of each input are parameters.
#![allow(dead_code)] // a libFuzzer target uses one of them

pub mod compaction;
pub mod lz4_block;
mod model;
pub mod read;
pub mod round_trip;
mod sealed;
pub mod snappy_block;

pub type Target = fn(&[u8]);

/// All targets, with their names.
pub const TARGETS: [(&str, Target); 5] = [
    ("lz4_block", lz4_block::run),
    ("snappy_block", snappy_block::run),
    ("read", read::run),
    ("compaction", compaction::run),
    ("round_trip", round_trip::run),
];
