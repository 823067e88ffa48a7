"""Remember the last batches that were seen in a log, to notice that its files were rewritten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from native_log.segment.segment import LogSegment
    from native_log.storage import DataFile

MAX_MARKS = 8
"""How many marks are kept for each log."""

_HEADER_BYTES = 21
"""Size of the first fields of a batch, up to and including the CRC, in all versions of the format."""
_MAGIC = 16


@dataclass(frozen=True, slots=True)
class TailMark:
    """The last batch of a log at some time.

    Attributes:
        offset: the offset after the batch.
        base_offset, inode: the segment.
        position: the position of the batch.
        header: the first bytes of the batch, with its offset, size, leader epoch and CRC.
    """

    offset: int
    base_offset: int
    inode: int
    position: int
    header: bytes

    @classmethod
    def read(cls, segment: LogSegment, file: DataFile, position: int, offset: int) -> TailMark:
        """Read the mark of the batch at `position`, which ends before `offset`."""
        return cls(offset, segment.base_offset, segment.inode, position, file.read(position, _HEADER_BYTES))

    @property
    def leader_epoch(self) -> int | None:
        """The leader epoch of the batch; None before version 2 of the format."""
        is_v2 = len(self.header) == _HEADER_BYTES and self.header[_MAGIC] == 2
        return int.from_bytes(self.header[12:16], "big", signed=True) if is_v2 else None

    def is_of(self, segment: LogSegment) -> bool:
        """Return whether the batch is in this segment."""
        return (self.base_offset, self.inode) == (segment.base_offset, segment.inode)

    def is_in(self, file: DataFile) -> bool:
        """Return whether the file still has the batch.

        Then it also has all batches before it: a log that was written again has another leader epoch or other
        records, and so another CRC.
        """
        return file.read(self.position, _HEADER_BYTES) == self.header
