"""Read the newest record of each key of a range.

Two passes, both in bounded memory: the first one finds the offsets of the newest records, the second one
decodes the rows and drops the others.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from native_log.log.reading.options import DEFAULT_MAP_BYTES
from native_log.log.reading.reader import IS_TRANSACTIONAL, READ_BYTES, Reader, decode_rows
from native_log.log.reading.split import split_by_offsets
from native_log.records import Decoded, InputOptions, MapProgress, OffsetMap, Survivors
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from native_log.log.reading.options import ReadOptions
    from native_log.log.sliced_range import SlicedRange
    from native_log.records import DecodeOptions
    from native_log.records.compaction import PutBatches
    from native_log.segment.chunks import BatchCursor

logger = logging.getLogger(__name__)

_NOTHING = pa.RecordBatch.from_arrays([pa.nulls(0, pa.bool_())], [IS_TRANSACTIONAL])


class _MapFullError(Exception):
    """The map is full. It has the keys of all records before `next_offset`; None: of this chunk, no batch."""

    def __init__(self, next_offset: int | None) -> None:
        super().__init__(next_offset)
        self.next_offset = next_offset


class _KeyDecoder:
    """Put the keys of batches into a map. The decoded batches have no rows. See reader.Decode."""

    def __init__(self, put: PutBatches) -> None:
        self._put = put
        self._window = Window(READ_BYTES)

    def __call__(
        self, cursor: BatchCursor, stop: int, columns: Sequence[str], options: DecodeOptions
    ) -> Decoded:
        if IS_TRANSACTIONAL in columns:
            decoded = decode_rows(cursor, stop, columns, options)
            if decoded.batch.column(IS_TRANSACTIONAL).true_count:
                return decoded  # decode again once the aborted transactions are known
        progress = self._put(
            self._window.at(cursor.file, cursor.position, stop, stop - cursor.position),
            options,
            base_position=cursor.position,
            order=cursor.order,
        )
        if progress.status == "full":
            raise _MapFullError(progress.next_offset)
        return Decoded(
            _NOTHING,
            progress.status,
            progress.position,
            progress.next_offset,
            progress.needed_bytes,
            progress.damage,
        )


def _put_keys(range: SlicedRange, put: PutBatches, options: ReadOptions, readers: list[Reader]) -> None:
    """Put the keys of a range into a map. Raises _MapFullError, with an offset."""
    whole = replace(options, max_bytes=None, first_rows=None, filter=None)
    reader = Reader(range, [], whole, _KeyDecoder(put))
    readers.append(reader)
    try:
        for _ in reader.batches():
            pass
    except _MapFullError as full:
        raise _MapFullError(reader.next_offset if full.next_offset is None else full.next_offset) from None


def latest_rows(
    range: SlicedRange, columns: Sequence[str], options: ReadOptions, map_bytes: int = DEFAULT_MAP_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yield the newest record of each key. See LogRange.latest."""
    readers: list[Reader] = []
    latest = _latest_offsets(range, options, map_bytes, readers)
    names = list(dict.fromkeys((*columns, "offset")))
    readers.append(Reader(range, names, replace(options, first_rows=None)))
    for batch in readers[-1].batches():
        offsets = batch.column("offset")
        bounds = pc.min_max(offsets)
        kept = latest.between(bounds["min"].as_py(), bounds["max"].as_py() + 1)
        if len(kept):
            yield batch.filter(pc.is_in(offsets, pa.array(kept, pa.int64()))).select(columns)
    if any(reader.has_located_again for reader in readers):
        logger.warning(
            "%s: a broker has removed or compacted segments since this read was planned: keys that were "
            "written again since then may be missing; read again to get them",
            range.path,
        )


def _latest_offsets(
    range: SlicedRange, options: ReadOptions, map_bytes: int, readers: list[Reader]
) -> Survivors:
    """Return the offsets of the newest records of each key. Add what reads them to `readers`.

    If the map cannot hold all keys, there are several rounds, as in a broker's cleaner. Each round fills the
    map with keys, and removes older records of these keys from the result of the rounds before.
    """
    latest, start = Survivors(), range.start_offset
    while True:
        before, rest = _split(range, start)
        newest = OffsetMap(map_bytes)
        full_at: int | None = None
        try:
            _put_keys(rest, newest.put_batches, options, readers)
        except _MapFullError as full:
            full_at = full.next_offset
            if full_at is None or not start < full_at < range.end_offset:
                # A key is as large as the map, or offsets are not in order: only a larger map helps.
                map_bytes *= 2
                continue
        if before is not None:
            kept = Survivors()
            _put_keys(before, _mark_function(newest, kept), options, readers)
            latest = latest.difference(latest.difference(kept))
        latest = latest.union(newest.survivors())
        if full_at is None:
            return latest
        start = full_at


def _split(range: SlicedRange, offset: int) -> tuple[SlicedRange | None, SlicedRange]:
    """Return the range before `offset`, None if it is empty, and the range from `offset` on."""
    if offset <= range.start_offset:
        return None, range
    before, rest = split_by_offsets(range, [offset])
    return before, rest


def _mark_function(newest: OffsetMap, kept: Survivors) -> PutBatches:
    """Return a function that adds to `kept` the offsets of records whose keys are not in the map."""

    def mark(buffer: Buffer, options: InputOptions, **position: Any) -> MapProgress:
        return newest.mark(buffer, kept, options, **position)

    return mark
