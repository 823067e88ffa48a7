"""Find records by time (Kafka: LogSegment.findOffsetByTimestamp, ListOffsets)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.log.offset_span import OffsetSpan
from native_log.records import DecodeOptions, decode
from native_log.segment.scan import max_batch_timestamp_ms, row
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from native_log.log.log_state import LogState
    from native_log.log.slices import SegmentSlice
    from native_log.segment.damage import DamagedRange
    from native_log.segment.lookup import SegmentLookup

_MAX_MS = (2**63 - 1) // 1000
_NEVER_MS = 2**63 - 1


def offset_for_timestamp(
    log: LogState, timestamp_ms: int, on_damage: Callable[[DamagedRange], None]
) -> int | None:
    """Return the lowest offset with a timestamp of at least `timestamp_ms`; None if there is none.

    Timestamps need not be in order. So every segment is searched, from the last entry of its time index
    before the time on.

    Args:
        on_damage: called with damaged ranges, which are skipped.
    """
    window, record_window = Window(), Window()
    for part in _rests_from_time(log, timestamp_ms, window):
        offset = _first_in_slice(log, part, timestamp_ms, on_damage, window, record_window)
        if offset is not None:
            return offset
    return None


def offset_for_max_timestamp(log: LogState, on_damage: Callable[[DamagedRange], None]) -> int | None:
    """Return the lowest offset of a record with the largest timestamp; None if no record has a timestamp.

    In each segment, only the batches from the last entry of its time index on are searched.

    Args:
        on_damage: called with damaged ranges, which are skipped.
    """
    largest, window = -1, Window()
    for part in _rests_from_time(log, _NEVER_MS, window):
        with part.lookup(window, log.max_batch_bytes) as lookup:
            for scanned in lookup.first_batches(part.start_position, on_damage):
                largest = max(largest, max_batch_timestamp_ms(scanned.batches))
    return None if largest < 0 else offset_for_timestamp(log, largest, on_damage)


def _rests_from_time(log: LogState, timestamp_ms: int, window: Window) -> Iterator[SegmentSlice]:
    """For each segment, yield the part in which its time index allows `timestamp_ms` or a later time."""
    whole = OffsetSpan(log.local_log_start_offset, log.high_watermark)
    for part in log.locate(whole).slices:
        with part.lookup(window, log.max_batch_bytes) as lookup:
            rest = rest_from_time(part, timestamp_ms, lookup)
        end = min(whole.end_offset if rest.max_offset is None else rest.max_offset, rest.segment.end_offset)
        span = OffsetSpan(rest.first_offset, max(rest.first_offset, end))
        yield from log.source.readable((rest,), span)


def rest_from_time(part: SegmentSlice, timestamp_ms: int, lookup: SegmentLookup) -> SegmentSlice:
    """Return the rest of a slice before which all timestamps are lower, as its time index shows."""
    position = lookup.find_timestamp(timestamp_ms)
    if position <= part.start_position:
        return part
    if position >= part.end_position:
        return replace(part, start_position=part.end_position)
    boundary = lookup.find_boundary(position)
    if boundary is None or boundary.position != position:
        return part
    return replace(part, start_position=position, next_offset=boundary.next_offset)


def _first_in_slice(
    log: LogState,
    part: SegmentSlice,
    timestamp_ms: int,
    on_damage: Callable[[DamagedRange], None],
    window: Window,
    record_window: Window,
) -> int | None:
    with part.lookup(window, log.max_batch_bytes) as lookup:
        for scanned in lookup.first_batches(part.start_position, on_damage):
            late = pc.greater_equal(scanned.batches.column("maxTimestamp"), pa.scalar(timestamp_ms))
            for index in pc.indices_nonzero(late).to_pylist():
                batch = row(scanned.batches, index)
                stop = batch["position"] + batch["sizeInBytes"]
                view = record_window.at(lookup.file, batch["position"], stop, batch["sizeInBytes"])
                offset = _first_in_batch(log, part, view, batch["position"], timestamp_ms)
                if offset is not None:
                    return offset
    return None


def _first_in_batch(
    log: LogState, part: SegmentSlice, batch: memoryview, position: int, timestamp_ms: int
) -> int | None:
    records = decode(
        batch,
        ["offset", "timestamp"],
        DecodeOptions(
            start_offset=max(part.min_offset or 0, log.local_log_start_offset),
            end_offset=part.max_offset,
            control=True,
            max_batch_bytes=log.max_batch_bytes,
        ),
        base_position=position,
    )
    minimum = pa.scalar(max(-_MAX_MS, min(timestamp_ms, _MAX_MS)) * 1000)
    late = pc.greater_equal(records.batch.column("timestamp").cast(pa.int64()), minimum)
    index = pc.index(late, True).as_py()
    return None if index < 0 else records.batch.column("offset")[index].as_py()
