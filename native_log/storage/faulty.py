"""Read a file on a failing disk: bytes that the system cannot read become zeros."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from operator import attrgetter

from native_log.storage.local import DataFile

_BLOCK_BYTES = 4096
"""After an error, each block of this size is read by itself. It is the sector size of most disks."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Bytes of a file that the system could not read.

    Attributes:
        position, end_position: the bytes, end exclusive.
        reason: the system's error message.
    """

    position: int
    end_position: int
    reason: str


class FaultyFile(DataFile):
    """A file with blocks that the system may be unable to read. They read as zeros.

    Attributes:
        faults: the bytes that could not be read so far, by position.
    """

    __slots__ = ("faults",)

    def __init__(self, path: str, end_position: int | None = None) -> None:
        """Open the file. Raises FileNotFoundError, PermissionError, OSError.

        Args:
            path: the path of the file.
            end_position: where the file is treated as ending; None: at its end.
        """
        super().__init__(path)
        if end_position is not None:
            self.size_bytes = min(self.size_bytes, end_position)
        self.faults: list[Fault] = []

    def read_into(self, buffer: memoryview, position: int) -> None:
        """Fill `buffer` as DataFile does, but fill unreadable blocks with zeros."""
        try:
            super().read_into(buffer, position)
        except OSError:
            self._read_blocks(buffer, position)

    def fault_within(self, position: int, end: int) -> Fault | None:
        """Return the first fault that overlaps the bytes from `position` to before `end`."""
        first = bisect_right(self.faults, position, key=attrgetter("end_position"))
        if first < len(self.faults) and self.faults[first].position < end:
            return self.faults[first]
        return None

    def _read_blocks(self, buffer: memoryview, position: int) -> None:
        start, end = position, position + len(buffer)
        while start < end:
            stop = min(end, start - start % _BLOCK_BYTES + _BLOCK_BYTES)
            block = buffer[start - position : stop - position]
            try:
                super().read_into(block, start)
            except OSError as error:
                block[:] = bytes(len(block))
                self._note(Fault(start, stop, error.strerror or str(error)))
            start = stop

    def _note(self, fault: Fault) -> None:
        index = bisect_right(self.faults, fault.position, key=attrgetter("position"))
        if index and self.faults[index - 1].end_position >= fault.position:
            before = self.faults[index - 1]
            end = max(before.end_position, fault.end_position)
            self.faults[index - 1] = replace(before, end_position=end)
        else:
            self.faults.insert(index, fault)
