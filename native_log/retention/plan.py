"""What retention comes to in one partition: looked at where the partition is seen, then plain values that can
be sent to whoever does it.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.config import LogConfig
from native_log.errors import KafkaLogError, error_message
from native_log.log import PartitionLog
from native_log.log.largest_timestamp import largest_timestamp_ms
from native_log.logdir.discovery import join_names
from native_log.policies import OVERRIDE, REMOTE, Exemption
from native_log.retention.decisions import Candidate, Decision, decide
from native_log.segment.files import CLEANED, DELETED, SWAP, parse_file_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from native_log.log import PartitionCheckpoints
    from native_log.policies import RetentionPolicy
    from native_log.segment.segment import LogSegment

logger = logging.getLogger(__name__)

RETENTION_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "baseOffset": pa.int64(),
        "endOffset": pa.int64(),
        "sizeInBytes": pa.int64(),
        "largestTimestampMs": pa.int64(),
        "decision": pa.string(),
        "rule": pa.string(),
        "reason": pa.string(),
    }
)
"""One row a segment. endOffset is exclusive; largestTimestampMs is null where no rule asked for it; decision
is "deleted" (in a dry run: would be), "kept", or, with what went wrong in `reason`, "failed", one row for the
partition. `rule` is the rule that deletes a segment: logStartOffset, retention.bytes or retention.ms; or the
one that keeps the whole log: compacted, cleanup.policy (nothing known asks for deletion) or
remote.storage.enable; else null."""


@dataclass(frozen=True, slots=True)
class CleanedSegment:
    """A segment as a cleaning leaves it. `largest_timestamp_ms`: the file's mtime where no record has one."""

    base_offset: int
    end_offset: int
    size_bytes: int
    largest_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class JudgedSegment:
    """A segment and what becomes of it. `largest_timestamp_ms` is None where no rule asked for it."""

    base_offset: int
    end_offset: int
    size_bytes: int
    largest_timestamp_ms: int | None
    decision: Decision

    @property
    def is_deleted(self) -> bool:
        return self.decision.is_deleted


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """What is to be done to one partition. Plain values; `table` makes rows of it.

    Attributes:
        config: the topic's settings.
        log_start_offset: the log's start when it is done.
        segments: all of the log's, oldest first; those to be deleted come first.
        deleted: the files of those to be deleted.
        new_segment_offset: base offset of the empty segment to be put there first, where none would be left.
        expired: names of `.deleted` files whose time has come.
        is_interrupted: a cleaning was not finished here; that is to be settled, and looked at again.
        error: why the partition cannot be looked at, or what went wrong since; None if nothing did.
    """

    path: str
    topic: str
    partition: int
    config: LogConfig = field(default_factory=LogConfig)
    log_start_offset: int = 0
    segments: tuple[JudgedSegment, ...] = ()
    deleted: tuple[LogSegment, ...] = ()
    new_segment_offset: int | None = None
    expired: tuple[str, ...] = ()
    is_interrupted: bool = False
    error: str | None = None

    @property
    def changes_nothing(self) -> bool:
        return not (self.deleted or self.expired)


def look(
    path: str,
    topic: str,
    partition: int,
    checkpoints: PartitionCheckpoints,
    policy: RetentionPolicy,
    now_ms: int,
) -> RetentionPlan:
    """What retention comes to in the partition directory `path`. Changes nothing, needs no lock.

    A time index is read where a rule asks for a segment's age; of the records, only headers of those segments
    that would go by it. What cannot be read makes a plan with `error`, nothing is raised.

    Args:
        checkpoints: of the partition, as LogDir.checkpoints tells them, with `live` set: nothing above the
            checkpointed high watermark goes.
    """
    try:
        log = PartitionLog.open(path, topic=topic, partition=partition, checkpoints=checkpoints)
        return _look(log, policy, now_ms)
    except (KafkaLogError, OSError) as error:
        return failed(path, topic, partition, error)


def failed(path: str, topic: str, partition: int, error: Exception) -> RetentionPlan:
    logger.warning("%s-%d: retention failed: %s", topic, partition, error)
    return RetentionPlan(path, topic, partition, error=error_message(error))


def _look(log: PartitionLog, policy: RetentionPolicy, now_ms: int) -> RetentionPlan:
    elsewhere = log.missing_start
    if elsewhere is not None and policy.exemption is None and not policy.is_explicit:
        # The log's start would move, and a broker would then delete the older segments in remote storage.
        policy = replace(policy, exemption=Exemption(REMOTE, f"{elsewhere}; {OVERRIDE}"))
    expired, is_interrupted = _left_over(str(log.path), now_ms - policy.config.file_delete_delay_ms)
    segments = judged(log, policy, now_ms)
    count = sum(segment.is_deleted for segment in segments)
    is_any_left = count < len(segments)
    first_left = log.segments[count].base_offset if is_any_left else log.log_end_offset
    return RetentionPlan(
        str(log.path),
        log.topic,
        log.partition,
        policy.config,
        max(first_left, log.log_start_offset),
        segments,
        log.segments[:count],
        log.log_end_offset if count and not is_any_left else None,
        expired,
        is_interrupted,
    )


def judged(
    log: PartitionLog, policy: RetentionPolicy, now_ms: int, cleaned: Sequence[CleanedSegment] = ()
) -> tuple[JudgedSegment, ...]:
    """The log's segments and what becomes of each.

    Args:
        cleaned: what a cleaning puts in the place of the log's segments that begin before the end of these.
    """
    left = [s for s in log.segments if not cleaned or s.base_offset >= cleaned[-1].end_offset]
    replaced = len(log.segments) - len(left)
    ends = [segment.base_offset for segment in left[1:]] + [log.log_end_offset]
    candidates = [Candidate(one.base_offset, one.end_offset, one.size_bytes) for one in cleaned] + [
        Candidate(s.base_offset, end, s.size_bytes) for s, end in zip(left, ends, strict=False)
    ]
    timestamps: dict[int, int] = {}

    def largest(index: int) -> int:
        in_log = index - len(cleaned) + replaced
        timestamps[index] = (
            cleaned[index].largest_timestamp_ms
            if index < len(cleaned)
            else largest_timestamp_ms(log, in_log, now_ms - policy.config.retention_ms)
        )
        return timestamps[index]

    decisions = decide(
        candidates,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        config=policy.config,
        now_ms=now_ms,
        largest_timestamp_ms=largest,
        kept=policy.exemption,
    )
    return tuple(
        JudgedSegment(one.base_offset, one.end_offset, one.size_bytes, timestamps.get(index), decision)
        for index, (one, decision) in enumerate(zip(candidates, decisions, strict=True))
    )


def _left_over(directory: str, expired_before_ms: int) -> tuple[tuple[str, ...], bool]:
    """The `.deleted` files renamed at or before that time, and whether a cleaning was interrupted."""
    expired, is_interrupted = [], False
    with os.scandir(directory) as entries:
        for entry in entries:
            if not entry.name.endswith((DELETED, CLEANED, SWAP)):
                continue
            file = parse_file_name(entry.name)
            if file is None:
                continue
            if file.state != DELETED:
                is_interrupted = True
            # A rename sets the time of the inode's change.
            elif entry.stat().st_ctime_ns // 1_000_000 <= expired_before_ms:
                expired.append(entry.name)
    return tuple(sorted(expired)), is_interrupted


def kept_whole(told: pa.Table) -> str:
    """Return which topics no rule may delete from, by the rule that keeps them, in words: `compacted: a, b`.

    Args:
        told: rows of RETENTION_SCHEMA.
    """
    kept = told.filter(pc.equal(told["decision"], "kept")).filter(pc.field("rule").is_valid())
    pairs = (
        kept.group_by(["rule", "topic"])
        .aggregate([])
        .sort_by([("rule", "ascending"), ("topic", "ascending")])
    )
    topics: dict[str, list[str]] = {}
    for row in pairs.to_pylist():
        topics.setdefault(row["rule"], []).append(row["topic"])
    return "; ".join(f"{rule}: {join_names(names)}" for rule, names in topics.items())


def table(plans: Iterable[RetentionPlan]) -> pa.Table:
    """The plans' segments as rows, RETENTION_SCHEMA; one row for a partition with an error."""
    columns = list(zip(*(row for plan in plans for row in _rows(plan)), strict=True))
    if not columns:
        return RETENTION_SCHEMA.empty_table()
    arrays = [pa.array(column, field.type) for column, field in zip(columns, RETENTION_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=RETENTION_SCHEMA)


def _rows(plan: RetentionPlan) -> Iterator[tuple[object, ...]]:
    key = plan.topic, plan.partition
    if plan.error is not None:
        yield (*key, None, None, None, None, "failed", None, plan.error)
        return
    for one in plan.segments:
        figures = one.base_offset, one.end_offset, one.size_bytes, one.largest_timestamp_ms
        rule, reason = one.decision.rule, one.decision.reason
        yield (*key, *figures, "deleted" if one.is_deleted else "kept", rule, reason)
