"""The newest record of each key of a range: what compaction would leave of it, were nothing else to be kept.

Two passes, both in bounded memory: the first finds the offsets of the newest records, the second decodes the
rows and drops the others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from native_log.log.reading.reader import DEFAULT_MAX_BYTES, READ_BYTES, Reader
from native_log.log.reading.split import split_by_offsets
from native_log.records import RECORD_SCHEMA, Decoded, InputOptions, MapProgress, OffsetMap, Survivors
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from native_log.log.segment_slices import SegmentSlice, SlicedRange
    from native_log.records.compaction import PutBatches
    from native_log.segment.chunks import BatchCursor

_NOTHING = pa.RecordBatch.from_pylist([], schema=pa.schema([RECORD_SCHEMA.field("isTransactional")]))


@dataclass(frozen=True, slots=True)
class How:
    """What both passes do about what is wrong with a log: see LogRange.read."""

    mode: str
    check_crcs: bool
    fail_on_data_loss: bool


class _MapFullError(Exception):
    """The map has room for no more: it is complete up to before `next_offset`."""

    def __init__(self, next_offset: int) -> None:
        super().__init__(next_offset)
        self.next_offset = next_offset


class _KeyReader(Reader):
    """Reads a range as any Reader does, damage, transactions and cleaners under it included; but hands the
    batches to `put`, and gives no rows."""

    def __init__(self, range: SlicedRange, put: PutBatches, how: How) -> None:
        super().__init__(
            range,
            [],
            **asdict(how),
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

    def _decode(self, cursor: BatchCursor, stop: int, piece: SegmentSlice) -> Decoded:
        if self._aborted is None:
            found = super()._decode(cursor, stop, piece)
            if found.batch.column(self._transactional_index).true_count:
                return found  # to be asked again, with the transactions that were aborted
        progress = self._put(
            self._window.at(cursor.file, cursor.position, stop, stop - cursor.position),
            InputOptions(
                start_offset=piece.min_offset,
                end_offset=piece.max_offset,
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
    range: SlicedRange, columns: Sequence[str], how: How, map_bytes: int
) -> Iterator[pa.RecordBatch]:
    """See LogRange.latest."""
    latest = latest_offsets(range, how, map_bytes)
    read = list(dict.fromkeys((*columns, "offset")))
    rows = Reader(
        range,
        read,
        **asdict(how),
        max_rows=None,
        max_bytes=DEFAULT_MAX_BYTES,
        first_rows=None,
        on_damage=None,
    )
    for batch in rows.batches():
        offsets = batch.column("offset")
        bounds = pc.min_max(offsets)
        among = latest.between(bounds["min"].as_py(), bounds["max"].as_py() + 1)
        if len(among):
            yield batch.filter(pc.is_in(offsets, pa.array(among, pa.int64()))).select(columns)


def latest_offsets(range: SlicedRange, how: How, map_bytes: int) -> Survivors:
    """The offsets of the newest records, those that have a key.

    In rounds as a broker's cleaner works where a map cannot hold all keys: each takes what fits into one, and
    drops the keys it came across from what the rounds before had found.
    """
    latest, start = Survivors(), range.start_offset
    while True:
        before, rest = _cut(range, start)
        newest = OffsetMap(map_bytes)
        full_at: int | None = None
        try:
            _KeyReader(rest, newest.put_batches, how).run()
        except _MapFullError as full:
            full_at = full.next_offset
            if not start < full_at < range.end_offset:
                # A key as large as the map, or offsets that are in no order: only a larger map helps.
                map_bytes *= 2
                continue
        if before is not None:
            kept = Survivors()
            _KeyReader(before, _marking(newest, kept), how).run()
            latest = latest.difference(latest.difference(kept))
        latest = latest.union(newest.survivors())
        if full_at is None:
            return latest
        start = full_at


def _cut(range: SlicedRange, offset: int) -> tuple[SlicedRange | None, SlicedRange]:
    if offset <= range.start_offset:
        return None, range
    before, rest = split_by_offsets(range, [offset])
    return before, rest


def _marking(newest: OffsetMap, kept: Survivors) -> PutBatches:
    def mark(buffer: Buffer, options: InputOptions, **position: Any) -> MapProgress:
        return newest.mark(buffer, kept, options, **position)

    return mark
