"""Where the last segment ends: the log end offset, and what lies behind it (as in a broker's recovery)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.records import OffsetOrder
from native_log.segment.damage import find_next_batch
from native_log.segment.scan import int64s, scan_file, valid_batch_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.records import Scanned
    from native_log.segment.segment import LogSegment
    from native_log.storage import DataFile, Window

_WORTH_CHECKING_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a segment that is still written to, or was when its broker died.

    Attributes:
        end_position: where reading stops. Short of the file's end only where what follows was simply not
            written yet: less than a batch, zeros, a last batch with a wrong CRC. Other damage is inside, to
            be met when read.
        next_offset: the offset after the last whole batch.
        invalid_bytes: how many lie behind `end_position`.
        invalid: what they are, in words; empty if there are none.
    """

    end_position: int
    next_offset: int
    invalid_bytes: int = 0
    invalid: str = ""


def find_tail(
    segment: LogSegment, file: DataFile, window: Window, *, clean_shutdown: bool, max_batch_bytes: int
) -> Tail:
    """The end of the last segment of a log.

    Args:
        clean_shutdown: its broker stopped in good order, so a wrong CRC in the last batch is damage, not an
        unfinished write.
    """
    if file.size_bytes == 0:
        return Tail(0, segment.base_offset)
    index = segment.load_offset_index()
    last = index.floor_of_position(file.size_bytes - 1)
    scanner = _TailScanner(segment, file, window, clean_shutdown, max_batch_bytes)
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

    def scan(self, position: int, indexed_offset: int | None) -> Tail | None:
        """The end as seen from the batch at `position`, which an index entry has with `indexed_offset`.

        None if the entry cannot be believed, or the end lies before that batch.
        """
        size, base_offset = self.file.size_bytes, self.segment.base_offset
        next_offset = previous_end = base_offset if position == 0 else None
        order = OffsetOrder(base_offset, self.segment.end_offset, self.file.fileno())
        while True:
            last: tuple[int, bool | None] | None = None  # position, and whether its CRC is right
            for found in self._scanned(position, order):
                count = found.batches.num_rows
                if indexed_offset is not None and not self._is_right(found, position, indexed_offset):
                    return None
                indexed_offset = None
                if count:
                    last_offsets = int64s(found.batches, "lastOffset")
                    previous_end = next_offset if count == 1 else last_offsets[count - 2] + 1
                    last = int64s(found.batches, "position")[count - 1], _is_valid(found, count - 1)
                    next_offset = found.next_offset
                    before_last, order = order.after(previous_end), order.after(next_offset)
            end_position, search = found.position, found.status not in ("end", "zeros")
            invalid = "zeros" if found.status == "zeros" else "less than a whole batch"
            suspect = found.position + 1
            # If the last batch is damaged its size may be wrong, and what follows lie within it.
            if last is not None and not self._is_whole(*last):
                order = before_last
                if not self.clean_shutdown and found.status != "damaged":
                    end_position, next_offset = last[0], previous_end
                    invalid = "a batch with a wrong checksum"
                suspect, search = last[0] + 1, True
            behind = (
                find_next_batch(self.file, suspect, size, order, self.max_batch_bytes) if search else None
            )
            if behind is None:
                break
            position = behind
        if next_offset is None:
            return None
        if found.status == "damaged":
            end_position = size  # to be met when read
        left = size - end_position
        return Tail(end_position, max(next_offset, base_offset), left, invalid if left else "")

    def _scanned(self, position: int, order: OffsetOrder) -> Iterator[Scanned]:
        return scan_file(
            self.file,
            position,
            self.file.size_bytes,
            self.window,
            # Behind the last index entry there is so little that it is cheapest to check it all, in one call.
            check_crcs=self.file.size_bytes - position <= _WORTH_CHECKING_BYTES,
            first_bytes=_WORTH_CHECKING_BYTES,
            max_batch_bytes=self.max_batch_bytes,
            order=order,
        )

    def _is_right(self, found: Scanned, position: int, indexed_offset: int) -> bool:
        if found.batches.num_rows and _is_valid(found, 0):
            base_offset = found.batches.column("baseOffset")[0].as_py()
            if base_offset is not None:
                return bool(base_offset <= indexed_offset)
        batch = valid_batch_at(
            self.file, position, self.file.size_bytes, self.window, max_batch_bytes=self.max_batch_bytes
        )
        return batch is not None and batch["baseOffset"] <= indexed_offset

    def _is_whole(self, position: int, is_valid: bool | None) -> bool:
        if is_valid is not None:
            return is_valid
        end = self.file.size_bytes
        return (
            valid_batch_at(self.file, position, end, self.window, max_batch_bytes=self.max_batch_bytes)
            is not None
        )


def _is_valid(found: Scanned, index: int) -> bool | None:
    """None where the CRC was not looked at."""
    valid: bool | None = found.batches.column("isValid")[index].as_py()
    return valid
