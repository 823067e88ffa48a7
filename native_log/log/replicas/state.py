"""Read what a copy of a log contains, without reading its records.

The cost is that of opening the copy: a listing, checkpoints, some batches, and at most the last segment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import EpochEntry, drop_contradicted
from native_log.log.leader_history import BatchEpoch, History, history
from native_log.log.missing_segments import missing_segments
from native_log.log.replicas.last_batch import is_believed, last_batch_after_gap
from native_log.log.replicas.plan import CopyState
from native_log.segment.files import MAX_OFFSET
from native_log.segment.lookup import SegmentLookup
from native_log.segment.scan import valid_batch_at
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.log.log_state import LogState
    from native_log.log.offset_span import OffsetSpan
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment


def read_state(log: LogState, end_offset: int | None = None) -> CopyState:
    """Return what a copy contains.

    Args:
        log: the log of the copy.
        end_offset: ignore records from this offset on; None: read all.

    Raises OSError, LogTruncatedError if the files change meanwhile.
    """
    valid_end, has_damaged_end = _end(log)
    end = valid_end if end_offset is None else min(end_offset, valid_end)
    return CopyState(
        _read_history(log, end),
        log.segments[0].base_offset if log.segments else end,
        end,
        log.checkpoints.log_start_offset,
        log.checkpoints.high_watermark,
        _missing_between(log),
        has_damaged_end=has_damaged_end and end_offset is None and not log.checkpoints.live,
    )


def without_doubtful_batches(logs: Sequence[LogState], states: Sequence[CopyState]) -> list[CopyState]:
    """Return the states of copies without last batches whose offsets are not believed (see last_batch.py).

    Args:
        logs: the copies.
        states: the result of `read_state` for each.

    Raises OSError, LogTruncatedError if the files change meanwhile.
    """
    return [
        _without_doubtful_batch(log, state, [other for other in logs if other is not log])
        for log, state in zip(logs, states, strict=True)
    ]


def _without_doubtful_batch(log: LogState, state: CopyState, others: Sequence[LogState]) -> CopyState:
    if not others or state.end_offset != log.log_end_offset:
        return state
    batch = last_batch_after_gap(log)
    if batch is None or is_believed(batch, log, others):
        return state
    before = read_state(log, batch.expected_offset)
    return replace(before, has_damaged_end=not log.checkpoints.live, doubtful=batch)


def _end(log: LogState) -> tuple[int, bool]:
    """Return the offset after the last valid batch, and whether damaged bytes follow it.

    A damaged header may claim any offset.
    """
    if not log.segments:
        return log.log_end_offset, False
    segment = log.segments[-1]
    end_offset = max(segment.base_offset, log.local_log_start_offset)
    end_position = log.end_position(segment)
    if end_position == 0:
        return end_offset, False
    with _lookup(log, segment) as lookup:
        last = log.tail.last_position
        if last is not None:
            batch = valid_batch_at(
                lookup.file, last, end_position, Window(), max_batch_bytes=log.max_batch_bytes
            )
            if batch is not None and batch["lastOffset"] + 1 == log.log_end_offset:
                return log.log_end_offset, last + batch["sizeInBytes"] < end_position
        damaged: deque[DamagedRange] = deque(maxlen=1)
        for scanned in lookup.batches(0, damaged.append, only_valid=True):
            end_offset = max(end_offset, scanned.next_offset or 0)
    return end_offset, bool(damaged) and damaged[0].end_position == end_position


def _read_history(log: LogState, end_offset: int) -> History:
    """Return the leader epochs of a copy.

    The checkpoint is complete, unless it is missing, or older than the segments. Then the headers of batches
    show the later epochs.
    """
    first = _batch_epoch(log, log.segments[0].base_offset) if log.segments else None
    last = _batch_epoch(log, end_offset - 1)
    if first is None or last is None or first.base_offset >= end_offset:
        return history(log.leader_epochs, end_offset)
    entries = list(drop_contradicted(log.leader_epochs))
    known = entries[-1] if entries else EpochEntry(-1, first.base_offset)
    if last.epoch > known.epoch:
        later = _epochs_after(log, known, end_offset)
        # No checksum covers the epoch of a batch, and a wrong one could make a copy lead. So a single batch
        # with another epoch does not count.
        if entries and later and _batch_epoch(log, later[-1].start_offset) == last:
            later.pop()
        entries += later
    return history(entries, end_offset, first, last)


def _epochs_after(log: LogState, known: EpochEntry, end_offset: int) -> list[EpochEntry]:
    """Return the epochs of the batches that are greater than `known`, with the offsets where they begin.

    Leader epochs do not decrease, so their starts are found by binary search.
    """
    entries: list[EpochEntry] = []
    epoch, start = known.epoch, known.start_offset
    while start < end_offset:
        start += bisect_right(range(start, end_offset), epoch, key=lambda offset: _epoch_at(log, offset))
        if start < end_offset:
            epoch = _epoch_at(log, start)
            entries.append(EpochEntry(epoch, start))
    return entries


def _epoch_at(log: LogState, offset: int) -> int:
    batch = _batch_epoch(log, offset)
    return -1 if batch is None else batch.epoch


def _batch_epoch(log: LogState, offset: int) -> BatchEpoch | None:
    """Return the epoch of the first valid batch with a last offset of at least `offset`; None: no batch."""
    bases = [segment.base_offset for segment in log.segments]
    for segment in log.segments[max(0, bisect_right(bases, offset) - 1) :]:
        if log.end_position(segment) == 0:
            continue
        with _lookup(log, segment) as lookup:
            place = lookup.find_offset(offset)
            for scanned in lookup.batches(
                place.position, _ignore, next_offset=place.next_offset, only_valid=True
            ):
                if scanned.batches.num_rows:
                    epoch, base_offset, last_offset = (
                        scanned.batches.column(name)[0].as_py()
                        for name in ("leaderEpoch", "baseOffset", "lastOffset")
                    )
                    return BatchEpoch(
                        -1 if epoch is None else epoch, last_offset if base_offset is None else base_offset
                    )
    return None


def _missing_between(log: LogState) -> tuple[OffsetSpan, ...]:
    """Return the offsets of missing segments between others."""
    bases = log.base_offsets
    spans = (each.span for each in missing_segments(log))
    return tuple(each for each in spans if each.end_offset < MAX_OFFSET and bases[0] <= each.start_offset)


def _lookup(log: LogState, segment: LogSegment) -> SegmentLookup:
    return SegmentLookup(segment, log.end_position(segment), Window(), max_batch_bytes=log.max_batch_bytes)


def _ignore(damaged: DamagedRange) -> None:
    """Ignore damage: a reader finds it where it reads."""
