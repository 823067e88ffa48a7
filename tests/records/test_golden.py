"""What brokers wrote, against what a real consumer read from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from native_log.records.schema import BATCH_SCHEMA
from tests.builders.golden import golden_id, golden_partitions

from .conftest import KERNEL, REFERENCE, needs_kernel
from .rows import ALL, SEVEN, rows

if TYPE_CHECKING:
    from tests.builders.golden import GoldenPartition

PARTITIONS = list(golden_partitions())
WHOLE = [p for p in PARTITIONS if not p.fixture.split("/")[1].startswith(("corrupt", "compact-crash"))]


def logs(partition: GoldenPartition) -> list[bytes]:
    return [file.read_bytes() for file in sorted(partition.path.glob("*.log"))]


def consumer_rows(partition: GoldenPartition) -> list[dict[str, Any]]:
    return [
        {
            "offset": row["offset"],
            "timestamp": row["timestamp"] * 1000,
            "timestampType": row["timestampType"],
            "key": row["key"],
            "value": row["value"],
            "headers": row["headers"] or None,
            "leaderEpoch": -1 if row["leaderEpoch"] is None else row["leaderEpoch"],
        }
        for row in partition.rows()
    ]


def test_there_is_golden_data() -> None:
    assert len(WHOLE) > 50


@pytest.mark.parametrize("partition", WHOLE, ids=golden_id)
def test_rows(impl, partition: GoldenPartition) -> None:
    actual: list[dict[str, Any]] = []
    start = partition.expected["earliest"]
    for data in logs(partition):
        decoded = impl.decode(data, [*SEVEN, "leaderEpoch"], start_offset=start)
        assert decoded.damage is None
        assert decoded.status in ("end", "zeros", "partial")
        actual += rows(decoded.batch)
    assert actual == consumer_rows(partition)


@needs_kernel
@pytest.mark.parametrize("partition", PARTITIONS, ids=golden_id)
def test_kernel_and_reference_agree(partition: GoldenPartition) -> None:
    """On damaged and crashed directories too, on every column and every header."""
    for data in logs(partition):
        assert_same_decode(data)
        for check_crcs in (False, True):
            kernel, reference = (impl.scan(data, check_crcs=check_crcs) for impl in (KERNEL, REFERENCE))
            assert kernel.batches.schema.equals(BATCH_SCHEMA)
            assert kernel.batches.to_pylist() == reference.batches.to_pylist()
            assert outcome(kernel) == outcome(reference)


def assert_same_decode(data: bytes) -> None:
    kernel, reference = (
        impl.decode(data, ALL, control=True, topic="t", partition=3, segment="s")
        for impl in (KERNEL, REFERENCE)
    )
    assert outcome(kernel) == outcome(reference)
    assert rows(kernel.batch) == rows(reference.batch)


def outcome(result: Any) -> tuple[Any, ...]:
    damage = result.damage
    return (
        result.status,
        result.position,
        result.next_offset,
        result.needed_bytes,
        damage and (damage.kind, damage.position, damage.size_bytes, damage.offset),
    )
