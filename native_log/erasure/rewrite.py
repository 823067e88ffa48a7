"""Rewrite segments without the erased records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.log.replacing.cleaned_segment import (
    create_cleaned_segment,
    finish_cleaned_segment,
    flush_cleaned_segment,
)
from native_log.log.replacing.swap import replace_segments
from native_log.records import RewriteOptions, Survivors, Verdict, rewrite
from native_log.segment.chunks import BatchCursor
from native_log.segment.damage import reject_damage
from native_log.segment.offset_index import MAX_RELATIVE_OFFSET
from native_log.segment.writer import SegmentWriter
from native_log.storage import Window
from native_log.storage.writing import fsync_directory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from native_log.log import PartitionLog
    from native_log.segment.segment import LogSegment

_SMALLEST_BATCH_BYTES = 26


def roll(log: PartitionLog) -> None:
    """Roll the log to an empty active segment, unless it has one."""
    if log.segments[-1].size_bytes:
        SegmentWriter.create(log.path, log.log_end_offset, log.config).close()
        fsync_directory(log.path)


def erase_records(log: PartitionLog, segment: LogSegment, offsets: Iterable[int], nulled: bool) -> None:
    """Replace a segment by one without these records. A crash leaves the old segment or the new one.

    The other records keep their offsets. Of a batch without records the header is kept, with its offsets and
    the numbers of its producer.

    Args:
        offsets: offsets of the records.
        nulled: keep the records as tombstones: with key and offset, but without value and headers.

    Raises:
        CorruptRecordError: a batch is damaged, and the segment is as it was.
        LogTruncatedError: the segment has changed since the log was listed.
    """
    erased, kept = Survivors(offsets), Survivors()
    kept_end = min(log.log_end_offset, segment.base_offset + MAX_RELATIVE_OFFSET + 1)
    kept.add_range(segment.base_offset, kept_end)
    if not nulled:
        kept = kept.difference(erased)
    options = RewriteOptions(
        kept,
        kept_end,
        now_ms=-1,  # before every delete horizon
        delete_horizon_ms=None,
        nulled=erased if nulled else None,
        max_batch_bytes=log.max_batch_bytes,
    )
    window = Window()
    with (
        segment.open_unchanged() as file,
        create_cleaned_segment(log.path, segment.base_offset, log.config.index_interval_bytes) as output,
    ):
        cursor = BatchCursor(file, 0, log.state.end_position(segment))
        while cursor.has_more:
            view = cursor.view(window)
            result = rewrite(
                view,
                options,
                verdicts=bytes([Verdict.RETAIN_EMPTY]) * (len(view) // _SMALLEST_BATCH_BYTES + 1),
                base_position=cursor.position,
            )
            output.append(result.data, result.batches)
            reject_damage(cursor, cursor.advance(result, len(view)), log.max_batch_bytes)
        entries = segment.load_transaction_index().all_entries()
        finish_cleaned_segment(output, entries, segment.mtime_ms)
    flush_cleaned_segment(log.path, segment.base_offset)
    replace_segments(log.path, [segment.base_offset])
