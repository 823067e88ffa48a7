"""Decide which segments of a log retention deletes (Kafka: UnifiedLog.deleteOldSegments).

These functions are pure: they open no file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from native_log.config import LogConfig
    from native_log.policies import Exemption

START_OFFSET, SIZE, TIME = "logStartOffset", "retention.bytes", "retention.ms"
"""The rules that delete, in the order in which they apply."""

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_UNITS = (
    ("d", _DAY, "h", _HOUR),
    ("h", _HOUR, "min", _MINUTE),
    ("min", _MINUTE, "s", _SECOND),
    ("s", _SECOND, "ms", 1),
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A segment, as the rules see it.

    Attributes:
        end_offset: the base offset of the next segment; for the last segment, the log end offset.
    """

    base_offset: int
    end_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a segment is deleted, and why.

    Attributes:
        rule: the rule that deletes the segment, or that keeps the whole log; None if no rule applies.
        reason: the figures on which the decision is based, in words.
    """

    is_deleted: bool
    rule: str | None
    reason: str


def decide(
    segments: Sequence[Candidate],
    *,
    log_start_offset: int,
    high_watermark: int,
    config: LogConfig,
    now_ms: int,
    largest_timestamp_ms: Callable[[int], int],
    exemption: Exemption | None = None,
) -> list[Decision]:
    """Return a decision for each of the segments.

    The rules apply in turn. Each rule begins at the first segment that the previous rules keep, and ends at
    the first segment that it keeps itself, so only segments at the beginning of a log are deleted. If all
    segments are deleted, the caller must create a new active segment first.

    Args:
        segments: all segments of the log by ascending base offset; the last one is the active segment.
        largest_timestamp_ms: returns the largest timestamp of the segment with the given index. Called only
            if retention.ms applies.
        exemption: why the rules for size and time do not apply to the log; None: `config` decides.
    """
    decisions: list[Decision] = []
    stops: list[tuple[int, str]] = []  # index of the segment at which a rule ended, and why

    def apply_rule(rule: str, checks: Iterator[tuple[bool, str]]) -> None:
        for is_deletable, reason in checks:
            obstacle = _obstacle(segments, len(decisions), high_watermark) if is_deletable else reason
            if obstacle is not None:
                stops.append((len(decisions), obstacle))
                return
            decisions.append(Decision(True, rule, reason))

    apply_rule(START_OFFSET, _by_start_offset(segments, log_start_offset))
    if exemption is not None:
        return decisions + [Decision(False, exemption.rule, exemption.reason)] * (
            len(segments) - len(decisions)
        )
    if "delete" in config.cleanup_policy:
        if config.retention_bytes >= 0:
            apply_rule(SIZE, _by_size(segments, len(decisions), config.retention_bytes))
        if config.retention_ms >= 0:
            ages = (now_ms - largest_timestamp_ms(i) for i in range(len(decisions), len(segments)))
            apply_rule(TIME, _by_time(ages, config.retention_ms))
    first_kept = len(decisions)
    reasons = dict.fromkeys(reason for index, reason in stops if index == first_kept)
    decisions.append(Decision(False, None, "; ".join(reasons)))
    decisions += [Decision(False, None, "after a segment that is kept")] * len(segments)
    return decisions[: len(segments)]


def _by_start_offset(segments: Sequence[Candidate], log_start_offset: int) -> Iterator[tuple[bool, str]]:
    for segment in segments[:-1]:
        reason = f"ends at {segment.end_offset}, the log starts at {log_start_offset}"
        yield segment.end_offset <= log_start_offset, reason
    yield False, "active"


def _by_size(segments: Sequence[Candidate], first: int, limit: int) -> Iterator[tuple[bool, str]]:
    left = sum(segment.size_bytes for segment in segments[first:])
    for segment in segments[first:]:
        left -= segment.size_bytes
        yield left >= limit, f"{left} bytes without it, {SIZE} is {limit}"


def _by_time(ages_ms: Iterator[int], limit: int) -> Iterator[tuple[bool, str]]:
    for age in ages_ms:
        words = f"{duration(age)} old" if age >= 0 else f"dated {duration(-age)} in the future"
        yield age > limit, f"{words}, {TIME} is {limit} ({duration(limit)})"


def duration(ms: int) -> str:
    """Return a time span in its two largest units: `8 d 3 h`, `59 min 10 s`, `999 ms`."""
    for unit, size, smaller, part in _UNITS:
        if ms >= size:
            rest = ms % size // part
            return f"{ms // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{ms} ms"


def _obstacle(segments: Sequence[Candidate], index: int, high_watermark: int) -> str | None:
    """Return why no rule may delete the segment, or None if a rule may delete it."""
    segment = segments[index]
    if segment.end_offset > high_watermark:
        return f"ends at {segment.end_offset}, above the high watermark {high_watermark}"
    if index == len(segments) - 1 and segment.size_bytes == 0:
        return "active and empty"
    return None
