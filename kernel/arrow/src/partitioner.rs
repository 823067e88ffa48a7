//! The hash and the partition of each key of a column.

use arrow_array::Int32Array;
use kafka_log_format::partitioner::{murmur2, partition};

use crate::encode::columns::Binary;

/// The hash of each key, null for null.
pub fn hashes(keys: &Binary, rows: usize) -> Int32Array {
    of_each(keys, rows, murmur2)
}

/// The partition of each key, of so many, at least one; null for null.
pub fn partitions(keys: &Binary, rows: usize, count: i32) -> Int32Array {
    of_each(keys, rows, |key| partition(key, count))
}

fn of_each(keys: &Binary, rows: usize, value: impl Fn(&[u8]) -> i32) -> Int32Array {
    if keys.has_nulls() {
        return (0..rows).map(|row| keys.get(row).map(&value)).collect();
    }
    Int32Array::from_iter_values((0..rows).map(|row| keys.get(row).map_or(0, &value)))
}
