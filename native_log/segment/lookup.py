"""Find an offset, a byte position or a time in a segment.

Index entries are only hints. They are checked against the batches before they are used.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.segment.damage import (
    DamagedRange,
    before_wrong_crc,
    crc_damage,
    damage_of,
    damaged_range,
)
from native_log.segment.indexing import IndexBuilder, InvalidOffsetError
from native_log.segment.offset_index import OffsetIndex, RebuiltOffsetIndex
from native_log.segment.scan import Batch, first_at_least, int64s, row, scan_file
from native_log.segment.search import BatchSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from native_log.records import Scanned
    from native_log.segment.segment import LogSegment
    from native_log.storage import DataFile, Window

INDEX_INTERVAL_BYTES = 4096
"""Distance between the entries of a rebuilt index: the default of index.interval.bytes."""

_MIN_INDEXED_BYTES = 1 << 20
"""Rebuild a missing index only for a segment larger than this."""


@dataclass(frozen=True, slots=True)
class OffsetLocation:
    """The location of an offset among the batches of a segment.

    Attributes:
        position: where to begin to read this offset and higher ones.
        end_position: where to stop reading lower offsets. Equal to `position` if the offset is between two
            batches.
        straddles: whether the batch from `position` to `end_position` has lower offsets and higher ones. If
            not, and the two positions differ, the bytes between them are damaged and may have held both. A
            batch whose first offset is unknown can follow them.
        next_offset: batches from `position` on have no lower offsets than this (see OffsetOrder).
        end_next_offset: batches from `end_position` on have no lower offsets than this.
    """

    position: int
    end_position: int
    straddles: bool
    next_offset: int
    end_next_offset: int


@dataclass(frozen=True, slots=True)
class BatchBoundary:
    """A boundary between two batches.

    Attributes:
        position: position of the second batch.
        offset: offsets before the boundary are lower, those after it are not.
        next_offset: batches from `position` on have no lower offsets than this (see OffsetOrder).
    """

    position: int
    offset: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class _FirstBatch:
    """The first batch with a last offset of at least the one that was looked up.

    Attributes:
        batch: None if there is no such batch, or if damaged bytes before it may have held the offset.
        damaged: the last damaged range before the batch; None if there is none.
        next_offset: the offset after the previous batches.
    """

    batch: Batch | None
    damaged: DamagedRange | None
    next_offset: int


class SegmentLookup:
    """Look up offsets, positions and times in one segment; a context manager that keeps its .log file open.

    Bytes from `end_position` on are ignored.
    """

    def __init__(
        self,
        segment: LogSegment,
        end_position: int,
        window: Window,
        *,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        file: DataFile | None = None,
    ) -> None:
        """Open the segment, unless its open `file` is given, which this object then closes.

        Raises LogTruncatedError if another file is in its place: a broker compacts a log by replacing files.
        """
        self._segment = segment
        self._end = end_position
        self._window = window
        self._max_batch_bytes = max_batch_bytes
        self._index: OffsetIndex | RebuiltOffsetIndex | None = None
        self.file = file or segment.open_same()
        self._search = BatchSearch(self.file, end_position, max_batch_bytes)

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
        """Yield the headers of all batches from `position` on.

        Args:
            on_damage: called with each damaged range, which is skipped.
            next_offset: the offset after the batches before `position`, if it is known.
            check_crcs: check the CRCs of batches (column `isValid`).
            only_valid: treat batches with a wrong CRC as damaged, as a reader of records does.
        """
        self.file.will_read(position, self._end)
        return self.first_batches(
            position, on_damage, next_offset=next_offset, check_crcs=check_crcs, only_valid=only_valid
        )

    def first_batches(
        self,
        position: int,
        on_damage: Callable[[DamagedRange], None],
        *,
        next_offset: int | None = None,
        check_crcs: bool = False,
        only_valid: bool = False,
    ) -> Iterator[Scanned]:
        """Yield the headers of batches from `position` on, for callers that need a few. See `batches`."""
        base_offset = self._segment.base_offset
        expected = base_offset if position == 0 else next_offset
        order = self._segment.offset_order(self.file, next_offset)
        while position < self._end:
            last: Batch | None = None
            for scanned in scan_file(
                self.file,
                position,
                self._end,
                self._window,
                check_crcs=check_crcs or only_valid,
                max_batch_bytes=self._max_batch_bytes,
                order=order,
                search=self._search if only_valid else None,
            ):
                if only_valid:
                    scanned = before_wrong_crc(scanned)
                count = scanned.batches.num_rows
                if count:
                    before_last = order
                    if count > 1:
                        before_last = order.after(int64s(scanned.batches, "lastOffset")[count - 2] + 1)
                    expected, last = scanned.next_offset, row(scanned.batches, count - 1)
                    order = order.after(scanned.next_offset)
                yield scanned
                if scanned.damage is not None:
                    break
            position = scanned.position
            if position < self._end:
                damage = damage_of(scanned, self._end)
                if last is not None and not only_valid and not self._search.batch_at(last["position"]):
                    # The size or the last offset of the previous batch may be wrong: search it as well.
                    damage, order = crc_damage(last, size_bytes=0), before_last
                damaged = damaged_range(self._search, damage, order, expected)
                on_damage(damaged)
                position = damaged.end_position

    def find_offset(self, offset: int, after: OffsetLocation | None = None) -> OffsetLocation:
        """Locate an offset (Kafka: FileRecords.searchForOffsetFromPosition).

        Args:
            offset: the offset.
            after: the location of a lower offset, to search from there without the index.
        """
        first = self._find_first_batch(offset, after)
        batch, damaged, next_offset = first.batch, first.damaged, first.next_offset
        if batch is None:
            if damaged is not None and damaged.offset is not None and damaged.offset >= offset:
                return OffsetLocation(damaged.position, damaged.position, False, next_offset, next_offset)
            is_last = damaged is not None and damaged.end_position == self._end
            begin = damaged.position if damaged is not None and is_last else self._end
            return OffsetLocation(begin, self._end, False, next_offset, next_offset)
        position, base_offset = batch["position"], batch["baseOffset"]
        end = position + batch["sizeInBytes"]
        # Damaged bytes right before the batch may have held the offset.
        before = damaged if damaged is not None and damaged.end_position == position else None
        if base_offset is None and before is not None:
            return OffsetLocation(before.position, end, False, next_offset, next_offset)
        if base_offset is None and next_offset >= offset:  # the batch has no lower offsets
            return OffsetLocation(position, position, False, next_offset, next_offset)
        if base_offset is None or base_offset < offset:
            return OffsetLocation(position, end, True, next_offset, max(next_offset, batch["lastOffset"] + 1))
        begin = before.position if before is not None and base_offset > offset else position
        return OffsetLocation(begin, position, False, next_offset, next_offset)

    def find_boundary(self, position: int) -> BatchBoundary | None:
        """Return the first boundary between two batches at or after byte `position`.

        None if there is none before the next damaged bytes or the end.
        """
        start = self._search_start(lambda index: index.floor_of_position(position))
        next_offset, previous_end = self._segment.base_offset, None
        damaged: list[DamagedRange] = []
        for scanned in self.first_batches(start, damaged.append, only_valid=True):
            if damaged:
                break
            index = first_at_least(scanned.batches, "position", position)
            if index is not None:
                batch = row(scanned.batches, index)
                if index:
                    previous_end = int64s(scanned.batches, "lastOffset")[index - 1] + 1
                offset = previous_end if batch["baseOffset"] is None else batch["baseOffset"]
                next_offset = max(next_offset, previous_end or 0)
                return None if offset is None else BatchBoundary(batch["position"], offset, next_offset)
            previous_end = scanned.next_offset
        return None

    def find_boundary_before(self, position: int) -> BatchBoundary | None:
        """Return the last boundary between two batches at or before byte `position`.

        None if there is none after the last damaged bytes before `position`.
        """
        start = self._search_start(lambda index: index.floor_of_position(position))
        boundary, previous_end = None, None
        for scanned in self.first_batches(start, lambda _: None, only_valid=True):
            count = scanned.batches.num_rows
            later = first_at_least(scanned.batches, "position", position + 1)
            if before := count if later is None else later:
                batch = row(scanned.batches, before - 1)
                if before > 1:
                    previous_end = int64s(scanned.batches, "lastOffset")[before - 2] + 1
                offset = previous_end if batch["baseOffset"] is None else batch["baseOffset"]
                next_offset = max(self._segment.base_offset, previous_end or 0)
                boundary = None if offset is None else BatchBoundary(batch["position"], offset, next_offset)
            if later is not None:
                break
            previous_end = scanned.next_offset
            if scanned.position <= position and scanned.damage is None and previous_end is not None:
                boundary = BatchBoundary(scanned.position, previous_end, previous_end)
            elif scanned.damage is not None:
                boundary = None
        return boundary

    def find_timestamp(self, timestamp_ms: int) -> int:
        """Return the position of a batch such that all batches before it have lower timestamps."""
        index = self._segment.load_time_index()
        entry = index.below(timestamp_ms)
        if entry < 0:
            return 0
        below_ms, offset = index.entry(entry)
        batch = self._find_first_batch(offset).batch
        # Use the entry only if the batch with that offset has that timestamp: the index has no checksum, and
        # after a crash it may have entries of records that were lost.
        return batch["position"] if batch is not None and batch["maxTimestamp"] == below_ms else 0

    def _find_first_batch(self, offset: int, after: OffsetLocation | None = None) -> _FirstBatch:
        """Return the first batch with a last offset of at least `offset`."""
        damaged: list[DamagedRange] = []
        if after is None:
            start, known_offset = self._search_start(lambda index: index.floor(offset)), None
        else:
            start, known_offset = after.position, after.next_offset
        next_offset = max(self._segment.base_offset, known_offset or 0)
        for scanned in self.first_batches(start, damaged.append, next_offset=known_offset, only_valid=True):
            if damaged and damaged[-1].offset is not None and damaged[-1].offset >= offset:
                break
            index = first_at_least(scanned.batches, "lastOffset", offset)
            if index is not None:
                if index:
                    next_offset = max(next_offset, int64s(scanned.batches, "lastOffset")[index - 1] + 1)
                return _FirstBatch(row(scanned.batches, index), damaged[-1] if damaged else None, next_offset)
            next_offset = max(next_offset, scanned.next_offset or 0)
        return _FirstBatch(None, damaged[-1] if damaged else None, next_offset)

    def _search_start(self, choose: Callable[[OffsetIndex | RebuiltOffsetIndex], int]) -> int:
        """Return the position at which to start a search.

        That is the position of the entry before the one that `choose` returns, if it is valid. So the search
        also reads the batch before the one searched for, and can tell whether that one is in order. 0 if
        there is no such entry.
        """
        if self._index is None:
            self._index = self._segment.load_offset_index()
            if len(self._index) == 0 and self._end > _MIN_INDEXED_BYTES:
                self._index = self._rebuild_index()
        entry = choose(self._index) - 1
        if entry >= 0 and not self._is_valid_entry(self._index, entry):
            self._index = self._rebuild_index()
            entry = choose(self._index) - 1
        return 0 if entry < 0 else self._index.entry(entry)[1]

    def _is_valid_entry(self, index: OffsetIndex | RebuiltOffsetIndex, entry: int) -> bool:
        """Return whether an entry fits to the batch at its position and to the entries around it.

        The offset of an entry is in its batch or higher, and all batches before have lower offsets.
        """
        offset, position = index.entry(entry)
        previous = index.entry(entry - 1)[0] if entry else self._segment.base_offset - 1
        following_offset, following_position = index.entry(entry + 1)
        if not (0 < position < following_position and offset < following_offset):
            return False
        batch = self._search.batch_at(position)
        return batch is not None and bool(previous < batch.base_offset <= offset)

    def _rebuild_index(self) -> RebuiltOffsetIndex:
        """Rebuild the index as a broker's recovery does (Kafka: LogSegment.recover)."""
        builder = IndexBuilder(self._segment.base_offset, INDEX_INTERVAL_BYTES)
        with suppress(InvalidOffsetError):  # the entries before it are valid
            for scanned in self.first_batches(0, lambda _: None, only_valid=True):
                builder.add(scanned.batches)
        return RebuiltOffsetIndex(builder.offsets, builder.positions)
