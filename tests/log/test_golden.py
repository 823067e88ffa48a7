"""Read every partition of the fixtures: the rows are those that a consumer got, in both isolation levels."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from native_log.errors import CorruptRecordError
from native_log.log.outdated_segment import missing_start
from tests.builders.golden import PARTITIONS, golden_id, open_golden
from tests.contents import COLUMNS, as_rows, offsets

if TYPE_CHECKING:
    from native_log.segment import DamagedRange
    from tests.builders.golden import GoldenPartition

# There the broker served aborted records as committed, because the index was missing. The markers are right.
NO_INDEX = "txn-noindex-removed"
# The consumer continued at the raised offset and lost the rest of that segment. Here the batch is damaged.
FLIPPED = "corrupt-baseoffset-flip"

SOUND = [p for p in PARTITIONS if "error" not in p.expected and FLIPPED not in p.fixture]
DAMAGED = [p for p in PARTITIONS if "error" in p.expected]


def consumer_rows(golden: GoldenPartition, isolation_level: str) -> list[dict[str, Any]]:
    if isolation_level == "read_committed" and golden.fixture.endswith(NO_INDEX):
        original = golden.fixture.removesuffix("-removed")
        golden = next(p for p in PARTITIONS if p.fixture == original)
    return golden.rows(isolation_level)


@pytest.mark.parametrize("golden", SOUND, ids=golden_id)
@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_rows(golden: GoldenPartition, isolation_level: str) -> None:
    log = open_golden(golden)
    rows = as_rows(log.read(columns=COLUMNS, isolation_level=isolation_level))
    assert rows == consumer_rows(golden, isolation_level)


@pytest.mark.parametrize("golden", SOUND, ids=golden_id)
def test_ranges_without_records_are_not_missing(golden: GoldenPartition) -> None:
    log = open_golden(golden)
    held = {row["offset"] for row in golden.rows()}
    empty = (o for o in range(log.log_start_offset, log.log_end_offset) if o not in held)
    reasons = [missing_start(log.state, log.range(offset, offset + 1)) for offset in islice(empty, 200)]
    assert set(reasons) <= {None}


@pytest.mark.parametrize("golden", PARTITIONS, ids=golden_id)
def test_offsets(golden: GoldenPartition) -> None:
    log = open_golden(golden)
    assert log.log_start_offset == golden.expected["earliest"]
    assert log.log_end_offset == golden.expected["latest"]
    assert log.last_stable_offset == golden.expected["latestCommitted"]


@pytest.mark.parametrize("golden", DAMAGED, ids=golden_id)
def test_damaged(golden: GoldenPartition) -> None:
    """Rows before the damage are read, then an error names its position. Rows after it can be read too."""
    log = open_golden(golden)
    rows = []
    with pytest.raises(CorruptRecordError) as raised:
        for batch in log.read(columns=COLUMNS):
            rows += as_rows([batch])
    facts = golden.facts
    assert raised.value.path == str(golden.path / facts["file"])
    assert raised.value.position == facts["batchPosition"]
    # The consumer overflowed at size 2^31-1 and lost the records before the damage. Recovery counts them.
    served = facts["servedAfterRecovery"] if golden.fixture.endswith("size-max") else golden.expected
    assert raised.value.offset == served["rows"]["count"] == len(rows)
    if served is golden.expected:
        assert rows == golden.rows()

    damaged: list[DamagedRange] = []
    read = offsets(log.read(columns=["offset"], mode="dropMalformed", on_damage=damaged.append))
    assert [(d.position, d.end_position) for d in damaged] == [
        (facts["batchPosition"], facts["batchPosition"] + facts["batchSize"])
    ]
    following = damaged[0].next_offset or next(
        s.base_offset for s in log.segments if s.base_offset > len(rows)
    )
    lost = range(damaged[0].offset, following)
    assert read == [o for o in range(log.log_end_offset) if o not in lost]


def test_a_raised_base_offset_damages_only_its_batch() -> None:
    """The CRC does not cover the base offset, but it does not fit between the batches around it."""
    golden = next(p for p in PARTITIONS if FLIPPED in p.fixture)
    log, facts = open_golden(golden), golden.facts
    with pytest.raises(CorruptRecordError, match="offsets from 119 to before 161") as raised:
        list(log.read())
    where = str(golden.path / facts["file"]), facts["batchPosition"]
    assert (raised.value.path, raised.value.position, raised.value.offset) == (*where, 119)
    read = offsets(log.read(columns=["offset"], mode="dropMalformed"))
    assert read == [*range(119), *range(134, 240)]


@pytest.mark.parametrize("golden", SOUND, ids=golden_id)
def test_the_offset_of_the_largest_timestamp(golden: GoldenPartition) -> None:
    """The last entries of the time indexes lead to the same record as the headers of all batches."""
    log = open_golden(golden)
    times = [time for batches in log.batches() for time in batches["maxTimestamp"].to_pylist()]
    largest = max((time for time in times if time is not None), default=-1)
    for level in ("read_uncommitted", "read_committed"):
        expected = None if largest < 0 else log.offset_for_time_ms(largest, level)
        assert log.offset_for_max_timestamp(isolation_level=level) == expected


@pytest.mark.parametrize("golden", SOUND, ids=golden_id)
def test_offsets_for_times(golden: GoldenPartition) -> None:
    """The offsets are those of ListOffsets.

    The broker stopped at a segment that compaction left empty, or with empty batches; here the search
    continues.
    """
    log = open_golden(golden)
    if "corrupt-timeindex" in golden.fixture:  # the index misled the broker, but must not mislead this
        golden = next(p for p in PARTITIONS if p.fixture.endswith("corrupt-undamaged"))
    timestamps = None
    for isolation_level, name in (
        ("read_uncommitted", "offsetsForTimes"),
        ("read_committed", "offsetsForTimesCommitted"),
    ):
        for timestamp_ms, answer in golden.expected.get(name) or golden.expected["offsetsForTimes"]:
            offset = log.offset_for_timestamp(timestamp_ms, isolation_level=isolation_level)
            if answer is not None:
                assert offset == answer["offset"], timestamp_ms
            elif offset is not None:
                timestamps = timestamps or {row["offset"]: row["timestamp"] for row in golden.rows()}
                assert "compact" in golden.fixture
                assert offset == min(o for o, t in timestamps.items() if t >= timestamp_ms)
