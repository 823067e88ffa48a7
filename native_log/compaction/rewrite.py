"""The work on a round's bytes: keys gathered, groups rewritten."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from native_log.compaction.statistics import GroupStatistics
from native_log.compaction.verdicts import GroupVerdicts
from native_log.errors import CorruptRecordError, LogTruncatedError
from native_log.log.replacing.cleaned_segment import CleanedSegmentWriter, flush_segment
from native_log.records import Headers, MapProgress, Rewritten, rewrite, rewrite_file, scan
from native_log.segment.damage import LEFT_ALONE
from native_log.segment.scan import HEADER_PREFIX_BYTES, greatest_timestamp_ms
from native_log.storage import DataFile, Window

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from native_log.compaction.rounds import Group, Round, Source
    from native_log.log.reading.log_range import LogRange
    from native_log.records.compaction import PutBatches, Survivors
    from native_log.segment.segment import LogSegment

_GATHER_BYTES = 512 << 10
"""Gathered from at a time: they are gone over twice, and stay in the processor's cache meanwhile."""

_READ_BYTES = 8 << 20
"""Judged at a time: so much that what is done once a call does not count."""

_OUTPUT_BYTES = 4 << 20
"""Written at a time."""

_MOST_HEADERS = 1 << 16
"""Gathered before they are told."""

Found = TypeVar("Found", MapProgress, Rewritten)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What `gather` looked at. `full_at`: where the map was full, the offset behind the last record put."""

    records: int
    null_keys: int
    full_at: int | None


def gather(
    range: LogRange,
    aborted: bytes,
    put: PutBatches,
    headers: Callable[[pa.RecordBatch], None] | None = None,
) -> Gathered:
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
        gathered = Headers()
        with planned_file(piece.to_segment(range.path)) as file:
            position, needed, order = piece.start_position, 1, piece.order(file)
            while position < piece.end_position:
                view = window.at(file, position, piece.end_position, needed)
                found = put(
                    view,
                    base_position=position,
                    start_offset=piece.min_offset,
                    end_offset=piece.max_offset,
                    aborted=aborted,
                    max_batch_bytes=range.max_batch_bytes,
                    order=order,
                )
                records += found.records
                null_keys += found.null_keys
                if headers is not None:
                    gathered.add(
                        view,
                        base_position=position,
                        end=found.position,
                        max_batch_bytes=range.max_batch_bytes,
                    )
                    if gathered.has_transactions or len(gathered) >= _MOST_HEADERS or found.damage:
                        headers(gathered.take())
                if found.status == "full":
                    return Gathered(records, null_keys, found.next_offset)
                found = checked(found, file.path, position + len(view), piece.end_position)
                order = order.after(found.next_offset)
                position, needed = found.position, max(1, found.needed_bytes)
        if headers is not None and len(gathered):
            headers(gathered.take())
    return Gathered(records, null_keys, None)


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
        flush: wait until they are on the disk; else `flush_segment` is the caller's.

    Raises:
        CorruptRecordError: a batch is damaged; what was written so far is of no use.
    """
    stats = GroupStatistics()
    output = (
        nullcontext(None)
        if directory is None
        else CleanedSegmentWriter(directory, group.base_offset, round.index_interval_bytes)
    )
    window = Window(_READ_BYTES)
    verdicts = None
    if group.context is not None:
        verdicts = GroupVerdicts(group.context, round.now_ms)
    with output as segment:
        for source in group.sources:
            stats += _rewrite_source(round, source, survivors, segment, window, verdicts)
        if segment is not None:
            segment.finish(group.aborted_transactions, group.sources[-1].segment.mtime_ms)
    if directory is not None and flush:
        flush_segment(directory, group.base_offset)
    keys = len(survivors.between(group.base_offset, group.end_offset))
    return stats + GroupStatistics(keys=keys)


def _rewrite_source(
    round: Round,
    source: Source,
    survivors: Survivors,
    output: CleanedSegmentWriter | None,
    window: Window,
    verdicts: GroupVerdicts | None,
) -> GroupStatistics:
    segment = source.segment
    stats = GroupStatistics()
    how: dict[str, Any] = {
        "survivors": survivors,
        "survivors_end": round.end_offset,
        "now_ms": round.now_ms,
        "delete_horizon_ms": round.delete_horizon_ms,
        "legacy_tombstones_kept": source.legacy_tombstones_kept,
        "max_batch_bytes": round.max_batch_bytes,
    }
    with planned_file(segment) as file:
        position, needed, end = 0, 1, segment.size_bytes
        while position < end:
            at = 0 if output is None else output.position
            found, cut_bytes, stop = _filtered(file, position, verdicts, output_position=at, **how), 0, end
            if found is None:
                view = window.at(file, position, end, needed)
                codes = None
                if verdicts is not None:
                    codes, cut_bytes = _verdicts(verdicts, view, position, round.max_batch_bytes)
                found = rewrite(view, verdicts=codes, base_position=position, output_position=at, **how)
                stop = position + len(view)
            if output is not None:
                output.append(found.data, found.batches)
            stats += GroupStatistics(
                found.stats,
                0,
                *_horizons(found.batches, round.delete_horizon_ms),
                greatest_timestamp_ms(found.batches),
            )
            if found.status == "limit" and cut_bytes:
                found = replace(found, status="partial", needed_bytes=cut_bytes)
            stopped = checked(found, file.path, stop, end)
            position, needed = stopped.position, max(1, stopped.needed_bytes)
    return stats


def _filtered(file: DataFile, position: int, verdicts: GroupVerdicts | None, **how: Any) -> Rewritten | None:
    """What comes of the batches from `position` on, as far as they are just filtered; None: not that one."""
    judged = None if verdicts is None else verdicts.retained
    try:
        found = rewrite_file(
            file.fileno(), position, file.size_bytes, judged=judged, max_bytes=_OUTPUT_BYTES, **how
        )
    except EOFError:
        return None
    return None if found.position == position else replace(found, status="end", needed_bytes=0, damage=None)


def _horizons(batches: pa.RecordBatch, new_ms: int) -> tuple[tuple[int, int] | None, int | None]:
    """The first and the last delete horizon of these batches, and the last but for the new one."""
    horizons = batches.column("deleteHorizonMs")
    if horizons.null_count == len(horizons):
        return None, None
    found = horizons.drop_null().to_pylist()
    return (min(found), max(found)), max((one for one in found if one != new_ms), default=None)


def _verdicts(
    verdicts: GroupVerdicts, view: memoryview, position: int, max_batch_bytes: int
) -> tuple[bytes | None, int]:
    """The verdicts of the batches that lie wholly in `view`, None if they are just filtered; and how many
    bytes are needed to judge one that is cut off at its end. Each is judged once: the next depends on it."""
    headers = Headers()
    headers.add(view, base_position=position, max_batch_bytes=max_batch_bytes)
    if not headers.has_transactions and not verdicts.retains_one_of(headers.last_offsets):
        return None, 0
    scanned = scan(view, base_position=position, max_batch_bytes=max_batch_bytes)
    batches, cut_bytes = scanned.batches, scanned.needed_bytes
    whole = batches.num_rows
    if scanned.position > position + len(view):
        whole, cut_bytes = whole - 1, batches.column("sizeInBytes")[-1].as_py()
    codes = verdicts.of(batches.slice(0, whole))
    if codes is None:
        return (bytes(whole) if cut_bytes else None), cut_bytes
    return codes, cut_bytes


def planned_file(segment: LogSegment) -> DataFile:
    """The segment's file. Raises LogTruncatedError if it is not what it was when the log was listed."""
    file = DataFile(str(segment.path))
    is_the_same = file.was(segment.inode, segment.size_bytes, segment.mtime_ms)
    if not is_the_same or file.size_bytes != segment.size_bytes:
        file.close()
        raise LogTruncatedError(
            "expected the file that the round was planned on, found another: something else changes this "
            "log. Stop it, and clean again",
            path=file.path,
        )
    return file


def checked(found: Found, path: str, stop: int, end: int) -> Found:
    """Raises CorruptRecordError where a call stopped at what is not a whole batch.

    A few zeros at a chunk's end are the first bytes of an offset, as likely as not.
    """
    if found.status == "zeros" and stop - found.position < HEADER_PREFIX_BYTES and stop < end:
        return replace(found, status="partial", needed_bytes=HEADER_PREFIX_BYTES)
    reason = None
    if found.damage is not None:
        reason = found.damage.message
    elif found.status == "zeros":
        reason = f"expected a batch, found nothing but zeros in {stop - found.position} bytes"
    elif found.position > end or (found.status == "partial" and found.position + found.needed_bytes > end):
        reason = (
            f"expected a whole batch, found only {max(0, end - found.position)} bytes of it up to the end"
        )
    elif found.status == "limit":
        reason = "expected the batches that the round was planned on, found more of them"
    if reason is not None:
        raise CorruptRecordError(
            f"{reason}. {LEFT_ALONE}",
            path=path,
            position=found.position,
            offset=found.next_offset if found.damage is None else found.damage.offset,
        )
    return found
