"""What brokers' cleaners made of a log, made again: before and after each round."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from native_log.records.compaction import Verdict
from tests.builders.golden import GOLDEN

from .keywords import mark, put_batches
from .rows import SEVEN, rows

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = sorted(
    (before.parent, before.name[: len("round1")])
    for before in GOLDEN.glob("*/compact-*/round*-before")
    # Tombstones of format 0 and 1 go by the age of files there.
    if (before.parent.name, before.name) != ("compact-v1-drop", "round2-before")
)
# delete.retention.ms was a moment there, so that tombstones with a horizon were dropped.
EXPIRED = {"compact-tomb-drop", "compact-txn"}
CHANGED_BY_A_CODEC = ["position", "sizeInBytes", "crc"]


def checkpoint(data: Path, topic: str) -> int:
    lines = (data / "cleaner-offset-checkpoint").read_text().splitlines()
    return next((int(line.split()[2]) for line in lines[2:] if line.split()[0] == topic), 0)


def log_bytes(partition: Path, end_offset: int) -> bytes:
    """Of the segments that begin before end_offset."""
    return b"".join(
        path.read_bytes() for path in sorted(partition.glob("*.log")) if int(path.stem) < end_offset
    )


def aborted(batches: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """Producer id, first offset and last offset of the transactions that ended with an ABORT marker."""
    first: dict[int, int] = {}
    ranges = []
    for row in batches:
        producer_id = row["producerId"]
        if row["isControl"]:
            begun = first.pop(producer_id, None)
            if row["controlType"] == 0 and begun is not None:
                ranges.append((producer_id, begun, row["lastOffset"]))
        elif row["isTransactional"]:
            first.setdefault(producer_id, row["baseOffset"])
    return sorted(ranges)


def verdict(
    row: dict[str, Any], kept: dict[str, Any] | None, transactions: list[tuple[int, int, int]]
) -> int:
    """What the broker decided about a batch, from what it left."""
    flags = Verdict.FILTER
    if row["isControl"]:
        if kept is None:
            flags |= Verdict.DISCARD
        elif kept["deleteHorizonMs"] is not None:
            flags |= Verdict.SET_HORIZON
    elif row["isTransactional"] and any(
        row["producerId"] == producer_id and first <= row["baseOffset"] <= last
        for producer_id, first, last in transactions
    ):
        flags |= Verdict.DISCARD
    if kept is not None and kept["recordCount"] == 0:
        flags |= Verdict.RETAIN_EMPTY
    return flags


@pytest.mark.parametrize(("topic", "number"), ROUNDS, ids=lambda value: getattr(value, "name", value))
def test_rounds(impl, topic: Path, number: str) -> None:
    before, after = (topic / f"{number}-{when}" / "data" for when in ("before", "after"))
    first_dirty, end = checkpoint(before, topic.name), checkpoint(after, topic.name)
    log, expected = (log_bytes(data / f"{topic.name}-0", end) for data in (before, after))
    scanned = impl.scan(expected).batches
    # The time of the round.
    known = set(impl.scan(log).batches.column("deleteHorizonMs").drop_null().to_pylist())
    new = set(scanned.column("deleteHorizonMs").drop_null().to_pylist()) - known
    assert len(new) <= 1
    batches = impl.scan(log).batches.to_pylist()
    # A transaction's marker may come after the compacted part.
    transactions = aborted(impl.scan(log_bytes(before / f"{topic.name}-0", 1 << 63)).batches.to_pylist())
    kept = {row["baseOffset"]: row for row in scanned.to_pylist()}

    offsets = impl.OffsetMap(1 << 20)
    triples = b"".join(struct.pack("=qqq", *triple) for triple in transactions)
    progress = put_batches(offsets, log, start_offset=first_dirty, end_offset=end, aborted=triples)
    assert progress.next_offset == end
    survivors = offsets.survivors()
    mark(offsets, log, survivors, end_offset=first_dirty)
    verdicts = bytes(verdict(row, kept.get(row["baseOffset"]), transactions) for row in batches)
    rewritten = impl.rewrite(
        log,
        survivors=survivors,
        survivors_end=end,
        now_ms=1 << 60 if topic.name in EXPIRED else 0,
        delete_horizon_ms=min(new, default=None),
        verdicts=verdicts,
    )

    assert rewritten.status == "end"
    data = bytes(rewritten.data)
    if set(scanned.column("compression").to_pylist()) <= {"none"}:
        assert data == expected
    actual, by_broker = impl.decode(data, SEVEN), impl.decode(expected, SEVEN)
    assert rows(actual.batch) == rows(by_broker.batch)
    rescanned = impl.scan(data, check_crcs=True).batches
    assert rewritten.batches.equals(rescanned)
    unchanged = [name for name in rescanned.schema.names if name not in (*CHANGED_BY_A_CODEC, "isValid")]
    assert pa.table(rescanned.select(unchanged)).equals(pa.table(scanned.select(unchanged)))


def test_there_are_rounds() -> None:
    assert len(ROUNDS) > 10
