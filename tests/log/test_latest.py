"""LogRange.latest: the newest record of each key, compared with reading everything."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_log.errors import CorruptRecordError
from native_log.log import PartitionLog
from native_log.segment.files import file_name
from tests.builders.batches import ABORT, COMMIT, TRANSACTIONAL, Rec, marker, v2
from tests.builders.golden import PARTITIONS, GoldenPartition, open_golden
from tests.builders.logs import write_log
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa

LEVELS = ("read_uncommitted", "read_committed")


def rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def newest(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the newest record of each key, by definition."""
    last: dict[bytes, int] = {}
    for row in records:
        if row["key"] is not None:
            last[row["key"]] = max(row["offset"], last.get(row["key"], -1))
    return [row for row in records if last.get(row["key"]) == row["offset"]]


keys = st.sampled_from([None, b"", b"a", b"b", b"key of another length" * 3])
batches = st.tuples(
    st.sampled_from(["plain", "data", "commit", "abort"]),
    st.lists(st.tuples(keys, st.sampled_from([None, b"value"])), min_size=1, max_size=4),
    st.sampled_from(["none", "lz4"]),
)


@settings(max_examples=examples(30), deadline=None)
@given(
    steps=st.lists(batches, max_size=12),
    roll_every=st.integers(1, 5),
    map_bytes=st.sampled_from([1, 50, 100, 1 << 20]),
    cut=st.tuples(st.integers(0, 20), st.integers(0, 20)),
)
def test_newest_of_each_key(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, list[tuple[bytes | None, bytes | None]], str]],
    roll_every: int,
    map_bytes: int,
    cut: tuple[int, int],
) -> None:
    """The result is right for any memory limit and any range, which may begin and end within batches."""
    segments: dict[int, list[bytes]] = {0: []}
    offset = 0
    for number, (kind, records, codec) in enumerate(steps):
        if number % roll_every == 0:
            segments[offset] = current = []
        if kind in ("commit", "abort"):
            current.append(marker(offset, 7, COMMIT if kind == "commit" else ABORT))
            offset += 1
            continue
        fields = {"attributes": TRANSACTIONAL, "producer_id": 7} if kind == "data" else {}
        current.append(v2([Rec(*record) for record in records], offset, codec, **fields))
        offset += len(records)
    log = PartitionLog.open(write_log(tmp_path_factory.mktemp("log"), segments))
    for level in LEVELS:
        whole = log.range(isolation_level=level)
        start, stop = (min(at, whole.end_offset) for at in sorted(cut))
        for part in (whole, log.range(start, stop, isolation_level=level)):
            asked = ["key", "offset", "value", "segment"]
            assert rows(part.latest(asked, map_bytes=map_bytes)) == newest(rows(part.read(asked)))
            assert sum(b.num_rows for b in part.latest([])) == len(newest(rows(part.read(asked))))


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: f"{p.fixture}-{p.topic}-{p.partition}")
def test_golden(partition: GoldenPartition) -> None:
    log = open_golden(partition)
    for level in LEVELS:
        part = log.range(isolation_level=level)
        asked = ["value", "key", "offset"]
        every = rows(part.read(asked, mode="dropMalformed"))
        # Rounds are ranges of offsets. If offsets are not in order, each round may keep an extra record.
        in_order = all(row["offset"] < next_row["offset"] for row, next_row in pairwise(every))
        map_bytes = max(300, 4 * len(every)) if in_order else 1 << 20
        assert rows(part.latest(asked, mode="dropMalformed", map_bytes=map_bytes)) == newest(every)


def test_damage(tmp_path: Path) -> None:
    """With dropMalformed, the record before the damage counts as the newest; otherwise an error is raised."""
    damaged = bytearray(v2([Rec(b"k", b"damaged")], 1))
    damaged[-1] ^= 1
    write_log(tmp_path, {0: [v2([Rec(b"k", b"old")], 0), bytes(damaged), v2([Rec(b"l", b"new")], 2)]})
    part = PartitionLog.open(tmp_path).range()
    with pytest.raises(CorruptRecordError):
        list(part.latest(["value"]))
    newest = rows(part.latest(["value"], mode="dropMalformed"))
    assert newest == [{"value": b"old"}, {"value": b"new"}]
    with pytest.raises(ValueError, match="failFast or dropMalformed"):
        part.latest(mode="permissive")


def test_compacted_during_a_read(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [v2([Rec(b"k", b"1")], 0)], 1: [v2([Rec(b"k", b"2")], 1)], 2: []})
    part = PartitionLog.open(tmp_path).range()
    (tmp_path / "new").write_bytes(v2([Rec(b"k", b"2")], 1))
    os.utime(tmp_path / "new", (0, 0))  # files of equal size and time count as the same file
    (tmp_path / "new").rename(tmp_path / file_name(0, "log"))
    (tmp_path / file_name(1, "log")).unlink()
    assert rows(part.latest(["value", "offset"])) == [{"value": b"2", "offset": 1}]
