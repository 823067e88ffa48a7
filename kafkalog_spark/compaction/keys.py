"""Tasks that find out which offsets survive: keys gathered from splits, merged bucket by bucket."""

from __future__ import annotations

import pickle
from bisect import bisect_right
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from kafkalog_spark.compaction.values import Note
from kafkalog_spark.spreading import row, rows
from native_log.cleaner.rewriting import gather
from native_log.errors import KafkaLogError
from native_log.records import KeyOffsets, OffsetMap, merge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafkalog_spark.compaction.planning import Split
    from native_log.log import LogRange

Borders = tuple[int, int, list[int]]
"""Of a round: its first bucket, its first group, and the base offsets of its groups and the end."""


def gather_keys(batches: Iterator[pa.RecordBatch], max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Splits -> packs of keys and offsets, by number of bucket.

    Args:
        max_bytes: what keys may take in memory. A split that has more makes several packs for a bucket.
    """
    for asked in rows(batches):
        split: Split = pickle.loads(asked.payload)  # noqa: S301 (the driver's own)
        try:
            yield from _packs(split, max_bytes)
        except (KafkaLogError, OSError) as error:
            yield _noted(split, Note(error=str(error)))


def _packs(split: Split, max_bytes: int) -> Iterator[pa.RecordBatch]:
    range: LogRange | None = split.range
    null_keys = 0
    while range is not None:
        keys = OffsetMap(max_bytes) if split.is_dirty else KeyOffsets(max_bytes)
        found = gather(range, split.aborted, keys.put_batches)
        if found.full_at is not None and not len(keys):
            raise KafkaLogError(
                f"one key takes more than the map's {max_bytes} bytes: raise log.cleaner.dedupe.buffer.size",
                path=range.path,
                offset=found.full_at,
            )
        null_keys += found.null_keys
        if len(keys):
            for bucket, pack in enumerate(keys.buckets(split.buckets), split.first_bucket):
                yield row(bucket, pack)
        range = None if found.full_at is None else _behind(range, found.full_at)
    if split.is_dirty and null_keys:
        yield _noted(split, Note(null_keys=null_keys))


def _noted(split: Split, note: Note) -> pa.RecordBatch:
    return row(split.first_bucket, None, note=pickle.dumps(note))


def _behind(range: LogRange, offset: int) -> LogRange:
    """The same bytes, without the records before `offset`: batches before are stepped over."""
    pieces = tuple(replace(piece, min_offset=max(piece.min_offset or 0, offset)) for piece in range.pieces)
    return replace(range, start_offset=offset, pieces=pieces)


def merge_packs(batches: Iterator[pa.RecordBatch], borders: Sequence[Borders]) -> Iterator[pa.RecordBatch]:
    """Packs, a bucket's all in one task -> survivors by number of group, as bitmaps; part 0 is left free.

    Args:
        borders: of all rounds, in order.
    """
    by_bucket: dict[int, list[memoryview]] = {}
    first_buckets = [first_bucket for first_bucket, _, _ in borders]
    for bucket, _, pack, note in rows(batches):
        if note is not None:
            _, first_group, _ = borders[bisect_right(first_buckets, bucket) - 1]
            yield row(first_group, None, bucket + 1, bytes(note))
        if pack is not None:
            by_bucket.setdefault(bucket, []).append(pack)
    while by_bucket:
        bucket, packs = by_bucket.popitem()
        _, first_group, offsets = borders[bisect_right(first_buckets, bucket) - 1]
        survivors = merge(packs)
        del packs
        for group, (start, end) in enumerate(pairwise(offsets), first_group):
            found = survivors.between(start, end)
            if len(found):
                yield row(group, found.to_bytes(), bucket + 1)
