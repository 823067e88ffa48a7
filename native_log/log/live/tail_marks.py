"""Remember the last batches that were seen in a log, to notice that they were truncated away."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import epoch_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from native_log.checkpoints.leader_epochs import EpochEntry
    from native_log.segment.segment import LogSegment
    from native_log.storage import DataFile

MAX_MARKS = 8
"""How many marks are kept for each log."""

_HEADER_BYTES = 21
"""Size of the first fields of a batch, up to and including the CRC, in all versions of the format."""
_MAGIC = 16

FileId = tuple[int, int | str]
"""Base offset and inode (or version) of a segment, which may have grown or shrunk since it was listed."""


def file_id(segment: LogSegment) -> FileId:
    """Return the identity of a segment's file.

    A file that grows in an object store is another object each time. There, the name is the identity.
    """
    return segment.base_offset, segment.inode if isinstance(segment.inode, int) else ""


@dataclass(frozen=True, slots=True)
class TailMark:
    """The last batch of a log at some time.

    Attributes:
        offset: the offset after the batch.
        file: its segment.
        position: the position of the batch.
        header: the first bytes of the batch, with its offset, size, leader epoch and CRC.
    """

    offset: int
    file: FileId
    position: int
    header: bytes

    @classmethod
    def read(cls, segment: LogSegment, file: DataFile, position: int, offset: int) -> TailMark:
        """Read the mark of the batch at `position`, which ends before `offset`."""
        return cls(offset, file_id(segment), position, file.read(position, _HEADER_BYTES))

    @property
    def leader_epoch(self) -> int | None:
        """The leader epoch of the batch; None before version 2 of the format."""
        is_v2 = len(self.header) == _HEADER_BYTES and self.header[_MAGIC] == 2
        return int.from_bytes(self.header[12:16], "big", signed=True) if is_v2 else None

    def is_in(self, file: DataFile) -> bool:
        """Return whether the file still has the batch.

        Then it also has all batches before it: a log that was written again has another leader epoch or other
        records, and so another CRC.
        """
        return file.read(self.position, _HEADER_BYTES) == self.header


class TailMarks:
    """The last marks of a log, at most MAX_MARKS."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: tuple[TailMark, ...] = ()

    def add(self, mark: TailMark | None) -> None:
        """Add the mark of the current end, if it is a new one."""
        if mark is not None and (not self._marks or self._marks[-1].offset < mark.offset):
            self._marks = (*self._marks, mark)[-MAX_MARKS:]

    def truncate(self, offset: int) -> None:
        """Forget the marks above `offset`."""
        self._marks = tuple(mark for mark in self._marks if mark.offset <= offset)

    def keep(self, segments: Sequence[LogSegment]) -> None:
        """Forget the marks in other files than these: a later file may have the inode of one that is gone."""
        files = {file_id(segment) for segment in segments}
        self._marks = tuple(mark for mark in self._marks if mark.file in files)

    def has_last(self, segment: LogSegment, file: DataFile) -> bool:
        """Return whether the file of a segment still has the last mark, or never had it."""
        return not self._marks or self._marks[-1].file != file_id(segment) or self._marks[-1].is_in(file)

    def rewritten_segments(self, before: Sequence[LogSegment], now: Sequence[LogSegment]) -> list[int]:
        """Return the base offsets of segments that were sealed and have been written to since.

        Only a segment after which all others were truncated away is written to again. A compacted segment may
        have the name and the inode of an older one, but compaction leaves the last segment.

        Args:
            before, now: the segments when the log was last listed, and now.
        """
        files = {file_id(segment): segment for segment in now}
        if not before or file_id(before[-1]) in files:
            return []
        rewritten = []
        for old, following in pairwise(before):
            new = files.get(file_id(old))
            if new is not None and new.size_bytes != old.size_bytes and file_id(following) not in files:
                rewritten.append(old.base_offset)
        return rewritten + [mark.file[0] for mark in self._marks if _is_in_one_of(mark, files) is False]

    def last_unchanged(self, segments: Sequence[LogSegment]) -> int | None:
        """Return the highest offset up to which (exclusive) the files have the batches that were seen."""
        files = {file_id(segment): segment for segment in segments}
        return next((mark.offset for mark in reversed(self._marks) if _is_in_one_of(mark, files)), None)

    def epoch_before(self, offset: int, entries: Sequence[EpochEntry]) -> int | None:
        """Return the leader epoch of the last record before `offset`, where the log ended.

        The batch header has it, and so has the checkpoint. If they contradict each other, the higher one is
        returned, because a contradiction does not mean that the log was truncated.

        Args:
            offset: the end of the log when `entries` were read.
            entries: the leader epochs of the log.
        """
        epochs = [epoch_of(entries, offset - 1)]
        if self._marks and self._marks[-1].offset == offset:
            epochs.append(self._marks[-1].leader_epoch)
        return max((epoch for epoch in epochs if epoch is not None), default=None)


def _is_in_one_of(mark: TailMark, files: Mapping[FileId, LogSegment]) -> bool | None:
    """Return whether the batch of a mark is still there; None if its file is not."""
    segment = files.get(mark.file)
    if segment is None:
        return None
    with segment.open() as file:
        return mark.is_in(file)
