"""Write logs, open golden logs, and return their rows as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.log import PartitionCheckpoints, PartitionLog
from native_log.segment.files import file_name
from tests.conftest import GoldenPartition, golden_partitions
from tests.records.build import Rec, v2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

PARTITIONS = list(golden_partitions())
COLUMNS = ["offset", "timestamp", "timestampType", "key", "value", "headers", "leaderEpoch"]


def golden(fixture: str) -> GoldenPartition:
    return next(p for p in PARTITIONS if p.fixture == fixture)


def open_golden(partition: GoldenPartition, path: Path | None = None) -> PartitionLog:
    checkpoint = PartitionCheckpoints(log_start_offset=partition.expected["earliest"])
    return PartitionLog.open(
        path or partition.path,
        topic=partition.topic,
        partition=partition.partition,
        checkpoints=checkpoint,
    )


def as_rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Return rows of COLUMNS in the form of the fixtures' expected rows."""
    rows = []
    for batch in batches:
        rows += batch.set_column(1, "timestamp", batch.column("timestamp").cast("int64")).to_pylist()
    for row in rows:
        row["timestamp"] //= 1000
        row["headers"] = [(header["key"], header["value"]) for header in row["headers"] or []]
        row["leaderEpoch"] = None if row["leaderEpoch"] < 0 else row["leaderEpoch"]
    return rows


def offsets(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def batch(offset: int, count: int = 3, size: int = 20, **fields: Any) -> bytes:
    """Return a batch of magic 2 with `count` records. Each value has `size` bytes and contains its offset."""
    values = [str(offset + i).encode().rjust(size, b".") for i in range(count)]
    return v2([Rec(b"k", value) for value in values], offset, **fields)


def write_log(directory: Path, segments: Mapping[int, Sequence[bytes]]) -> Path:
    """Write a partition directory with segments by base offset, and an empty offset index for each."""
    directory.mkdir(parents=True, exist_ok=True)
    for base_offset, batches in segments.items():
        (directory / file_name(base_offset, "log")).write_bytes(b"".join(batches))
        (directory / file_name(base_offset, "index")).touch()
    return directory
