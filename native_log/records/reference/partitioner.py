"""Kafka's default partitioner (Kafka: Utils.murmur2, BuiltInPartitioner.partitionForKey)."""

from __future__ import annotations

import struct

import pyarrow as pa

from native_log.records.partitioner import check_partitions, check_row_partitions, known_keys

_SEED, _MIX, _MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def murmur2(keys: pa.Array) -> pa.Array:
    """Return the 32-bit hash by which Kafka's clients select the partition of a key.

    Args:
        keys: binary or string (its UTF-8), of any width.

    Returns:
        int32, one for each key; null for null.

    Raises:
        ValueError: keys of another type.
    """
    return pa.array([None if key is None else _signed(_murmur2(key)) for key in _bytes(keys)], pa.int32())


def partition_of_keys(keys: pa.Array, partitions: int) -> pa.Array:
    """Return the partition to which Kafka's producer sends a record with this key.

    Args:
        keys: binary or string (its UTF-8), of any width. An empty key is a key.
        partitions: the number of partitions of the topic.

    Returns:
        int32 from 0 to partitions - 1, one for each key; null for null: a record without a key can go to any
        partition.

    Raises:
        ValueError: keys of another type, or `partitions` out of range.
    """
    check_partitions(partitions)
    numbers = [None if key is None else (_murmur2(key) & 0x7FFFFFFF) % partitions for key in _bytes(keys)]
    return pa.array(numbers, pa.int32())


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of one key; see partition_of_keys."""
    check_partitions(partitions)
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def rows_by_partition(partitions: pa.Array, count: int) -> list[tuple[int, pa.Array]]:
    """Group rows by partition.

    Args:
        partitions: the partition of each row, int32 without nulls.
        count: the number of partitions.

    Returns:
        For each partition that has rows, in ascending order: its number, and the numbers of its rows (uint32,
        ascending).

    Raises:
        ValueError: a partition out of range, or partitions of another type.
    """
    check_row_partitions(partitions, count)
    by_partition: dict[int, list[int]] = {}
    for row, partition in enumerate(partitions.to_pylist()):
        if not 0 <= partition < count:
            raise ValueError(f"expected partitions from 0 to {count - 1}, found {partition} in row {row}")
        by_partition.setdefault(partition, []).append(row)
    return [(partition, pa.array(rows, pa.uint32())) for partition, rows in sorted(by_partition.items())]


def _bytes(keys: pa.Array) -> list[bytes | None]:
    column = known_keys(keys).column(0)
    values: list[bytes | None] = (
        column if pa.types.is_null(column.type) else column.cast(pa.large_binary())
    ).to_pylist()
    return values


def _murmur2(data: bytes) -> int:
    value = _SEED ^ len(data)
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        word = word * _MIX & _MASK
        word = (word ^ word >> 24) * _MIX & _MASK
        value = value * _MIX & _MASK ^ word
    if tail := data[whole:]:
        value = (value ^ int.from_bytes(tail, "little")) * _MIX & _MASK
    value = (value ^ value >> 13) * _MIX & _MASK
    return value ^ value >> 15


def _signed(value: int) -> int:
    return value - (value >> 31 << 32)
