"""A merged log as a value: which bytes of which copies hold it. Tasks of Spark open the log from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from native_log.checkpoints.partition_checkpoints import NO_CHECKPOINTS, PartitionCheckpoints
from native_log.errors import LogTruncatedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from native_log.log.local_log import LocalLog
    from native_log.log.replicas.copies import Damage, InspectedCopy
    from native_log.log.replicas.plan import MergePlan
    from native_log.log.segment_slices import SegmentSlice


@dataclass(frozen=True, slots=True)
class CopyRange:
    """Offsets from `start_offset` to before `end_offset`, read from the copy in the directory `path`."""

    path: str
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class DamagedBytes:
    """Damaged bytes of one copy. They are read only if the log has no other bytes for their offsets.

    Attributes:
        path: the partition directory.
        segment: the name of the file.
        inode, segment_bytes, mtime_ms: the identity of the file, as in SegmentSlice.
        position, end_position: the bytes, end exclusive.
        start_offset, end_offset: the offsets that they may have held, end exclusive.
    """

    path: str
    segment: str
    inode: int
    segment_bytes: int
    mtime_ms: int
    position: int
    end_position: int
    start_offset: int
    end_offset: int

    @classmethod
    def of(cls, damage: Damage) -> DamagedBytes:
        """Return the damaged bytes that were found in a copy."""
        segment = damage.segment
        return cls(
            segment.directory,
            segment.log,
            segment.inode,
            segment.size_bytes,
            segment.mtime_ms,
            damage.bytes.position,
            damage.bytes.end_position,
            damage.lost.start_offset,
            damage.lost.end_offset,
        )

    def check_file(self, located: SegmentSlice) -> None:
        """Raise LogTruncatedError if `located` is in another file than these bytes. See DataFile.matches."""
        is_unchanged = (located.segment_bytes, located.mtime_ms) == (self.segment_bytes, self.mtime_ms)
        has_grown = located.inode == self.inode and located.segment_bytes >= self.segment_bytes
        if not (is_unchanged or has_grown):
            raise LogTruncatedError(
                "expected the file that was merged with other copies, found another one: a broker changes "
                "this copy; open the log directories again",
                path=located.path_in(self.path),
            )

    def is_in(self, part: CopyRange, log_end_offset: int) -> bool:
        """Return whether `part` has offsets of these bytes, or ends the log where these bytes follow."""
        if self.start_offset >= part.end_offset:
            return part.end_offset == log_end_offset
        return part.start_offset < self.end_offset and self.start_offset < self.end_offset


@dataclass(frozen=True, slots=True)
class MergedSource:
    """What is needed to open a merged log.

    Attributes:
        leader: the directory of the leading copy.
        copies: the directories of all copies that were merged, in the order given.
        clean: the directories among them that a broker shut down cleanly.
        ranges: the copy of each offset, in the order of offsets and without gaps.
        damaged: the damaged bytes of all copies.
        log_start_offset: the first offset.
        log_end_offset: the offset after the last record.
        checkpoints: the checkpoint entries of the merged log. The high watermark is the highest one of a copy
            that agrees with the merged log.
    """

    leader: str
    copies: tuple[str, ...]
    clean: tuple[str, ...]
    ranges: tuple[CopyRange, ...]
    damaged: tuple[DamagedBytes, ...]
    log_start_offset: int
    log_end_offset: int
    checkpoints: PartitionCheckpoints

    def checkpoints_of(self, path: str) -> PartitionCheckpoints:
        """Return the checkpoints with which the copy in the directory `path` is opened."""
        return PartitionCheckpoints(clean_shutdown=True) if path in self.clean else NO_CHECKPOINTS


def merged_source(plan: MergePlan, copies: Sequence[InspectedCopy]) -> MergedSource:
    """Return the merged log that is planned."""
    paths = [str(copy.log.path) for copy in copies]
    checkpoints = [copy.log.checkpoints for copy in copies]
    starts = [own.log_start_offset for own in checkpoints if own.log_start_offset is not None]
    return MergedSource(
        paths[plan.leader],
        tuple(paths),
        tuple(path for path, own in zip(paths, checkpoints, strict=True) if own.clean_shutdown),
        tuple(CopyRange(paths[span.copy], span.start_offset, span.end_offset) for span in plan.spans),
        tuple(DamagedBytes.of(damage) for copy in copies for damage in copy.damaged),
        plan.log_start_offset,
        plan.log_end_offset,
        PartitionCheckpoints(
            log_start_offset=max(starts, default=None),
            high_watermark=plan.high_watermark,
            live=any(own.live for own in checkpoints),
            clean_shutdown=checkpoints[plan.leader].clean_shutdown,
        ),
    )


def whole_log(source: MergedSource, logs: Mapping[str, LocalLog]) -> tuple[SegmentSlice, ...]:
    """Return the slices of the merged log.

    Damaged bytes are in them only if no copy has their records, so that a reader reports them.

    Args:
        source: the merged log.
        logs: its copies, by directory.
    """
    by_file: dict[tuple[str, str], list[DamagedBytes]] = {}
    for damaged in source.damaged:
        by_file.setdefault((damaged.path, damaged.segment), []).append(damaged)
    slices: list[SegmentSlice] = []
    for part in source.ranges:
        for located in logs[part.path].locate(part.start_offset, part.end_offset)[0]:
            bounded = replace(
                located, directory=part.path, min_offset=part.start_offset, max_offset=part.end_offset
            )
            in_file = by_file.get((part.path, located.segment), [])
            for damaged in in_file[:1]:
                damaged.check_file(located)
            slices += _without(
                bounded, [damaged for damaged in in_file if not damaged.is_in(part, source.log_end_offset)]
            )
    return tuple(slices)


def _without(located: SegmentSlice, damaged: Sequence[DamagedBytes]) -> list[SegmentSlice]:
    """Return the slice without damaged bytes, which are in order."""
    parts = []
    for each in damaged:
        if each.end_position <= located.start_position or each.position >= located.end_position:
            continue
        if located.start_position < each.position:
            parts.append(replace(located, end_position=each.position))
        located = replace(
            located,
            start_position=each.end_position,
            next_offset=max(located.next_offset, each.end_offset),
        )
    return [*parts, located] if located.start_position < located.end_position else parts
