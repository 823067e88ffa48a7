"""Which segments are deleted, at the limits of each rule."""

from __future__ import annotations

import pytest

from native_log.config import LogConfig
from native_log.policies import Exemption
from native_log.retention.decisions import Candidate, decide, duration

NOW = 1_000_000
LOG = [Candidate(0, 10, 100), Candidate(10, 20, 100), Candidate(20, 30, 100)]


def rules(
    config: dict[str, object],
    *,
    segments: list[Candidate] = LOG,
    start: int = 0,
    high_watermark: int = 30,
    ages: tuple[int, ...] = (0, 0, 0),
) -> list[str | None]:
    """Return the rule that deletes each segment, or None. The ages are in ms."""
    decisions = decide(
        segments,
        log_start_offset=start,
        high_watermark=high_watermark,
        config=LogConfig.parse({"retention.ms": "-1", **config}),
        now_ms=NOW,
        largest_timestamp_ms=lambda index: NOW - ages[index],
    )
    assert all(decision.is_deleted == (decision.rule is not None) for decision in decisions)
    return [decision.rule for decision in decisions]


@pytest.mark.parametrize(("start", "deleted"), [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (30, 2)])
def test_segments_below_the_log_start_offset_are_deleted_but_never_the_active_one(
    start: int, deleted: int
) -> None:
    assert rules({}, start=start) == ["logStartOffset"] * deleted + [None] * (3 - deleted)


@pytest.mark.parametrize(
    ("limit", "deleted"), [(-1, 0), (0, 3), (100, 2), (101, 1), (200, 1), (201, 0), (300, 0)]
)
def test_a_log_never_becomes_smaller_than_its_limit(limit: int, deleted: int) -> None:
    assert rules({"retention.bytes": limit}) == ["retention.bytes"] * deleted + [None] * (3 - deleted)


@pytest.mark.parametrize(("age", "is_deleted"), [(999, False), (1000, False), (1001, True)])
def test_only_segments_older_than_the_limit_are_deleted(age: int, is_deleted: bool) -> None:
    assert (rules({"retention.ms": 1000}, ages=(age, 0, 0))[0] is not None) == is_deleted


def test_a_timestamp_in_the_future_keeps_all_segments_after_it() -> None:
    assert rules({"retention.ms": 1000}, ages=(-5000, 9000, 9000)) == [None] * 3


@pytest.mark.parametrize(("high_watermark", "deleted"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3)])
def test_nothing_at_or_above_the_high_watermark_is_deleted(high_watermark: int, deleted: int) -> None:
    result = rules({"retention.ms": 0}, ages=(1, 1, 1), high_watermark=high_watermark)
    assert result == ["retention.ms"] * deleted + [None] * (3 - deleted)


def test_each_rule_begins_where_the_previous_rule_ended() -> None:
    config = {"retention.bytes": 100, "retention.ms": 1000}
    assert rules(config, start=10, ages=(0, 0, 2000)) == ["logStartOffset", "retention.bytes", "retention.ms"]


def test_an_empty_active_segment_is_kept() -> None:
    segments = [LOG[0], Candidate(10, 10, 0)]
    result = rules({"retention.ms": 1}, segments=segments, high_watermark=10, ages=(9, 9))
    assert result == ["retention.ms", None]


def test_a_policy_of_compact_alone_deletes_only_below_the_log_start_offset() -> None:
    config = {"cleanup.policy": "compact", "retention.bytes": 0, "retention.ms": 0}
    assert rules(config, start=10, ages=(9, 9, 9)) == ["logStartOffset", None, None]
    assert rules({**config, "cleanup.policy": "compact,delete"}, ages=(9, 9, 9)) == ["retention.bytes"] * 3


def test_a_kept_log_loses_only_segments_below_the_log_start_offset() -> None:
    decisions = decide(
        LOG,
        log_start_offset=10,
        high_watermark=30,
        config=LogConfig(retention_bytes=0),
        now_ms=NOW,
        largest_timestamp_ms=lambda _: 0,
        exemption=Exemption("compacted", "why"),
    )
    assert [(decision.is_deleted, decision.rule) for decision in decisions] == [
        (True, "logStartOffset"),
        (False, "compacted"),
        (False, "compacted"),
    ]
    assert decisions[1].reason == "why"


def test_timestamps_are_not_read_without_need() -> None:
    def fail(index: int) -> int:
        raise AssertionError(index)

    decide(LOG, log_start_offset=0, high_watermark=30, config=LogConfig(retention_ms=-1), now_ms=NOW,
           largest_timestamp_ms=fail)  # fmt: skip


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1001, "1 s 1 ms"),
        (3_600_000, "1 h"),
        (86_399_999, "23 h 59 min"),
        (7 * 86_400_000 + 3 * 3_600_000 + 5, "7 d 3 h"),
    ],
)
def test_durations_have_two_units(ms: int, text: str) -> None:
    assert duration(ms) == text
