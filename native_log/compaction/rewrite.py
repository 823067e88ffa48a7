"""The work on a round's bytes: keys gathered, groups rewritten."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
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
    from native_log.records import Scanned
    from native_log.records.compaction import PutBatches, Survivors
    from native_log.segment.writer import SegmentWriter

_GATHER_BYTES = 512 << 10
"""CollectedKeys from at a time: they are gone over twice, and stay in the processor's cache meanwhile."""

_READ_BYTES = 8 << 20
"""Judged at a time: so much that what is done once a call does not count."""

_OUTPUT_BYTES = 4 << 20
"""Written at a time."""

_MOST_HEADERS = 1 << 16
"""CollectedKeys before they are told."""


@dataclass(frozen=True, slots=True)
class CollectedKeys:
    """What `put_keys` looked at. `full_at`: where the map was full, the offset behind the last record put."""

    records: int
    null_keys: int
    full_at: int | None


def put_keys(
    range: LogRange,
    aborted: bytes,
    put: PutBatches,
    headers: Callable[[pa.RecordBatch], None] | None = None,
) -> CollectedKeys:
    """Hands the batches of `range` to `put`, until the end or until it has no more room.

    Args:
        headers: told the headers (BATCH_SCHEMA) of what `put` took, too: soon of transactions, else now and
            then. When there is no more room, not of the last ones.

    Raises:
        CorruptRecordError, LogTruncatedError, FileNotFoundError.
    """
    window = Window(_GATHER_BYTES)
    records = null_keys = 0
    for piece in range.slices:
        gathered = BatchHeaders()
        options = InputOptions(
            start_offset=piece.min_offset,
            end_offset=piece.max_offset,
            aborted=aborted,
            max_batch_bytes=range.max_batch_bytes,
        )
        with piece.to_segment(range.path).open_unchanged() as file:
            cursor = BatchCursor(file, piece.start_position, piece.end_position, piece.order(file))
            while cursor.has_more:
                view = cursor.view(window)
                found = put(view, options, base_position=cursor.position, order=cursor.order)
                records += found.records
                null_keys += found.null_keys
                if headers is not None:
                    gathered.add(
                        view,
                        base_position=cursor.position,
                        end=found.position,
                        max_batch_bytes=range.max_batch_bytes,
                    )
                    if gathered.has_transactions or len(gathered) >= _MOST_HEADERS or found.damage:
                        headers(gathered.take())
                if found.status == "full":
                    return CollectedKeys(records, null_keys, found.next_offset)
                found = cursor.advance(found, len(view))
                reject_damage(cursor, found, range.max_batch_bytes)
        if headers is not None and len(gathered):
            headers(gathered.take())
    return CollectedKeys(records, null_keys, None)


def rewrite_group(
    round: Round,
    group: Group,
    survivors: Survivors,
    directory: Path | None,
    *,
    flush: bool = True,
) -> GroupStatistics:
    """Writes what survives of a group's segments as one segment, its files' names with the suffix CLEANED.

    Args:
        survivors: the offsets of the round that survive.
        directory: where to; None: nowhere, only the statistics are wanted.
        flush: wait until they are on the disk; else `flush_cleaned_segment` is the caller's.

    Raises:
        CorruptRecordError: a batch is damaged; what was written so far is of no use.
    """
    stats = GroupStatistics()
    output = (
        nullcontext(None)
        if directory is None
        else create_cleaned_segment(directory, group.base_offset, round.index_interval_bytes)
    )
    window = Window(_READ_BYTES)
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
        max_batch_bytes=round.max_batch_bytes,
    )
    with segment.open_unchanged() as file:
        cursor = BatchCursor(file, 0, segment.size_bytes)
        while cursor.has_more:
            at = 0 if output is None else output.size_bytes
            found = _filtered(cursor, verdicts, options, at)
            size_bytes = cursor.end - cursor.position
            if found is None:
                view = cursor.view(window)
                found = _judged(view, cursor.position, verdicts, options, at)
                size_bytes = len(view)
            if output is not None:
                output.append(found.data, found.batches)
            stats += GroupStatistics(
                found.stats,
                0,
                *_horizons(found.batches, round.delete_horizon_ms),
                max_batch_timestamp_ms(found.batches),
            )
            reject_damage(cursor, cursor.advance(found, size_bytes), round.max_batch_bytes)
    return stats


def _filtered(
    cursor: BatchCursor, verdicts: GroupVerdicts | None, options: RewriteOptions, output_position: int
) -> Rewritten | None:
    """What comes of the batches from `position` on, as far as they are just filtered; None: not that one."""
    judged = None if verdicts is None else verdicts.retained_last_offsets
    try:
        found = rewrite_file(
            cursor.file.fileno(),
            cursor.position,
            cursor.end,
            options,
            judged=judged,
            max_bytes=_OUTPUT_BYTES,
            output_position=output_position,
        )
    except EOFError:
        return None
    if found.position == cursor.position:
        return None
    return replace(found, status="end", needed_bytes=0, damage=None)


def _judged(
    view: memoryview,
    position: int,
    verdicts: GroupVerdicts | None,
    options: RewriteOptions,
    output_position: int,
) -> Rewritten:
    """What comes of the batches in `view`, by the verdicts on those that are not just filtered."""
    codes, scanned = None, None
    if verdicts is not None:
        codes, scanned = _verdicts(verdicts, view, position, options.max_batch_bytes)
    found = rewrite(view, options, verdicts=codes, base_position=position, output_position=output_position)
    if scanned is not None and found.status == "limit":
        return replace(found, status=scanned.status, needed_bytes=scanned.needed_bytes, damage=scanned.damage)
    return found


def _horizons(batches: pa.RecordBatch, new_ms: int) -> tuple[tuple[int, int] | None, int | None]:
    """The first and the last delete horizon of these batches, and the last but for the new one."""
    horizons = batches.column("deleteHorizonMs")
    if horizons.null_count == len(horizons):
        return None, None
    found = horizons.drop_null().to_pylist()
    return (min(found), max(found)), max((one for one in found if one != new_ms), default=None)


def _verdicts(
    verdicts: GroupVerdicts, view: memoryview, position: int, max_batch_bytes: int
) -> tuple[bytes | None, Scanned | None]:
    """The verdicts of the batches that lie wholly in `view`, None if they are just filtered; and what ends
    those batches. Each is judged once: the next depends on it."""
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
