"""The partition of a key, as Kafka's default partitioner has it (Kafka: Utils.murmur2,
BuiltInPartitioner.partitionForKey)."""

from __future__ import annotations

import struct

import pyarrow as pa

from native_log.records.partitioner import check_partitions, check_row_partitions, known_keys

_SEED, _MIX, _MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def murmur2(keys: pa.Array) -> pa.Array:
    """The 32-bit hash Kafka's clients choose a partition by.

    Args:
        keys: binary or string (its UTF-8), of any width.

    Returns:
        int32, one for each key; null for null.

    Raises:
        ValueError: keys of another type.
    """
    return pa.array([None if key is None else _signed(_murmur2(key)) for key in _bytes(keys)], pa.int32())


def partition_of_keys(keys: pa.Array, partitions: int) -> pa.Array:
    """The partition Kafka's producer sends a record with this key to.

    Args:
        keys: binary or string (its UTF-8), of any width. An empty one is a key.
        partitions: how many the topic has.

    Returns:
        int32 from 0 to partitions - 1, one for each key; null for null: a record without a key may go
        anywhere.

    Raises:
        ValueError: keys of another type, or no partition.
    """
    check_partitions(partitions)
    found = [None if key is None else (_murmur2(key) & 0x7FFFFFFF) % partitions for key in _bytes(keys)]
    return pa.array(found, pa.int32())


def deal(partitions: pa.Array, count: int) -> list[tuple[int, pa.Array]]:
    """Rows by the partition they go to.

    Args:
        partitions: of each row, int32, no nulls.
        count: how many partitions there are.

    Returns:
        Of each partition that gets any, in order, its number and the numbers of its rows, uint32, in order.

    Raises:
        ValueError: a partition that there is not, or partitions of another type.
    """
    check_row_partitions(partitions, count)
    by_partition: dict[int, list[int]] = {}
    for row, partition in enumerate(partitions.to_pylist()):
        if not 0 <= partition < count:
            raise ValueError(f"there are {count} partitions, a row goes to another")
        by_partition.setdefault(partition, []).append(row)
    return [(partition, pa.array(rows, pa.uint32())) for partition, rows in sorted(by_partition.items())]


def _bytes(keys: pa.Array) -> list[bytes | None]:
    column = known_keys(keys).column(0)
    found: list[bytes | None] = (
        column if pa.types.is_null(column.type) else column.cast(pa.large_binary())
    ).to_pylist()
    return found


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
