"""Read the newest record of each key of a range.

Two passes, both in bounded memory: the first one finds the offsets of the newest records, the second one
decodes the rows and drops the others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from native_log.log.reading.reader import DEFAULT_MAX_BYTES, READ_BYTES, Reader
from native_log.log.reading.split import split_by_offsets
from native_log.records import Decoded, InputOptions, MapProgress, OffsetMap, Survivors
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from native_log.arguments import Mode
    from native_log.log.sliced_range import SlicedRange
    from native_log.log.slices import SegmentSlice
    from native_log.records.compaction import PutBatches
    from native_log.segment.chunks import BatchCursor

_NOTHING = pa.RecordBatch.from_arrays([pa.nulls(0, pa.bool_())], ["isTransactional"])


@dataclass(frozen=True, slots=True)
class ReadMode:
    """How both passes treat damage and data loss: see LogRange.read."""

    mode: Mode
    check_crcs: bool
    fail_on_data_loss: bool


class _MapFullError(Exception):
    """The map is full. It has the keys of all records before `next_offset`."""

    def __init__(self, next_offset: int) -> None:
        super().__init__(next_offset)
        self.next_offset = next_offset


class _KeyReader(Reader):
    """Put the keys of a range into a map.

    It treats damage, transactions and files that change as any Reader does, but yields no rows.
    """

    def __init__(self, range: SlicedRange, put: PutBatches, read_mode: ReadMode) -> None:
        super().__init__(
            range,
            [],
            **asdict(read_mode),
            max_rows=None,
            max_bytes=None,
            first_rows=None,
            on_damage=None,
        )
        self._put = put
        self._window = Window(READ_BYTES)

    def run(self) -> None:
        for _ in self.batches():
            pass

    def _decode(self, cursor: BatchCursor, stop: int, segment_slice: SegmentSlice) -> Decoded:
        if self._aborted is None:
            decoded = super()._decode(cursor, stop, segment_slice)
            if decoded.batch.column(self._transactional_index).true_count:
                return decoded  # decode again once the aborted transactions are known
        progress = self._put(
            self._window.at(cursor.file, cursor.position, stop, stop - cursor.position),
            InputOptions(
                start_offset=segment_slice.min_offset,
                end_offset=segment_slice.max_offset,
                aborted=self._aborted or b"",
                check_crcs=self._check_crcs,
                max_batch_bytes=self._range.max_batch_bytes,
            ),
            base_position=cursor.position,
            order=cursor.order,
        )
        if progress.status == "full":
            raise _MapFullError(self._next_offset if progress.next_offset is None else progress.next_offset)
        return Decoded(
            _NOTHING,
            progress.status,
            progress.position,
            progress.next_offset,
            progress.needed_bytes,
            progress.damage,
        )


def latest_rows(
    range: SlicedRange, columns: Sequence[str], read_mode: ReadMode, map_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the newest record of each key. See LogRange.latest."""
    latest = latest_offsets(range, read_mode, map_bytes)
    rows = Reader(
        range,
        list(dict.fromkeys((*columns, "offset"))),
        **asdict(read_mode),
        max_rows=None,
        max_bytes=DEFAULT_MAX_BYTES,
        first_rows=None,
        on_damage=None,
    )
    for batch in rows.batches():
        offsets = batch.column("offset")
        bounds = pc.min_max(offsets)
        kept = latest.between(bounds["min"].as_py(), bounds["max"].as_py() + 1)
        if len(kept):
            yield batch.filter(pc.is_in(offsets, pa.array(kept, pa.int64()))).select(columns)


def latest_offsets(range: SlicedRange, read_mode: ReadMode, map_bytes: int) -> Survivors:
    """Return the offsets of the newest records of each key.

    If the map cannot hold all keys, there are several rounds, as in a broker's cleaner. Each round fills the
    map with keys, and removes older records of these keys from the result of the rounds before.
    """
    latest, start = Survivors(), range.start_offset
    while True:
        before, rest = _split(range, start)
        newest = OffsetMap(map_bytes)
        full_at: int | None = None
        try:
            _KeyReader(rest, newest.put_batches, read_mode).run()
        except _MapFullError as full:
            full_at = full.next_offset
            if not start < full_at < range.end_offset:
                # A key is as large as the map, or offsets are not in order: only a larger map helps.
                map_bytes *= 2
                continue
        if before is not None:
            kept = Survivors()
            _KeyReader(before, _mark_function(newest, kept), read_mode).run()
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
