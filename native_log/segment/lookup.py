"""Where in a segment an offset, a byte position or a time lies.

Indexes are hints: checked before they are believed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.records import DEFAULT_MAX_BATCH_BYTES, OffsetOrder
from native_log.segment.damage import (
    DamagedRange,
    before_wrong_crc,
    crc_damage,
    damage_of,
    damaged_range,
)
from native_log.segment.indexing import IndexBuilder, InvalidOffsetError
from native_log.segment.offset_index import OffsetIndex, RebuiltOffsetIndex
from native_log.segment.scan import Batch, first_at_least, int64s, row, scan_file, valid_batch_at
from native_log.storage import DataFile, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from native_log.records import Scanned
    from native_log.segment.segment import LogSegment

INDEX_INTERVAL_BYTES = 4096
"""Distance of the entries of a rebuilt index: the default of index.interval.bytes."""

_WORTH_AN_INDEX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class OffsetLocation:
    """Where an offset lies between the batches of a segment.

    Attributes:
        position: where a reader of this offset and what follows begins.
        end_position: where a reader of all below it ends. Equal to `position` between two batches.
        straddles: a batch from `position` to `end_position` has offsets on both sides; where it is False and
            the two differ, damaged bytes lie between, which may have held either.
        next_offset: no batch from `position` on begins below it (see OffsetOrder).
        end_next_offset: the same of `end_position`.
    """

    position: int
    end_position: int
    straddles: bool
    next_offset: int
    end_next_offset: int


@dataclass(frozen=True, slots=True)
class BatchBoundary:
    """A place between two batches.

    Attributes:
        position: of the second batch.
        offset: it tells the offsets before the boundary from those behind.
        next_offset: no batch from `position` on begins below it (see OffsetOrder).
    """

    position: int
    offset: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class _Reaching:
    """What `SegmentLookup._first_reaching` found."""

    batch: Batch | None
    """None: there is none, or behind damage that lies behind the offset."""
    damaged: DamagedRange | None
    """The last on the way to it."""
    next_offset: int
    """What follows the batches before it."""


class SegmentLookup:
    """Lookups in one segment, up to byte `end_position`; a context manager that keeps its .log open."""

    def __init__(
        self,
        segment: LogSegment,
        end_position: int,
        window: Window,
        *,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    ) -> None:
        self._segment = segment
        self._end = end_position
        self._window = window
        self._max_batch_bytes = max_batch_bytes
        self._index: OffsetIndex | RebuiltOffsetIndex | None = None
        self.file = DataFile(f"{segment.directory}/{segment.log}")

    def __enter__(self) -> SegmentLookup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()

    def batches(
        self,
        position: int,
        on_damage: Callable[[DamagedRange], None],
        *,
        next_offset: int | None = None,
        check_crcs: bool = False,
        only_valid: bool = False,
    ) -> Iterator[Scanned]:
        """The headers of all batches from `position` on.

        Damaged ranges are handed to `on_damage` and stepped over. With `only_valid` these include batches
        with a wrong CRC, as for a reader of the records.

        Args:
            next_offset: what follows the batches before `position`, if that is known.
        """
        base_offset = self._segment.base_offset
        expected = base_offset if position == 0 else next_offset
        order = OffsetOrder(max(base_offset, next_offset or 0), self._segment.end_offset, self.file.fileno())
        while position < self._end:
            last: Batch | None = None
            for found in scan_file(
                self.file,
                position,
                self._end,
                self._window,
                check_crcs=check_crcs or only_valid,
                max_batch_bytes=self._max_batch_bytes,
                order=order,
            ):
                if only_valid:
                    found = before_wrong_crc(found)
                count = found.batches.num_rows
                if count:
                    before_last = order
                    if count > 1:
                        before_last = order.after(int64s(found.batches, "lastOffset")[count - 2] + 1)
                    expected, last = found.next_offset, row(found.batches, count - 1)
                    order = order.after(found.next_offset)
                yield found
                if found.damage is not None:
                    break
            position = found.position
            if position < self._end:
                damage = damage_of(found, self._end)
                if last is not None and not only_valid and not self._valid_batch_at(last["position"]):
                    # The size of the batch before may be wrong, or its last offset: look for the next within
                    # it, too.
                    damage, order = crc_damage(last, size_bytes=0), before_last
                damaged = damaged_range(self.file, damage, self._end, order, expected, self._max_batch_bytes)
                on_damage(damaged)
                position = damaged.end_position

    def find_offset(self, offset: int) -> OffsetLocation:
        """Where `offset` lies (Kafka: FileRecords.searchForOffsetFromPosition)."""
        found = self._first_reaching(offset)
        batch, damaged, known = found.batch, found.damaged, found.next_offset
        if batch is None:
            if damaged is not None and damaged.offset is not None and damaged.offset >= offset:
                return OffsetLocation(damaged.position, damaged.position, False, known, known)
            is_last = damaged is not None and damaged.end_position == self._end
            begin = damaged.position if damaged is not None and is_last else self._end
            return OffsetLocation(begin, self._end, False, known, known)
        position, base_offset = batch["position"], batch["baseOffset"]
        if base_offset is None or base_offset < offset:
            end = position + batch["sizeInBytes"]
            return OffsetLocation(position, end, True, known, max(known, batch["lastOffset"] + 1))
        # Damage right before the batch may have held the offset, too.
        before = damaged is not None and damaged.end_position == position and base_offset > offset
        begin = damaged.position if damaged is not None and before else position
        return OffsetLocation(begin, position, False, known, known)

    def find_boundary(self, position: int) -> BatchBoundary | None:
        """The first place between two batches at or behind byte `position`.

        None if none is found before damage or the end.
        """
        start = self._start(lambda index: index.floor_of_position(position))
        known, previous_end = self._segment.base_offset, None
        damaged: list[DamagedRange] = []
        for found in self.batches(start, damaged.append, only_valid=True):
            if damaged:
                break
            index = first_at_least(found.batches, "position", position)
            if index is not None:
                batch = row(found.batches, index)
                if index:
                    previous_end = int64s(found.batches, "lastOffset")[index - 1] + 1
                offset = previous_end if batch["baseOffset"] is None else batch["baseOffset"]
                known = max(known, previous_end or 0)
                return None if offset is None else BatchBoundary(batch["position"], offset, known)
            previous_end = found.next_offset
        return None

    def find_timestamp(self, timestamp_ms: int) -> int:
        """A position that begins a batch, with only lesser timestamps before it."""
        index = self._segment.load_time_index()
        entry = index.below(timestamp_ms)
        if entry < 0:
            return 0
        below_ms, offset = index.entry(entry)
        batch = self._first_reaching(offset).batch
        # Believed only if the batch with that offset has that timestamp: the index has no checksum, and after
        # a crash may tell of records that are gone.
        return batch["position"] if batch is not None and batch["maxTimestamp"] == below_ms else 0

    def _first_reaching(self, offset: int) -> _Reaching:
        """The first batch with a last offset of at least `offset`, and the last damage on the way to it.

        No batch, but damage, where all that was damaged comes behind the offset.
        """
        damaged: list[DamagedRange] = []
        start = self._start(lambda index: index.floor(offset))
        known = self._segment.base_offset
        for found in self.batches(start, damaged.append, only_valid=True):
            if damaged and damaged[-1].offset is not None and damaged[-1].offset >= offset:
                break
            index = first_at_least(found.batches, "lastOffset", offset)
            if index is not None:
                if index:
                    known = max(known, int64s(found.batches, "lastOffset")[index - 1] + 1)
                return _Reaching(row(found.batches, index), damaged[-1] if damaged else None, known)
            known = max(known, found.next_offset or 0)
        return _Reaching(None, damaged[-1] if damaged else None, known)

    def _start(self, choose: Callable[[OffsetIndex | RebuiltOffsetIndex], int]) -> int:
        """A position before the entry that `choose` picks of the index: that of the entry before it, once it
        is believed. So the batch before the one looked for is met on the way, and with it whether that one is
        in order.

        0 where there is no such entry.
        """
        if self._index is None:
            self._index = self._segment.load_offset_index()
            if len(self._index) == 0 and self._end > _WORTH_AN_INDEX_BYTES:
                self._index = self._rebuilt_index()
        entry = choose(self._index) - 1
        if entry >= 0 and not self._is_right(self._index, entry):
            self._index = self._rebuilt_index()
            entry = choose(self._index) - 1
        return 0 if entry < 0 else self._index.entry(entry)[1]

    def _is_right(self, index: OffsetIndex | RebuiltOffsetIndex, entry: int) -> bool:
        """Whether a batch is at an entry's position that allows it, and the entries before and behind it.

        An entry's offset is in its batch or above it, and every batch before has lower offsets.
        """
        offset, position = index.entry(entry)
        previous = index.entry(entry - 1)[0] if entry else self._segment.base_offset - 1
        following_offset, following_position = index.entry(entry + 1)
        if not (0 < position < following_position and offset < following_offset):
            return False
        batch = self._valid_batch_at(position)
        return batch is not None and bool(previous < batch["baseOffset"] <= offset)

    def _valid_batch_at(self, position: int) -> Batch | None:
        return valid_batch_at(
            self.file, position, self._end, self._window, max_batch_bytes=self._max_batch_bytes
        )

    def _rebuilt_index(self) -> RebuiltOffsetIndex:
        """An index as a broker's recovery makes it (Kafka: LogSegment.recover)."""
        builder = IndexBuilder(self._segment.base_offset, INDEX_INTERVAL_BYTES)
        with suppress(InvalidOffsetError):  # the entries before it are right
            for found in self.batches(0, lambda _: None, only_valid=True):
                builder.add(found.batches)
        return RebuiltOffsetIndex(builder.offsets, builder.positions)
