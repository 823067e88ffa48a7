"""Inspect a copy of a log: read all its batches, and note leader epochs and damaged ranges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.log.log_files import indexes_without_log
from native_log.log.replicas.history import EpochRun, history
from native_log.log.replicas.plan import CopyState, OffsetSpan
from native_log.segment.lookup import SegmentLookup
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from native_log.log.local_log import LocalLog
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged range of a copy.

    Attributes:
        segment: the segment that contains it.
        bytes: the damaged range.
        lost: the offsets that it may have held. At the end of the log, the end is MAX_OFFSET.
    """

    segment: LogSegment
    bytes: DamagedRange
    lost: OffsetSpan


@dataclass(frozen=True, slots=True)
class InspectedCopy:
    """A copy of a log, after all its batches were checked.

    Attributes:
        log: the log.
        state: what it contains.
        damaged: its damaged ranges, by segment and position.
        missing: offsets of missing segments, or in a topic that is not compacted of missing batches.
    """

    log: LocalLog
    state: CopyState
    damaged: tuple[Damage, ...]
    missing: tuple[OffsetSpan, ...]


def inspect_copy(log: LocalLog, end_offset: int | None = None, is_compacted: bool = True) -> InspectedCopy:
    """Check the checksums of all batches of a copy, and return what it contains.

    Args:
        log: the log of the copy.
        end_offset: ignore records from this offset on, which an unfinished write left; None: there is none.
        is_compacted: whether compaction may have removed records. Then offsets are missing only if an index
            without a .log file shows a missing segment.

    Raises OSError, LogTruncatedError if the files change meanwhile.
    """
    runs: list[EpochRun] = []
    damaged: list[Damage] = []
    last_base = log.segments[-1].base_offset if log.segments else 0
    end = max(last_base, log.local_log_start_offset)
    gaps: list[OffsetSpan] = []
    previous: int | None = None
    for segment in log.segments:
        in_segment: list[DamagedRange] = []
        for batches in valid_batches(log, segment, in_segment):
            gaps += _gaps(batches, previous)
            _add_runs(runs, batches)
            previous = runs[-1].last_offset
            # The end of a damaged log may come from the header of a damaged batch, so it is not used here.
            end = max(end, runs[-1].last_offset + 1)
        damaged += (Damage(segment, each, _lost_offsets(each, segment)) for each in in_segment)
    end = end if end_offset is None else min(end_offset, end)
    lost = [each.lost for each in damaged if each.lost.start_offset < each.lost.end_offset]
    if is_compacted:
        without_log = indexes_without_log(path.name for path in log.path.iterdir())
        gaps = [gap for gap in gaps if any(gap.start_offset <= base < gap.end_offset for base in without_log)]
    missing = [gap for gap in gaps if not any(_overlap(gap, span) for span in lost)]
    state = CopyState(
        history([run for run in runs if run.first_offset < end], log.leader_epochs, end),
        log.segments[0].base_offset if log.segments else end,
        end,
        log.checkpoints.log_start_offset,
        log.checkpoints.high_watermark,
        _union([*lost, *missing]),
    )
    return InspectedCopy(log, state, tuple(damaged), tuple(missing))


def valid_batches(
    log: LocalLog, segment: LogSegment, damaged: list[DamagedRange]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches with right checksums of a segment (BATCH_SCHEMA). Damage is added to `damaged`."""
    end = log.end_position(segment)
    if end == 0:
        return
    with SegmentLookup(segment, end, Window(), max_batch_bytes=log.max_batch_bytes) as lookup:
        for scanned in lookup.batches(0, damaged.append, only_valid=True):
            if scanned.batches.num_rows:
                yield scanned.batches


def _add_runs(runs: list[EpochRun], batches: pa.RecordBatch) -> None:
    """Append the runs of leader epochs in the batches."""
    encoded = pc.run_end_encode(batches.column("leaderEpoch"))
    first = 0
    for epoch, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
        last_offsets = batches.column("lastOffset")
        base_offset = batches.column("baseOffset")[first].as_py()
        run = EpochRun(
            -1 if epoch is None else epoch,
            last_offsets[first].as_py() if base_offset is None else base_offset,
            last_offsets[end - 1].as_py(),
            end - first,
        )
        if runs and runs[-1].epoch == run.epoch:
            before = runs.pop()
            run = replace(before, last_offset=run.last_offset, batches=before.batches + run.batches)
        runs.append(run)
        first = end


def _gaps(batches: pa.RecordBatch, previous: int | None) -> Iterator[OffsetSpan]:
    """Yield the offsets between batches. `previous` is the last offset of the batch before them."""
    lasts = batches.column("lastOffset")
    first = pc.coalesce(batches.column("baseOffset"), lasts)
    if previous is not None and first[0].as_py() > previous + 1:
        yield OffsetSpan(previous + 1, first[0].as_py())
    # The header of a compressed batch of magic 0 or 1 has no base offset, so that its gaps are unknown.
    is_known = batches.column("baseOffset").is_valid()[1:]
    is_gap = pc.and_(is_known, pc.greater(first[1:], pc.add(lasts[:-1], 1)))
    for index in pc.indices_nonzero(is_gap).to_pylist():
        yield OffsetSpan(lasts[index].as_py() + 1, first[index + 1].as_py())


def _union(spans: Iterable[OffsetSpan]) -> tuple[OffsetSpan, ...]:
    """Return the spans in order, with those that overlap joined."""
    joined: list[OffsetSpan] = []
    for span in sorted(spans, key=lambda span: span.start_offset):
        if joined and span.start_offset < joined[-1].end_offset:
            before = joined.pop()
            span = OffsetSpan(before.start_offset, max(before.end_offset, span.end_offset))
        joined.append(span)
    return tuple(joined)


def _overlap(one: OffsetSpan, other: OffsetSpan) -> bool:
    return one.start_offset < other.end_offset and other.start_offset < one.end_offset


def _lost_offsets(damaged: DamagedRange, segment: LogSegment) -> OffsetSpan:
    """Return the offsets that a damaged range may have held."""
    start = segment.base_offset if damaged.offset is None else damaged.offset
    end = segment.end_offset if damaged.next_offset is None else damaged.next_offset
    return OffsetSpan(start, max(start, end))
