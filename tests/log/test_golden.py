"""Every partition that real brokers wrote: the rows a consumer got, in both isolation levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from native_log.errors import CorruptRecordError
from native_log.log import PartitionCheckpoints, PartitionLog

from tests.conftest import GoldenPartition, golden_id, golden_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

COLUMNS = ["offset", "timestamp", "timestampType", "key", "value", "headers", "leaderEpoch"]
PARTITIONS = list(golden_partitions())


def open_golden(golden: GoldenPartition) -> PartitionLog:
    checkpoint = PartitionCheckpoints(log_start_offset=golden.expected["earliest"])
    return PartitionLog.open(golden.path, checkpoints=checkpoint)


def as_rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Rows of COLUMNS as the fixtures tell them."""
    rows = []
    for batch in batches:
        rows += batch.set_column(1, "timestamp", batch.column("timestamp").cast("int64")).to_pylist()
    for row in rows:
        row["timestamp"] //= 1000
        row["headers"] = [(header["key"], header["value"]) for header in row["headers"] or []]
        row["leaderEpoch"] = None if row["leaderEpoch"] < 0 else row["leaderEpoch"]
    return rows


@pytest.mark.parametrize("golden", PARTITIONS, ids=golden_id)
@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_rows(golden: GoldenPartition, isolation_level: str) -> None:
    log = open_golden(golden)
    rows = as_rows(log.read(columns=COLUMNS, isolation_level=isolation_level))
    assert rows == golden.rows(isolation_level)


@pytest.mark.parametrize("golden", PARTITIONS, ids=golden_id)
def test_offsets(golden: GoldenPartition) -> None:
    log = open_golden(golden)
    assert log.log_start_offset == golden.expected["earliest"]
    assert log.log_end_offset == golden.expected["latest"]
    assert log.last_stable_offset == golden.expected["latestCommitted"]
