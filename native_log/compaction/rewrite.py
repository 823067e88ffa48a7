"""Read the keys of a round, and rewrite its groups of segments."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from native_log.compaction.statistics import GroupStatistics
from native_log.compaction.verdicts import GroupVerdicts
from native_log.log.replacing.cleaned_segment import (
    create_cleaned_segment,
    finish_cleaned_segment,
    flush_cleaned_segment,
)
from native_log.records import (
    BatchHeaders,
    InputOptions,
    RewriteOptions,
    Rewritten,
    rewrite,
    rewrite_file,
    scan,
)
from native_log.segment.chunks import BatchCursor
from native_log.segment.damage import reject_damage
from native_log.segment.scan import max_batch_timestamp_ms, whole_batches
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from native_log.compaction.rounds import Group, Round, SourceSegment
    from native_log.log.reading.log_range import LogRange
    from native_log.records import Scanned, Survivors
    from native_log.records.compaction import PutBatches
    from native_log.segment.writer import SegmentWriter

_KEY_CHUNK_BYTES = 512 << 10
"""How many bytes to read keys from at once. They are read twice, and are still in the CPU cache then."""

_VERDICT_CHUNK_BYTES = 8 << 20
"""How many bytes to decide about at once: enough to make the cost of a call negligible."""

_OUTPUT_BYTES = 4 << 20
"""How many bytes to write at once."""

_MAX_HEADERS = 1 << 16
"""How many headers to collect before they are handed on."""


@dataclass(frozen=True, slots=True)
class CollectedKeys:
    """What `put_keys` read.

    Attributes:
        records: number of records.
        null_keys: how many of these records have no key.
        full_at: the offset after the last record in the map if the map became full; otherwise None.
    """

    records: int
    null_keys: int
    full_at: int | None


def put_keys(
    range: LogRange,
    aborted: bytes,
    put: PutBatches,
    headers: Callable[[pa.RecordBatch], None] | None = None,
) -> CollectedKeys:
    """Call `put` with the batches of a range until the end, or until the map is full.

    Args:
        aborted: the aborted transactions of the range (see pack_ranges).
        headers: called with headers (BATCH_SCHEMA) of these batches: early if there are transactions,
            otherwise after many batches. If the map becomes full, not called with the last ones.

    Raises CorruptRecordError, LogTruncatedError, FileNotFoundError.
    """
    window = Window(_KEY_CHUNK_BYTES)
    records = null_keys = 0
    for segment_slice in range.slices:
        collected = BatchHeaders()
        options = InputOptions(
            start_offset=segment_slice.min_offset,
            end_offset=segment_slice.max_offset,
            aborted=aborted,
            max_batch_bytes=range.max_batch_bytes,
        )
        with segment_slice.segment.open_unchanged() as file:
            cursor = BatchCursor(
                file, segment_slice.start_position, segment_slice.end_position, segment_slice.order(file)
            )
            while cursor.has_more:
                view = cursor.view(window)
                result = put(view, options, base_position=cursor.position, order=cursor.order)
                records += result.records
                null_keys += result.null_keys
                if headers is not None:
                    collected.add(
                        view,
                        base_position=cursor.position,
                        end=result.position,
                        max_batch_bytes=range.max_batch_bytes,
                    )
                    if collected.has_transactions or len(collected) >= _MAX_HEADERS or result.damage:
                        headers(collected.take())
                if result.status == "full":
                    return CollectedKeys(records, null_keys, result.next_offset)
                result = cursor.advance(result, len(view))
                reject_damage(cursor, result, range.max_batch_bytes)
        if headers is not None and len(collected):
            headers(collected.take())
    return CollectedKeys(records, null_keys, None)


def rewrite_group(
    round: Round,
    group: Group,
    survivors: Survivors,
    directory: Path | None,
    *,
    flush: bool = True,
) -> GroupStatistics:
    """Rewrite the segments of a group as one segment, whose file names have the suffix CLEANED.

    Args:
        survivors: the offsets of the round to keep.
        directory: the directory for the files; None: write nothing, and only return the statistics.
        flush: flush the files to disk. Otherwise the caller must call `flush_cleaned_segment`.

    Raises:
        CorruptRecordError: a batch is damaged. The files written so far are not usable.
        LogTruncatedError: a segment has changed since the log was listed.
    """
    stats = GroupStatistics()
    output = (
        nullcontext(None)
        if directory is None
        else create_cleaned_segment(directory, group.base_offset, round.index_interval_bytes)
    )
    window = Window(_VERDICT_CHUNK_BYTES)
    verdicts = None
    if group.context is not None:
        verdicts = GroupVerdicts(group.context, round.now_ms)
    with output as segment:
        for source in group.sources:
            stats += _rewrite_source(round, source, survivors, segment, window, verdicts)
        if segment is not None:
            finish_cleaned_segment(segment, group.aborted_transactions, group.sources[-1].segment.mtime_ms)
    if directory is not None and flush:
        flush_cleaned_segment(directory, group.base_offset)
    keys = len(survivors.between(group.base_offset, group.end_offset))
    return stats + GroupStatistics(keys=keys)


def _rewrite_source(
    round: Round,
    source: SourceSegment,
    survivors: Survivors,
    output: SegmentWriter | None,
    window: Window,
    verdicts: GroupVerdicts | None,
) -> GroupStatistics:
    segment = source.segment
    stats = GroupStatistics()
    options = RewriteOptions(
        survivors,
        round.end_offset,
        round.now_ms,
        round.delete_horizon_ms,
        legacy_tombstones_kept=source.legacy_tombstones_kept,
        max_batch_bytes=round.source.max_batch_bytes,
    )
    with segment.open_unchanged() as file:
        cursor = BatchCursor(file, 0, segment.size_bytes)
        while cursor.has_more:
            result = _filter(cursor, verdicts, options)
            size_bytes = cursor.end - cursor.position
            if result is None:
                view = cursor.view(window)
                result = _rewrite_by_verdicts(view, cursor.position, verdicts, options)
                size_bytes = len(view)
            if output is not None:
                output.append(result.data, result.batches)
            stats += GroupStatistics(
                result.stats,
                0,
                *_horizons(result.batches, round.delete_horizon_ms),
                max_batch_timestamp_ms(result.batches),
            )
            reject_damage(cursor, cursor.advance(result, size_bytes), round.source.max_batch_bytes)
    return stats


def _filter(cursor: BatchCursor, verdicts: GroupVerdicts | None, options: RewriteOptions) -> Rewritten | None:
    """Rewrite batches up to the first one that needs a verdict; None if the first one does."""
    judged = None if verdicts is None else verdicts.retained_last_offsets
    rewrite_range = partial(rewrite_file, options=options, judged=judged, max_bytes=_OUTPUT_BYTES)
    stop = cursor.stop(cursor.end - cursor.position)
    result = cursor.file.read_by(rewrite_range, cursor.position, stop)
    if result.position == cursor.position:
        return None
    return replace(result, status="end", needed_bytes=0, damage=None)


def _rewrite_by_verdicts(
    view: memoryview,
    position: int,
    verdicts: GroupVerdicts | None,
    options: RewriteOptions,
) -> Rewritten:
    """Rewrite the batches in `view` by their verdicts."""
    codes, scanned = None, None
    if verdicts is not None:
        codes, scanned = _decide(verdicts, view, position, options.max_batch_bytes)
    result = rewrite(view, options, verdicts=codes, base_position=position)
    if scanned is not None and result.status == "limit":
        return replace(
            result, status=scanned.status, needed_bytes=scanned.needed_bytes, damage=scanned.damage
        )
    return result


def _horizons(batches: pa.RecordBatch, new_ms: int) -> tuple[tuple[int, int] | None, int | None]:
    """Return the lowest and the highest delete horizon, and the highest one that is not `new_ms`."""
    horizons = batches.column("deleteHorizonMs")
    if horizons.null_count == len(horizons):
        return None, None
    times = horizons.drop_null().to_pylist()
    return (min(times), max(times)), max((time for time in times if time != new_ms), default=None)


def _decide(
    verdicts: GroupVerdicts, view: memoryview, position: int, max_batch_bytes: int
) -> tuple[bytes | None, Scanned | None]:
    """Decide about the batches that are whole in `view`.

    Each batch is decided about once, since the next verdict depends on it.

    Returns:
        The verdicts, None if no batch needs one; and the scan of these batches, which says what follows them.
    """
    headers = BatchHeaders()
    headers.add(view, base_position=position, max_batch_bytes=max_batch_bytes)
    if not headers.has_transactions and not verdicts.may_retain_empty(headers.last_offsets):
        return None, None
    scanned = scan(view, base_position=position, max_batch_bytes=max_batch_bytes)
    scanned = whole_batches(scanned, position + len(view))
    codes = verdicts.decide(scanned.batches)
    if codes is None and scanned.status == "partial":
        codes = bytes(scanned.batches.num_rows)
    return codes, scanned
