"""What brokers' cleaners made of a log, made again: before and after each round."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from native_log.records.cleaning import Verdict

from .rows import SEVEN, rows

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
ROUNDS = sorted(
    (before.parent, before.name[: len("round1")])
    for before in GOLDEN.glob("*/compact-*/round*-before")
    # Tombstones of format 0 and 1 go by the age of files there.
    if (before.parent.name, before.name) != ("compact-v1-drop", "round2-before")
)
TRANSACTIONAL = {"compact-txn", "compact-v2-txn"}
CHANGED_BY_A_CODEC = ["position", "sizeInBytes", "crc"]


def checkpoint(data: Path, topic: str) -> int:
    lines = (data / "cleaner-offset-checkpoint").read_text().splitlines()
    return next((int(line.split()[2]) for line in lines[2:] if line.split()[0] == topic), 0)


def log_bytes(partition: Path, end_offset: int) -> bytes:
    """Of the segments that begin before end_offset."""
    return b"".join(
        path.read_bytes() for path in sorted(partition.glob("*.log")) if int(path.stem) < end_offset
    )


@pytest.mark.parametrize(("topic", "number"), ROUNDS, ids=lambda value: getattr(value, "name", value))
def test_rounds(impl, topic: Path, number: str) -> None:
    if topic.name in TRANSACTIONAL:
        pytest.skip("what becomes of transactions is not decided here")
    before, after = (topic / f"{number}-{when}" / "data" for when in ("before", "after"))
    first_dirty, end = checkpoint(before, topic.name), checkpoint(after, topic.name)
    log, expected = (log_bytes(data / f"{topic.name}-0", end) for data in (before, after))
    scanned = impl.scan(expected).batches
    # The time of the round, and which batches the broker kept empty.
    known = set(impl.scan(log).batches.column("deleteHorizonMs").drop_null().to_pylist())
    new = set(scanned.column("deleteHorizonMs").drop_null().to_pylist()) - known
    assert len(new) <= 1
    empty = {row["baseOffset"] for row in scanned.to_pylist() if row["recordCount"] == 0}

    offsets = impl.OffsetMap(1 << 20)
    assert offsets.put_batches(log, start_offset=first_dirty, end_offset=end).next_offset == end
    survivors = offsets.survivors()
    offsets.mark(log, survivors, end_offset=first_dirty)
    verdicts = bytes(
        Verdict.RETAIN_EMPTY if offset in empty else Verdict.FILTER
        for offset in impl.scan(log).batches.column("baseOffset").to_pylist()
    )
    found = impl.rewrite(
        log,
        survivors=survivors,
        survivors_end=end,
        now_ms=1 << 60 if topic.name.endswith("-drop") else 0,
        delete_horizon_ms=min(new, default=None),
        verdicts=verdicts,
    )

    assert found.status == "end"
    data = bytes(found.data)
    if set(scanned.column("compression").to_pylist()) <= {"none"}:
        assert data == expected
    got, wanted = impl.decode(data, SEVEN), impl.decode(expected, SEVEN)
    assert rows(got.batch) == rows(wanted.batch)
    rescanned = impl.scan(data, check_crcs=True).batches
    assert found.batches.equals(rescanned)
    unchanged = [name for name in rescanned.schema.names if name not in (*CHANGED_BY_A_CODEC, "isValid")]
    assert pa.table(rescanned.select(unchanged)).equals(pa.table(scanned.select(unchanged)))


def test_there_are_rounds() -> None:
    assert len(ROUNDS) > 10
