"""Indexes are hints: if all of them are deleted, zeroed or full of garbage, every result stays the same."""

from __future__ import annotations

import functools
import os
import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.golden import golden, open_golden
from tests.contents import offsets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from native_log.log import PartitionLog
    from tests.builders.golden import GoldenPartition

FIXTURES = [
    "kafka-4.1/plain-lz4",
    "kafka-4.1/timestamps",
    "kafka-4.1/txn-lz4",
    "kafka-4.1/compact-txn/round2-before",
    "kafka-4.1/delete-records/after",
    "kafka-4.1/offsets-gap",
    "kafka-2.8/v0-gzip",
    "kafka-2.8/mixed",
]


def write_garbage(path: Path) -> None:
    size_bytes = path.stat().st_size
    path.write_bytes(random.Random(size_bytes).randbytes(max(size_bytes, 240)))


def write_ascending_garbage(path: Path) -> None:
    """Write index entries with plausible, ascending, but wrong numbers."""
    chosen = random.Random(path.stat().st_size)
    numbers = sorted(chosen.randrange(1, 4000) for _ in range(60))
    path.write_bytes(b"".join(number.to_bytes(4, "big") for number in numbers))


HARM: dict[str, Callable[[Path], object]] = {
    "deleted": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "preallocated": lambda path: os.truncate(path, 10485760),
    "torn": lambda path: os.truncate(path, path.stat().st_size * 2 // 3),
    "garbage": write_garbage,
    "ascending garbage": write_ascending_garbage,
}


def answers(log: PartitionLog, times: list[int]) -> dict[str, Any]:
    step = max(1, (log.log_end_offset - log.log_start_offset) // 25)
    at = range(log.log_start_offset, log.log_end_offset + 1, step)
    return {
        "end": (log.log_end_offset, log.last_stable_offset),
        "times": [log.offset_for_timestamp(t) for t in times],
        "from": [offsets(log.read(o, columns=["offset"]))[:1] for o in at],
        "to": [offsets(log.read(None, o, ["offset"]))[-1:] for o in at],
        "split": [offsets(part.read(["offset"]))[:1] for part in log.range().split(3000)],
        "committed": offsets(log.read(columns=["offset"], isolation_level="read_committed")),
    }


@functools.cache
def answers_before(fixture: str) -> dict[str, Any]:
    partition = golden(fixture)
    return answers(open_golden(partition), times(partition))


def times(partition: GoldenPartition) -> list[int]:
    return [time for time, _ in partition.expected["offsetsForTimes"]]


@pytest.mark.parametrize("fixture", FIXTURES)
@pytest.mark.parametrize("harm", HARM)
def test_results_stay_the_same(golden_copy: Callable[[str], Path], fixture: str, harm: str) -> None:
    partition = golden(fixture)
    directory = golden_copy(fixture) / partition.expected["dir"].removeprefix("data/")
    for path in sorted(directory.iterdir()):
        if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            HARM[harm](path)
    assert answers(open_golden(partition, directory), times(partition)) == answers_before(fixture)
