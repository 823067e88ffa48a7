"""Which segments of a log retention deletes (Kafka: UnifiedLog.deleteOldSegments).

Decisions only: nothing is opened here.
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
    """What the rules ask of a segment. It ends where the next one begins, the last at the log's end."""

    base_offset: int
    end_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a segment.

    Attributes:
        is_deleted: whether the segment is deleted.
        rule: the rule that deletes it, or that keeps the whole log; None if no rule applies.
        reason: the figures, in words.
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
    kept: Exemption | None = None,
) -> list[Decision]:
    """A decision for each of the segments, by ascending base offset, the last of which is active.

    Each rule goes on where the one before it stopped, and stops at the first segment that it does not delete:
    only a log's beginning goes. If all go, a new active segment must be there first.

    Args:
        largest_timestamp_ms: of the segment with that index. Asked only where retention.ms needs it.
        kept: why neither size nor time deletes anything; None: `config` says.
    """
    decisions: list[Decision] = []
    stopped: list[tuple[int, str]] = []  # index of the segment at which a rule stopped, and why

    def go_on(rule: str, judged: Iterator[tuple[bool, str]]) -> None:
        for deletable, reason in judged:
            held = _held(segments, len(decisions), high_watermark) if deletable else reason
            if held is not None:
                stopped.append((len(decisions), held))
                return
            decisions.append(Decision(True, rule, reason))

    go_on(START_OFFSET, _by_start_offset(segments, log_start_offset))
    if kept is not None:
        return decisions + [Decision(False, kept.rule, kept.reason)] * (len(segments) - len(decisions))
    if "delete" in config.cleanup_policy:
        if config.retention_bytes >= 0:
            go_on(SIZE, _by_size(segments, len(decisions), config.retention_bytes))
        if config.retention_ms >= 0:
            ages = (now_ms - largest_timestamp_ms(i) for i in range(len(decisions), len(segments)))
            go_on(TIME, _by_time(ages, config.retention_ms))
    first_kept = len(decisions)
    reasons = dict.fromkeys(reason for index, reason in stopped if index == first_kept)
    stays = [Decision(False, None, "; ".join(reasons))]
    stays += [Decision(False, None, "behind a segment that is kept")] * len(segments)
    return (decisions + stays)[: len(segments)]


def _by_start_offset(segments: Sequence[Candidate], log_start_offset: int) -> Iterator[tuple[bool, str]]:
    for segment in segments[:-1]:
        words = f"ends at {segment.end_offset}, the log starts at {log_start_offset}"
        yield segment.end_offset <= log_start_offset, words
    yield False, "active"


def _by_size(segments: Sequence[Candidate], first: int, limit: int) -> Iterator[tuple[bool, str]]:
    left = sum(segment.size_bytes for segment in segments[first:])
    for segment in segments[first:]:
        left -= segment.size_bytes
        yield left >= limit, f"{left} bytes without it, {SIZE} is {limit}"


def _by_time(ages_ms: Iterator[int], limit: int) -> Iterator[tuple[bool, str]]:
    for age in ages_ms:
        words = f"{duration(age)} old" if age >= 0 else f"dated {duration(-age)} into the future"
        yield age > limit, f"{words}, {TIME} is {limit} ({duration(limit)})"


def duration(ms: int) -> str:
    """A time span in its two largest units: `8 d 3 h`, `59 min 10 s`, `999 ms`."""
    for unit, size, smaller, part in _UNITS:
        if ms >= size:
            rest = ms % size // part
            return f"{ms // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{ms} ms"


def _held(segments: Sequence[Candidate], index: int, high_watermark: int) -> str | None:
    """Why no rule may delete this segment."""
    segment = segments[index]
    if segment.end_offset > high_watermark:
        return f"ends at {segment.end_offset}, above the high watermark {high_watermark}"
    if index == len(segments) - 1 and segment.size_bytes == 0:
        return "active and empty"
    return None
