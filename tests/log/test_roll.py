"""When a segment is rolled: each condition of a broker, alone and during appends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.config import LogConfig
from native_log.log import PartitionLog
from native_log.log.writing.roll import ActiveSegment, count_fitting_batches, roll_reason
from tests.builders.batches import T0, batch
from tests.contents import offsets

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = LogConfig(segment_bytes=1000, segment_ms=500)
SEGMENT = ActiveSegment(
    base_offset=100, size_bytes=600, free_entries=5, rolling_timestamp_ms=T0, created_ms=T0 - 9000
)
MAX_RELATIVE = 2**31 - 1


@pytest.mark.parametrize(
    ("segment", "batch_", "config", "reason"),
    [
        ({}, (400, T0, 150), {}, None),
        ({}, (401, T0, 150), {}, "size"),
        ({"size_bytes": 0}, (1001, T0, 150), {}, "size"),
        # by record timestamps, not by the clock; the limit must be exceeded
        ({}, (1, T0 + 500, 150), {}, None),
        ({}, (1, T0 + 501, 150), {}, "time"),
        ({}, (1, T0 - 10**9, 150), {}, None),
        ({"size_bytes": 0}, (1, T0 + 10**9, 150), {}, None),
        ({"jitter_ms": 100}, (1, T0 + 400, 150), {}, None),
        ({"jitter_ms": 100}, (1, T0 + 401, 150), {}, "time"),
        # by the clock if no record has a timestamp
        ({"rolling_timestamp_ms": -1}, (1, -1, 150), {}, "time"),
        ({"rolling_timestamp_ms": -1, "created_ms": T0 - 500}, (1, -1, 150), {}, None),
        # the segments of a compacted topic must become cleanable in time
        ({}, (1, T0 + 301, 150), {"max_compaction_lag_ms": 300}, None),
        ({}, (1, T0 + 301, 150),
         {"max_compaction_lag_ms": 300, "cleanup_policy": frozenset({"compact"})}, "time"),
        ({"free_entries": 0}, (1, T0, 150), {}, "index full"),
        ({}, (1, T0, 100 + MAX_RELATIVE), {}, None),
        ({}, (1, T0, 101 + MAX_RELATIVE), {}, "offset overflow"),
        ({}, (1, T0, 99), {}, "offset overflow"),
    ],
)  # fmt: skip
def test_reasons_to_roll(
    segment: dict[str, Any], batch_: tuple[int, int, int], config: dict[str, Any], reason: str | None
) -> None:
    size, timestamp, last_offset = batch_
    active, settings = replace(SEGMENT, **segment), replace(CONFIG, **config)
    assert roll_reason(active, settings, size, timestamp, last_offset, now_ms=T0) == reason
    fits = count_fitting_batches(active, settings, [size], [timestamp], [last_offset], T0)
    assert fits == (reason is None)


@given(
    sizes=st.lists(st.integers(1, 400), max_size=12),
    times=st.lists(st.integers(T0 - 300, T0 + 900), min_size=12, max_size=12),
    size_bytes=st.sampled_from([0, 10, 700]),
    free_entries=st.integers(0, 9),
)
def test_count_fitting_batches_counts_those_before_the_first_roll(
    sizes: list[int], times: list[int], size_bytes: int, free_entries: int
) -> None:
    active = replace(
        SEGMENT,
        size_bytes=size_bytes,
        free_entries=free_entries,
        rolling_timestamp_ms=T0 if size_bytes else -1,
    )
    last_offsets = list(range(100, 100 + len(sizes)))
    fits = count_fitting_batches(active, CONFIG, sizes, times[: len(sizes)], last_offsets, T0)
    expected = 0
    for size, time, offset in zip(sizes, times, last_offsets, strict=False):
        if roll_reason(active, CONFIG, size, time, offset, T0) is not None:
            break
        first = active.rolling_timestamp_ms if active.size_bytes else time
        active = replace(
            active,
            size_bytes=active.size_bytes + size,
            rolling_timestamp_ms=first,
            free_entries=active.free_entries - 1,
        )
        expected += 1
    assert fits == expected


def append(path: Path, *batches: bytes, **config: Any) -> PartitionLog:
    path.mkdir()
    log = PartitionLog.open(path, config={name.replace("_", "."): value for name, value in config.items()})
    with log:
        for batch in batches:
            log.append_batches(batch, origin="replication", now_ms=T0)
    return PartitionLog.open(path)


def test_offsets_beyond_a_segments_range_begin_the_next(tmp_path: Path) -> None:
    far = MAX_RELATIVE
    log = append(tmp_path / "t-0", batch(5), batch(far - 2), batch(far + 1), batch(2**62))
    assert [segment.base_offset for segment in log.segments] == [0, far + 1, 2**62]
    assert offsets(log.read(columns=["offset"]))[-3:] == [2**62, 2**62 + 1, 2**62 + 2]


def test_an_empty_segment_stays_before_a_first_batch_out_of_its_range(tmp_path: Path) -> None:
    log = append(tmp_path / "t-0", batch(2**40))
    assert [segment.base_offset for segment in log.segments] == [0, 2**40]
    assert (log.log_start_offset, log.log_end_offset) == (0, 2**40 + 3)


def test_each_segment_draws_its_own_jitter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([0, 90, 40, 0, 0])
    limits = []

    def draw(most: int) -> int:
        limits.append(most)
        return next(drawn)

    monkeypatch.setattr("random.randrange", draw)
    batches = [batch(3 * i, max_timestamp=T0 + 20 * i) for i in range(14)]
    log = append(tmp_path / "t-0", *batches, segment_ms=100, segment_jitter_ms=95)
    # rolled after more than 100 - 0, 100 - 90, 100 - 40 ms
    assert [segment.base_offset // 3 for segment in log.segments] == [0, 6, 7, 11]
    assert set(limits) == {95}
