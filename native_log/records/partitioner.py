"""Checks of the arguments of the partitioner, which both implementations share."""

from __future__ import annotations

import pyarrow as pa

from native_log.records.encoding import known_binary


def known_keys(keys: pa.Array) -> pa.RecordBatch:
    """Return keys as one column of a type that both implementations know. Raise ValueError for other
    types."""
    return pa.RecordBatch.from_arrays([known_binary("key", keys)], ["key"])


def check_row_partitions(partitions: pa.Array, count: int) -> None:
    """Raise ValueError unless there is a partition number (int32) for each row."""
    check_partitions(count)
    if partitions.type != pa.int32() or partitions.null_count:
        raise ValueError(f"expected a partition for each row as int32 without nulls, found {partitions.type}")


def check_partitions(partitions: int) -> None:
    """Raise ValueError for a number of partitions out of range."""
    if not 1 <= partitions < 2**31:
        raise ValueError(f"expected from 1 to {2**31 - 1} partitions, found {partitions}")
