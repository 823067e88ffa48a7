"""Tasks that find out which offsets survive: keys gathered from splits, merged bucket by bucket.

Keys lie in buckets by a hash. A bundle of buckets is what goes through the shuffle; one task merges it.
"""

from __future__ import annotations

import builtins
import pickle
import struct
from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from kafkalog_spark.compaction.values import Note
from kafkalog_spark.spreading import row, rows
from native_log.cleaner.rewriting import gather
from native_log.errors import KafkaLogError
from native_log.records import KeyOffsets, OffsetMap, Survivors, merge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafkalog_spark.compaction.planning import Split
    from native_log.cleaner.rewriting import Gathered
    from native_log.log import LogRange

TRIAL_BYTES = 4 << 20
"""Of keys, that tell whether those of a split come again within it."""
WORTH_A_MAP = 0.5

_LENGTH = struct.Struct("=q")

Borders = tuple[int, int, list[int]]
"""Of a round: its first bundle, its first group, and the base offsets of its groups and the end."""


def gather_keys(batches: Iterator[pa.RecordBatch], max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Splits -> bundles of packed keys and offsets, by number of bundle.

    Args:
        max_bytes: what keys may take in memory. A split that has more makes several of each bundle.
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
    keys = OffsetMap(min(TRIAL_BYTES, max_bytes)) if split.is_dirty else KeyOffsets(max_bytes)
    while range is not None:
        found = gather(range, split.aborted, keys.put_batches)
        if found.full_at is not None and not len(keys):
            raise KafkaLogError(
                f"one key takes more than the map's {max_bytes} bytes: raise log.cleaner.dedupe.buffer.size",
                path=range.path,
                offset=found.full_at,
            )
        null_keys += found.null_keys
        if len(keys):
            packs = keys.buckets(split.bundles * split.buckets)
            for number, first in enumerate(builtins.range(0, len(packs), split.buckets), split.first_bundle):
                yield row(number, bundled(packs[first : first + split.buckets]))
        if found.full_at is None:
            break
        if not split.is_dirty:
            keys = KeyOffsets(max_bytes)
        elif _come_again(len(keys), found, range):
            keys = OffsetMap(max_bytes)
        else:
            keys = KeyOffsets(max_bytes, dirty=True)
        range = _behind(range, found.full_at)
    if split.is_dirty and null_keys:
        yield _noted(split, Note(null_keys=null_keys))


def _come_again(distinct: int, found: Gathered, range: LogRange) -> bool:
    """Whether so many of a split's records are shadowed within it that a map is worth its while.

    Their share among keys drawn at random grows with the number of records; a map takes about three times
    as long as a list of keys, of which all are to be shuffled and merged.
    """
    assert found.full_at is not None
    looked_at = (found.full_at - range.start_offset) / (range.end_offset - range.start_offset)
    shadowed = 1 - distinct / (found.records - found.null_keys)
    return shadowed / looked_at > WORTH_A_MAP


def _noted(split: Split, note: Note) -> pa.RecordBatch:
    return row(split.first_bundle, None, note=pickle.dumps(note))


def _behind(range: LogRange, offset: int) -> LogRange:
    """The same bytes, without the records before `offset`: batches before are stepped over."""
    pieces = tuple(replace(piece, min_offset=max(piece.min_offset or 0, offset)) for piece in range.pieces)
    return replace(range, start_offset=offset, pieces=pieces)


def bundled(packs: Sequence[bytes]) -> bytes:
    """Their number and lengths (native int64), and the packs."""
    lengths = [len(pack) for pack in packs]
    return b"".join((struct.pack(f"={1 + len(packs)}q", len(packs), *lengths), *packs))


def unbundled(bundle: memoryview) -> list[memoryview]:
    (count,) = _LENGTH.unpack_from(bundle)
    ends = accumulate(
        struct.unpack_from(f"={count}q", bundle, _LENGTH.size), initial=_LENGTH.size * (1 + count)
    )
    return [bundle[start:end] for start, end in pairwise(ends)]


def merge_packs(batches: Iterator[pa.RecordBatch], borders: Sequence[Borders]) -> Iterator[pa.RecordBatch]:
    """Bundles, all of a number in one task -> survivors by number of group, as bitmaps; part 0 is left free.

    Args:
        borders: of all rounds, in order.
    """
    by_number: dict[int, list[memoryview]] = {}
    first_bundles = [first_bundle for first_bundle, _, _ in borders]
    for number, _, bundle, note in rows(batches):
        if note is not None:
            _, first_group, _ = borders[bisect_right(first_bundles, number) - 1]
            yield row(first_group, None, number + 1, bytes(note))
        if bundle is not None:
            by_number.setdefault(number, []).append(bundle)
    while by_number:
        number, bundles = by_number.popitem()
        _, first_group, offsets = borders[bisect_right(first_bundles, number) - 1]
        merged = [merge(packs) for packs in zip(*map(unbundled, bundles), strict=True)]
        del bundles
        survivors = Survivors().union(*merged)
        for group, (start, end) in enumerate(pairwise(offsets), first_group):
            found = survivors.between(start, end)
            if len(found):
                yield row(group, found.to_bytes(), number + 1)
