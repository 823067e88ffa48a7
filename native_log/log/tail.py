"""Find the end of the last segment: the log end offset and invalid bytes after it, as a recovery does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.segment.damage import next_batch
from native_log.segment.scan import BATCH_COLUMNS, check_batches, int64s, scan_file
from native_log.segment.search import BatchSearch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.records import OffsetOrder, Scanned
    from native_log.segment.segment import LogSegment
    from native_log.storage import DataFile, KnownFile, Window

_CHECKED_BYTES = 256 << 10
"""Up to this size, the end of a segment is scanned with checksums, in one call."""

_SMALL_BYTES = 64 << 10
"""A segment of at most this size is scanned whole: that costs less than to read its index first."""

_LAST_ENTRIES = 1024
"""How many entries of an index are read to find the end."""

_Batch = tuple[int | None, int | None]
"""The position and the largest timestamp of a batch; None: unknown."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a log's last segment, which a broker is writing or was writing when it crashed.

    Attributes:
        end_position: the position at which reading stops. It is the file's end, unless the bytes after it are
            an unfinished write: less than a whole batch, zeros, or a last batch with a wrong CRC. Other
            damage lies before `end_position`, so that a reader reports it.
        next_offset: the offset after the last whole batch.
        invalid_bytes: the number of bytes after `end_position`.
        invalid: what those bytes are, in words; empty if there are none.
        last_position: the position of the last whole batch; None if it is unknown.
        last_timestamp_ms: the largest timestamp of that batch; -1 if it has none; None if it is unknown.
        damage_position: where damage begins that extends to the file's end; None if there is none.
        segment_timestamp_ms: the largest timestamp of the whole segment; -1 if it has none; None if it is
            unknown, because not all batches were read.
    """

    end_position: int
    next_offset: int
    invalid_bytes: int = 0
    invalid: str = ""
    last_position: int | None = None
    last_timestamp_ms: int | None = None
    damage_position: int | None = None
    segment_timestamp_ms: int | None = None


def find_tail(
    segment: LogSegment,
    file: DataFile,
    window: Window,
    *,
    clean_shutdown: bool,
    max_batch_bytes: int,
    known: Tail | None = None,
    index_file: KnownFile | None = None,
) -> Tail:
    """Find the end of the last segment of a log.

    Args:
        segment: the segment.
        file: its .log file.
        window: a buffer for reading.
        clean_shutdown: the broker shut down cleanly, so a wrong CRC in the last batch is damage, not an
            unfinished write.
        max_batch_bytes: a batch that claims more bytes, or decompresses to more, counts as damaged.
        known: the end that was found when the file was smaller. Only the bytes after it are read.
        index_file: the offset index as it was listed; None if nothing is known of it.
    """
    if file.size_bytes == 0:
        return Tail(0, segment.base_offset)
    search = BatchSearch(file, file.size_bytes, max_batch_bytes)
    scanner = _TailScanner(segment, file, window, clean_shutdown, max_batch_bytes, search)
    if known is not None:
        return scanner.scan_after(known)
    if file.size_bytes <= _SMALL_BYTES:
        return scanner.scan(0, None) or Tail(file.size_bytes, segment.base_offset)
    # The last index entry nearly always points into these bytes. A bucket sends them while the index is read.
    file.will_read(file.size_bytes - _SMALL_BYTES, file.size_bytes)
    index = segment.load_offset_index(at_most=_LAST_ENTRIES, known=index_file)
    last = index.floor_of_position(file.size_bytes - 1)
    if last < 0 and len(index) == _LAST_ENTRIES:  # they belong to bytes that the file has no longer
        index = segment.load_offset_index()
        last = index.floor_of_position(file.size_bytes - 1)
    tail = None
    if last >= 0 and (entry := index.entry(last))[1] > 0:
        tail = scanner.scan(entry[1], entry[0])
    return tail or scanner.scan(0, None) or Tail(file.size_bytes, segment.base_offset)


@dataclass(frozen=True, slots=True)
class _TailScanner:
    segment: LogSegment
    file: DataFile
    window: Window
    clean_shutdown: bool
    max_batch_bytes: int
    search: BatchSearch

    def scan(self, position: int, indexed_offset: int | None) -> Tail | None:
        """Find the end by scanning from the batch at `position`, to which an index entry points.

        Args:
            position: where to start.
            indexed_offset: the offset in the index entry; None: there is no entry, and `position` is 0.

        Returns:
            None if the index entry is wrong, or the end lies before that batch.
        """
        next_offset = self.segment.base_offset if position == 0 else None
        return self._scan(position, indexed_offset, next_offset, (None, None))

    def scan_after(self, known: Tail) -> Tail:
        """Find the end by scanning from an end that was found before."""
        position = known.end_position if known.damage_position is None else known.damage_position
        last_batch = known.last_position, known.last_timestamp_ms
        tail = self._scan(position, None, known.next_offset, last_batch)
        assert tail is not None  # an offset is known
        return tail

    def _scan(
        self, position: int, indexed_offset: int | None, next_offset: int | None, last_batch: _Batch
    ) -> Tail | None:
        size, base_offset = self.file.size_bytes, self.segment.base_offset
        previous_end, previous_batch, damage_position = next_offset, last_batch, None
        largest_ms: int | None = -1 if position == 0 else None
        order = self.segment.offset_order(self.file, next_offset)
        batches = self._scan_from(position, order)
        while True:
            last: tuple[int, bool | None] | None = None  # position, and whether the CRC is right
            for scanned in batches:
                count = scanned.batches.num_rows
                if indexed_offset is not None and not self._matches(scanned, position, indexed_offset):
                    return None
                indexed_offset = None
                if count:
                    last_offsets = int64s(scanned.batches, "lastOffset")
                    positions = int64s(scanned.batches, "position")
                    previous_end = next_offset if count == 1 else last_offsets[count - 2] + 1
                    times = int64s(scanned.batches, "maxTimestamp")
                    previous_batch = (positions[count - 2], times[count - 2]) if count > 1 else last_batch
                    last_batch = positions[count - 1], times[count - 1]
                    largest_ms = None if largest_ms is None else max(largest_ms, max(times))
                    last = positions[count - 1], _is_valid(scanned, count - 1)
                    next_offset = scanned.next_offset
                    before_last, order = order.after(previous_end), order.after(next_offset)
            end_position = scanned.position
            invalid = "zeros" if scanned.status == "zeros" else "less than a whole batch"
            # If the last batch is damaged, its size may be wrong, and valid batches may lie within it.
            if last is not None and not self._is_valid_batch(*last):
                order, largest_ms = before_last, None
                if not self.clean_shutdown and scanned.status != "damaged":
                    end_position, next_offset = last[0], previous_end
                    last_batch = previous_batch
                    invalid = "a batch with a wrong checksum"
                following = self.search.find(last[0] + 1, order)
            elif scanned.damage is not None:
                following = next_batch(self.search, scanned.damage, order)
            elif scanned.status not in ("end", "zeros"):
                following = self.search.find(scanned.position + 1, order)
            else:
                following = None
            if following is None:
                break
            largest_ms = None
            batches = self._scan_after_damage(following.position, order)
        if next_offset is None:
            return None
        if scanned.status == "damaged":
            # A reader reports the damage.
            end_position, damage_position, largest_ms = size, scanned.position, None
        left = size - end_position
        return Tail(
            end_position,
            max(next_offset, base_offset),
            left,
            invalid if left else "",
            *last_batch,
            damage_position,
            largest_ms,
        )

    def _scan_from(self, position: int, order: OffsetOrder) -> Iterator[Scanned]:
        return scan_file(
            self.file,
            position,
            self.file.size_bytes,
            self.window,
            # There are few bytes after the last index entry, so it is cheapest to check all in one call.
            check_crcs=self.file.size_bytes - position <= _CHECKED_BYTES,
            first_bytes=_CHECKED_BYTES,
            max_batch_bytes=self.max_batch_bytes,
            order=order,
            columns=BATCH_COLUMNS,
        )

    def _scan_after_damage(self, position: int, order: OffsetOrder) -> Iterator[Scanned]:
        """Continue after damage. There may be thousands of damaged ranges, so each step skips many."""
        if not self.file.has_all_bytes:
            return self._scan_from(position, order)
        return check_batches(
            self.file,
            position,
            max_batch_bytes=self.max_batch_bytes,
            order=order,
            skipper=self.search.skipper,
        )

    def _matches(self, scanned: Scanned, position: int, indexed_offset: int) -> bool:
        """Return whether a valid batch begins at `position` that may contain `indexed_offset`."""
        if scanned.batches.num_rows and _is_valid(scanned, 0):
            base_offset = scanned.batches.column("baseOffset")[0].as_py()
            if base_offset is not None:
                return bool(base_offset <= indexed_offset)
        batch = self.search.batch_at(position)
        return batch is not None and batch.base_offset <= indexed_offset

    def _is_valid_batch(self, position: int, is_valid: bool | None) -> bool:
        return self.search.batch_at(position) is not None if is_valid is None else is_valid


def _is_valid(scanned: Scanned, index: int) -> bool | None:
    """Return whether a batch's CRC is right; None if it was not checked."""
    valid: bool | None = scanned.batches.column("isValid")[index].as_py()
    return valid
