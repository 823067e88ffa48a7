"""What the functions about keys ask for: the same for both implementations."""

from __future__ import annotations

import pyarrow as pa

from native_log.records.encode import known_binary


def known_keys(keys: pa.Array) -> pa.RecordBatch:
    """Keys as one column of a type that both implementations know. Raises ValueError for other types."""
    return pa.RecordBatch.from_arrays([known_binary("key", keys)], ["key"])


def check_row_partitions(partitions: pa.Array, count: int) -> None:
    """Raises ValueError for what `deal` does not take."""
    check_partitions(count)
    if partitions.type != pa.int32() or partitions.null_count:
        raise ValueError(f"expected a partition for each row, int32 without nulls, found {partitions.type}")


def check_partitions(partitions: int) -> None:
    """Raises ValueError for a count of partitions that there cannot be."""
    if not 1 <= partitions < 2**31:
        raise ValueError(f"expected at least one partition, found {partitions}")
