"""Plan the retention of one partition.

Planning opens the log. The plan consists of plain values, so it can be sent to the process that carries it
out.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.config import LogConfig
from native_log.effective_config import SETTINGS_TYPE, settings_value
from native_log.errors import KafkaLogError, error_message
from native_log.log import PartitionLog
from native_log.log.changing_files import retry_changed
from native_log.log.largest_timestamp import largest_timestamp_ms
from native_log.log.sources.directory import DirectorySource
from native_log.logdir.discovery import join_names
from native_log.outcomes import as_planned
from native_log.policies import OVERRIDE, REMOTE, Exemption
from native_log.retention.decisions import Candidate, Decision, decide
from native_log.segment.files import CLEANED, DELETED, SWAP, parse_file_name
from native_log.storage import folder_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from native_log.effective_config import AppliedSetting
    from native_log.log import PartitionCheckpoints
    from native_log.policies import RetentionPolicy
    from native_log.segment.segment import LogSegment
    from native_log.storage import Folder

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
        "settings": SETTINGS_TYPE,
    }
)
"""One row for each segment; a partition that failed has a single row.

- `endOffset` is exclusive.
- `largestTimestampMs` is null if no rule needed it.
- `decision` is "deleted" (in a dry run: "would be deleted"), "kept" or "failed".
- `rule` is the rule that deletes the segment (logStartOffset, retention.bytes or retention.ms), or the rule
  that keeps the whole log: compacted, cleanup.policy (no known policy asks for deletion) or
  remote.storage.enable. Otherwise it is null.
- `reason` says why: the figures on which the decision is based, or the error.
- `settings`: cleanup.policy, retention.ms and retention.bytes of the topic, and where they come from
  (native_log.effective_config.AppliedSetting); null if the decision is "failed".
"""


@dataclass(frozen=True, slots=True)
class CompactedSegment:
    """A segment as compaction will leave it.

    Attributes:
        end_offset: the base offset of the next segment.
        largest_timestamp_ms: the file's modification time if no record has a timestamp.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    largest_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class PlannedSegment:
    """A segment, and the decision whether to delete it.

    Attributes:
        largest_timestamp_ms: None if no rule needed it.
    """

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
    """What retention does to one partition. Plain values; `retention_table` turns plans into rows.

    Attributes:
        path: the partition directory.
        config: the topic's settings.
        settings: the settings that decided, for the report.
        log_start_offset: the log start offset after the deletion.
        segments: all segments of the log in offset order. The segments to delete come first.
        deleted: the files of the segments to delete.
        new_segment_offset: the base offset of the empty active segment that must be created first, because
            all segments are deleted; None if a segment is kept.
        expired: the names of `.deleted` files that can be removed.
        is_interrupted: whether a compaction of the partition was interrupted. It must be finished, and the
            partition planned again, before the plan can be carried out.
        error: why planning or carrying out failed; None if it did not.
    """

    path: str
    topic: str
    partition: int
    config: LogConfig = field(default_factory=LogConfig)
    settings: tuple[AppliedSetting, ...] = ()
    log_start_offset: int = 0
    segments: tuple[PlannedSegment, ...] = ()
    deleted: tuple[LogSegment, ...] = ()
    new_segment_offset: int | None = None
    expired: tuple[str, ...] = ()
    is_interrupted: bool = False
    error: str | None = None

    @property
    def changes_nothing(self) -> bool:
        return not (self.deleted or self.expired)


def plan_partition(
    directory: str | Folder,
    topic: str,
    partition: int,
    checkpoints: PartitionCheckpoints,
    policy: RetentionPolicy,
    now_ms: int,
) -> RetentionPlan:
    """Plan the retention of a partition directory. Changes nothing and needs no lock.

    If a rule needs a segment's age, its time index is read. Batch headers are read only of segments that
    would be deleted by age. If the partition cannot be read, return a plan with `error`; nothing is raised.
    If a broker replaces or removes a segment meanwhile, the log is read again. If it has removed the
    partition, the plan has no segments.

    Args:
        checkpoints: the partition's entries as LogDir.checkpoints returns them, with `live` set: nothing
            above the checkpointed high watermark is deleted.
    """
    folder = folder_of(directory)
    try:
        source = DirectorySource(folder.path, topic, partition, checkpoints, storage=folder.storage)
        return retry_changed(lambda: _plan_log(PartitionLog(source.open()), policy, now_ms))
    except (KafkaLogError, OSError) as error:
        if folder.was_removed():
            return RetentionPlan(folder.path, topic, partition)
        return failed_plan(folder.path, topic, partition, error)


def failed_plan(path: str, topic: str, partition: int, error: Exception) -> RetentionPlan:
    """Log the error, and return a plan that reports it."""
    logger.warning("%s-%d: retention failed: %s", topic, partition, error)
    return RetentionPlan(path, topic, partition, error=error_message(error))


def _plan_log(log: PartitionLog, policy: RetentionPolicy, now_ms: int) -> RetentionPlan:
    no_local_segments = log.missing_start
    if no_local_segments is not None and policy.exemption is None and not policy.is_explicit:
        # The log start offset would move. Then a broker would delete the older segments in remote storage.
        policy = replace(policy, exemption=Exemption(REMOTE, f"{no_local_segments}; {OVERRIDE}"))
    expired, is_interrupted = _scan_leftovers(
        log.state.source.folder, now_ms - policy.config.file_delete_delay_ms
    )
    segments = decide_segments(log, policy, now_ms)
    count = sum(segment.is_deleted for segment in segments)
    keeps_any = count < len(segments)
    new_start = log.segments[count].base_offset if keeps_any else log.log_end_offset
    return RetentionPlan(
        str(log.path),
        log.topic,
        log.partition,
        policy.config,
        policy.settings,
        max(new_start, log.log_start_offset),
        segments,
        log.segments[:count],
        log.log_end_offset if count and not keeps_any else None,
        expired,
        is_interrupted,
    )


def decide_segments(
    log: PartitionLog, policy: RetentionPolicy, now_ms: int, compacted: Sequence[CompactedSegment] = ()
) -> tuple[PlannedSegment, ...]:
    """Return the segments of the log, each with its decision.

    Args:
        compacted: the segments that a planned compaction will put in place of those that begin before their
            end.
    """
    remaining = [s for s in log.segments if not compacted or s.base_offset >= compacted[-1].end_offset]
    replaced = len(log.segments) - len(remaining)
    ends = [segment.base_offset for segment in remaining[1:]] + [log.log_end_offset]
    candidates = [Candidate(s.base_offset, s.end_offset, s.size_bytes) for s in compacted] + [
        Candidate(s.base_offset, end, s.size_bytes) for s, end in zip(remaining, ends, strict=False)
    ]
    timestamps: dict[int, int] = {}

    def largest(index: int) -> int:
        index_in_log = index - len(compacted) + replaced
        timestamps[index] = (
            compacted[index].largest_timestamp_ms
            if index < len(compacted)
            else largest_timestamp_ms(log, index_in_log, now_ms - policy.config.retention_ms)
        )
        return timestamps[index]

    decisions = decide(
        candidates,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        config=policy.config,
        now_ms=now_ms,
        largest_timestamp_ms=largest,
        exemption=policy.exemption,
    )
    return tuple(
        PlannedSegment(
            segment.base_offset, segment.end_offset, segment.size_bytes, timestamps.get(index), decision
        )
        for index, (segment, decision) in enumerate(zip(candidates, decisions, strict=True))
    )


def _scan_leftovers(directory: Folder, expired_before_ms: int) -> tuple[tuple[str, ...], bool]:
    """Find leftover files of segments.

    Returns:
        The names of the `.deleted` files that were renamed at or before that time, and whether a compaction
        was interrupted.
    """
    expired, is_interrupted = [], False
    for name, entry in directory.list().items():
        if not name.endswith((DELETED, CLEANED, SWAP)):
            continue
        file = parse_file_name(name)
        if file is None:
            continue
        if file.state != DELETED:
            is_interrupted = True
            continue
        state = entry.stat()
        # The inode's change time is the time of the rename. Objects have none.
        if getattr(state, "st_ctime_ns", state.st_mtime_ns) // 1_000_000 <= expired_before_ms:
            expired.append(name)
    return tuple(sorted(expired)), is_interrupted


def list_kept_topics(rows: pa.Table) -> str:
    """Return the topics from which no rule may delete, by the rule that keeps them: `compacted: a, b`.

    Args:
        rows: RETENTION_SCHEMA.
    """
    kept = rows.filter(pc.equal(rows["decision"], "kept")).filter(pc.field("rule").is_valid())
    pairs = (
        kept.group_by(["rule", "topic"])
        .aggregate([])
        .sort_by([("rule", "ascending"), ("topic", "ascending")])
    )
    topics: dict[str, list[str]] = {}
    for row in pairs.to_pylist():
        topics.setdefault(row["rule"], []).append(row["topic"])
    return "; ".join(f"{rule}: {join_names(names)}" for rule, names in topics.items())


def planned_table(rows: pa.Table) -> pa.Table:
    """Return rows (RETENTION_SCHEMA) as a dry run reports them."""
    return as_planned(rows, "decision", ("deleted",))


def retention_table(plans: Iterable[RetentionPlan]) -> pa.Table:
    """Return the plans' segments as rows (RETENTION_SCHEMA). A plan with an error has one row."""
    columns = list(zip(*(row for plan in plans for row in _rows(plan)), strict=True))
    if not columns:
        return RETENTION_SCHEMA.empty_table()
    arrays = [pa.array(column, field.type) for column, field in zip(columns, RETENTION_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=RETENTION_SCHEMA)


def _rows(plan: RetentionPlan) -> Iterator[tuple[object, ...]]:
    key = plan.topic, plan.partition
    if plan.error is not None:
        yield (*key, None, None, None, None, "failed", None, plan.error, None)
        return
    settings = settings_value(plan.settings)
    for segment in plan.segments:
        decision = "deleted" if segment.is_deleted else "kept"
        yield (
            *key,
            segment.base_offset,
            segment.end_offset,
            segment.size_bytes,
            segment.largest_timestamp_ms,
            decision,
            segment.decision.rule,
            segment.decision.reason,
            settings,
        )
