"""Indexes are hints: if all of them are deleted, zeroed or full of garbage, every result stays the same."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from .support import golden, offsets, open_golden

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from native_log.log import PartitionLog

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


def garbage(data: bytes) -> bytes:
    return random.Random(len(data)).randbytes(max(len(data), 240))


def small_garbage(data: bytes) -> bytes:
    """Return index entries with plausible, ascending, but wrong numbers."""
    chosen = random.Random(len(data))
    numbers = sorted(chosen.randrange(1, 4000) for _ in range(60))
    return b"".join(number.to_bytes(4, "big") for number in numbers)


HARM: dict[str, Callable[[bytes], bytes | None]] = {
    "deleted": lambda _: None,
    "emptied": lambda _: b"",
    "zeroed": lambda data: bytes(len(data)),
    "preallocated": lambda data: data + bytes(10485760 - len(data)),
    "torn": lambda data: data[: len(data) * 2 // 3],
    "garbage": garbage,
    "ascending garbage": small_garbage,
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


@pytest.mark.parametrize("fixture", FIXTURES)
@pytest.mark.parametrize("harm", HARM)
def test_results_stay_the_same(golden_copy: Callable[[str], Path], fixture: str, harm: str) -> None:
    partition = golden(fixture)
    times = [time for time, _ in partition.expected["offsetsForTimes"]]
    expected = answers(open_golden(partition), times)
    directory = golden_copy(fixture) / partition.expected["dir"].removeprefix("data/")
    for path in directory.iterdir():
        if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            data = HARM[harm](path.read_bytes())
            path.unlink()
            if data is not None:
                path.write_bytes(data)
    assert answers(open_golden(partition, directory), times) == expected
