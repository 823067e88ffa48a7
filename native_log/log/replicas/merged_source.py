"""A merged log as a value: which copy is read for which offsets. Tasks of Spark open the log from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from native_log.checkpoints.partition_checkpoints import NO_CHECKPOINTS, PartitionCheckpoints
from native_log.segment.files import MAX_OFFSET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from native_log.log.local_log import LocalLog
    from native_log.log.replicas.plan import CopyState, MergePlan
    from native_log.log.segment_slices import SegmentSlice
    from native_log.policies import Gaps


@dataclass(frozen=True, slots=True)
class CopyRange:
    """Offsets from `start_offset` to before `end_offset` of the copy in the directory `path`."""

    path: str
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class MergedSource:
    """What is needed to open a merged log.

    Attributes:
        leader: the directory of the leading copy.
        copies: all copies that were merged, best first, each with the offsets that agree with the merged log.
        clean: the directories among them that a broker shut down cleanly.
        ranges: the copy of each offset, in the order of offsets and without gaps.
        gaps: whether compaction explains offsets that no batch of a copy has. If not, they are read from
            other copies.
        log_start_offset: the first offset.
        log_end_offset: the offset after the last record.
        has_damaged_end: whether the copy of the last range continues with damaged batches that no copy has.
        doubtful_offset: the offset of its last batch, if that is not believed and counts as damaged.
        checkpoints: the checkpoint entries of the merged log. The high watermark is the highest one of a copy
            that agrees with the merged log.
    """

    leader: str
    copies: tuple[CopyRange, ...]
    clean: tuple[str, ...]
    ranges: tuple[CopyRange, ...]
    gaps: Gaps
    log_start_offset: int
    log_end_offset: int
    has_damaged_end: bool
    doubtful_offset: int | None
    checkpoints: PartitionCheckpoints

    def checkpoints_of(self, path: str) -> PartitionCheckpoints:
        """Return the checkpoints with which the copy in the directory `path` is opened."""
        return PartitionCheckpoints(clean_shutdown=True) if path in self.clean else NO_CHECKPOINTS


def merged_source(
    plan: MergePlan, logs: Sequence[LocalLog], states: Sequence[CopyState], gaps: Gaps
) -> MergedSource:
    """Return the merged log that is planned. `logs` and `gaps` are those of `merge`."""
    paths = [str(log.path) for log in logs]
    checkpoints = [log.checkpoints for log in logs]
    known = [
        each.checkpointed_high_watermark
        for each in checkpoints
        if each.checkpointed_high_watermark is not None
    ]
    starts = [own.log_start_offset for own in checkpoints if own.log_start_offset is not None]
    is_live = any(own.live for own in checkpoints)
    # Bytes after the end of a live log may be those of a batch that is being written.
    last = states[plan.spans[-1].copy] if plan.spans else None
    has_damaged_end = not is_live and last is not None and last.has_damaged_end
    doubtful = last.doubtful if has_damaged_end and last is not None else None
    return MergedSource(
        paths[plan.leader],
        tuple(
            CopyRange(paths[copy], states[copy].start_offset, plan.agreed_ends[copy]) for copy in plan.ranking
        ),
        tuple(path for path, own in zip(paths, checkpoints, strict=True) if own.clean_shutdown),
        tuple(CopyRange(paths[span.copy], span.start_offset, span.end_offset) for span in plan.spans),
        gaps,
        plan.log_start_offset,
        plan.log_end_offset,
        has_damaged_end,
        None if doubtful is None else doubtful.first_offset,
        PartitionCheckpoints(
            log_start_offset=max(starts, default=None),
            high_watermark=plan.high_watermark,
            checkpointed_high_watermark=max(known, default=None),
            live=is_live,
            clean_shutdown=checkpoints[plan.leader].clean_shutdown,
        ),
    )


def whole_log(source: MergedSource, logs: Mapping[str, LocalLog]) -> tuple[SegmentSlice, ...]:
    """Return the slices of the merged log, in which damage has not been looked for.

    Args:
        source: the merged log.
        logs: its copies, by directory.
    """
    slices: list[SegmentSlice] = []
    for part in source.ranges:
        log, end, limit = logs[part.path], part.end_offset, MAX_OFFSET
        if source.has_damaged_end and part is source.ranges[-1]:
            end = log.log_end_offset  # so that a reader reports the damage
            limit = limit if source.doubtful_offset is None else source.doubtful_offset
        slices += (
            replace(
                located,
                segment=replace(located.segment, end_offset=min(located.segment.end_offset, limit)),
                min_offset=part.start_offset,
                max_offset=part.end_offset,
            )
            for located in log.locate(part.start_offset, end)[0]
        )
    return tuple(slices)
