"""The first batches of a range: the limit by bytes of a stream's trigger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from native_log import PartitionLog
from tests.builders.golden import GoldenPartition, golden_id, golden_partitions

if TYPE_CHECKING:
    from native_log.log import LogRange


@pytest.mark.parametrize("part", [0, 3, 50, 99])
@pytest.mark.parametrize("golden", list(golden_partitions()), ids=golden_id)
def test_first_batches_of_broker_logs(golden: GoldenPartition, part: int) -> None:
    log = PartitionLog.open(golden.path)
    whole = log.range()
    max_bytes = whole.size_bytes * part // 100
    first = whole.first_batches(max_bytes)
    assert first.start_offset == whole.start_offset
    smallest = whole.first_batches(0)
    assert first.size_bytes <= max_bytes or first == smallest
    if first.end_offset == whole.end_offset:
        return
    rest = log.range(first.end_offset)
    if "corrupt" not in golden.fixture:  # no batch boundary is known within damaged bytes
        assert first.size_bytes + rest.first_batches(0).size_bytes > max_bytes
    assert first.size_bytes + rest.size_bytes == whole.size_bytes  # no batch is read twice
    rows = [offset for part in (first, rest) for offset in offsets(part)]
    assert rows == offsets(whole)


def offsets(part: LogRange) -> list[int]:
    batches = part.read(["offset"], mode="dropMalformed")
    return [offset for batch in batches for offset in batch.column(0).to_pylist()]
