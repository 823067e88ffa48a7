"""The files of one partition directory: notice changes with two `stat` calls, and read only what is new."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import LEADER_EPOCH_CHECKPOINT, read_leader_epochs
from native_log.checkpoints.partition_metadata import PARTITION_METADATA, read_topic_id
from native_log.log.changing_files import ATTEMPTS, CHANGED
from native_log.log.listing import LogListing, list_log
from native_log.log.live.divergence import diverged
from native_log.log.live.tail_marks import TailMark, TailMarks, file_id
from native_log.log.location_cache import LocationCache
from native_log.log.tail import Tail, find_tail
from native_log.segment.lookup import OffsetLocation
from native_log.storage import LOCAL, Window, file_version, listed_file, listed_files, path_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from native_log.checkpoints.leader_epochs import EpochEntry
    from native_log.segment.segment import LogSegment
    from native_log.storage import FileEntry, FileVersion, Folder, ListedFile

_EMPTY = LogListing((), ())


@dataclass(frozen=True, slots=True)
class LogChange:
    """What has changed in a log since it was last refreshed.

    Attributes:
        is_changed: segments, offsets or the high watermark are different.
        truncated_to: the log was truncated to this offset, and may have grown again since. The records from
            it on are gone or different. None: it was not truncated. If the first different offset cannot be
            determined, it is a lower one.
        is_recreated: the topic was deleted and created again. All its records are new ones.
    """

    is_changed: bool = False
    truncated_to: int | None = None
    is_recreated: bool = False

    def and_then(self, later: LogChange) -> LogChange:
        """Return this change and a later one together."""
        if later.is_recreated:
            return later
        offsets = [offset for offset in (self.truncated_to, later.truncated_to) if offset is not None]
        return LogChange(
            self.is_changed or later.is_changed, min(offsets, default=None), is_recreated=self.is_recreated
        )


UNCHANGED = LogChange()


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a segment.

    Attributes:
        segment: the segment, with its current size.
        tail: its end.
        mark: its last batch; None if it has none.
        is_rewritten: whether it has lost batches that were seen before.
    """

    segment: LogSegment
    tail: Tail
    mark: TailMark | None
    is_rewritten: bool


@dataclass(slots=True)
class _Versions:
    """The versions of the directory and of files in it when they were last read."""

    directory: FileVersion | None = None
    last_segment: FileVersion | None = None
    leader_epochs: FileVersion | ListedFile | None = None
    topic_id: FileVersion | ListedFile | None = None


class LiveFiles:
    """The files of a log, as of the last `read`.

    Attributes:
        listing: the segments and snapshots.
        tail: the end of the last segment.
        leader_epochs: the content of `leader-epoch-checkpoint`.
        topic_id: the content of `partition.metadata`.
        locations: where recent ends of the log are in the files.
    """

    def __init__(self, directory: Folder, max_batch_bytes: int, now_ns: Callable[[], int]) -> None:
        """Prepare to read the files in `directory`. `now_ns` is the clock, in epoch ns."""
        self._folder = directory
        self._directory = directory.path
        self._max_batch_bytes = max_batch_bytes
        self._now_ns = now_ns
        self._inode: int | str | None = None
        self._versions = _Versions()
        self._listed: dict[str, ListedFile] = {}
        self._marks = TailMarks()
        self.listing = _EMPTY
        self.tail = Tail(0, 0)
        self.leader_epochs: tuple[EpochEntry, ...] = ()
        self.topic_id: str | None = None
        self.locations = LocationCache()

    def move(self, directory: str) -> None:
        """Continue with another directory, to which the partition was moved."""
        self._folder = replace(self._folder, path=directory)
        self._directory = directory
        self._versions = _Versions()
        self._listed = {}

    def read(self, *, clean_shutdown: bool) -> LogChange:
        """Read what has changed since the last call.

        Args:
            clean_shutdown: see find_tail.

        Raises:
            FileNotFoundError: the directory was removed or renamed.
            PermissionError, OSError, KafkaLogError: as when a log is opened.
        """
        for attempt in range(ATTEMPTS):
            try:
                return self._read(clean_shutdown)
            except CHANGED:
                # A file was removed or truncated after it was listed.
                self._versions.directory, self._listed = None, {}
                self._folder.list()
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError

    def _read(self, clean_shutdown: bool) -> LogChange:
        if self._folder.storage is not LOCAL:
            return self._read_listed(clean_shutdown)
        now_ns = self._now_ns()
        stat = os.stat(self._directory)  # noqa: PTH116 (a hot path of strings)
        version = file_version(stat, now_ns)
        if version is None or version != self._versions.directory:
            change = self._list(stat.st_ino, clean_shutdown)
            self._versions.directory, self._versions.last_segment = version, None
            return change
        if not self.listing.segments:
            return UNCHANGED
        last = self.listing.segments[-1]
        now_ns = self._now_ns()
        version = file_version(os.stat(f"{self._directory}/{last.log}"), now_ns)  # noqa: PTH116
        if version is not None and version == self._versions.last_segment:
            return UNCHANGED
        change = self._read_end(clean_shutdown)
        self._versions.last_segment = version
        return change

    def _read_listed(self, clean_shutdown: bool) -> LogChange:
        """Read what is new, elsewhere than on a local disk: one listing says whether anything is."""
        entries = self._folder.list()
        listed = listed_files(entries)
        if listed == self._listed:
            return UNCHANGED
        change = self._list("", clean_shutdown, entries)
        self._listed = listed
        return change

    def _read_end(self, clean_shutdown: bool) -> LogChange:
        """Read what was appended to the last segment."""
        last = self.listing.segments[-1]
        end = self._find_end(last, clean_shutdown)
        if end.segment == last and end.tail == self.tail:
            return UNCHANGED
        listing = replace(self.listing, segments=(*self.listing.segments[:-1], end.segment))
        truncated_to = None
        if end.is_rewritten:
            truncated_to = self._truncated_to(listing, end.tail, self.leader_epochs, last.base_offset)
        return self._set(listing, end.tail, truncated_to, end.mark)

    def _list(
        self, inode: int | str, clean_shutdown: bool, entries: Mapping[str, FileEntry] | None = None
    ) -> LogChange:
        """List the directory, whose inode is given, and read what is new.

        Args:
            inode: of the directory.
            clean_shutdown: see find_tail.
            entries: how the directory was listed, unless it is local.
        """
        topic_id, topic_id_version = self.topic_id, self._version_of(PARTITION_METADATA, entries)
        if topic_id_version is None or topic_id_version != self._versions.topic_id:
            topic_id = read_topic_id(self._folder)
        is_recreated = self._is_recreated(inode, topic_id)
        if is_recreated:
            self.listing, self.tail, self._marks = _EMPTY, Tail(0, 0), TailMarks()
            self.locations.clear()
        listing = list_log(self._folder, self._max_batch_bytes, entries=entries)
        # The last segment, and the one that was the last before a roll.
        ends = [
            self._find_end(segment, clean_shutdown)
            for segment in listing.segments
            if segment is listing.segments[-1] or self._was_last(segment)
        ]
        tail = Tail(0, 0)
        if ends:
            tail = ends[-1].tail
            listing = replace(listing, segments=(*listing.segments[:-1], ends[-1].segment))
        # The epochs are read after the end was found: a broker writes a new epoch before its first batch.
        epochs, epochs_version = self.leader_epochs, self._version_of(LEADER_EPOCH_CHECKPOINT, entries)
        if epochs_version is None or epochs_version != self._versions.leader_epochs:
            epochs = read_leader_epochs(self._folder)
        rewritten = [end.segment.base_offset for end in ends if end.is_rewritten]
        rewritten += self._marks.rewritten_segments(self.listing.segments, listing.segments)
        truncated_to = self._truncated_to(listing, tail, epochs, min(rewritten, default=None))
        change = self._set(listing, tail, truncated_to, *(end.mark for end in ends))
        # If an error was raised above, the next call sees the same differences.
        self.leader_epochs, self._versions.leader_epochs = epochs, epochs_version
        self.topic_id, self._versions.topic_id = topic_id, topic_id_version
        self._inode = inode
        return LogChange(True, None, is_recreated=True) if is_recreated else change

    def _is_recreated(self, inode: int | str, topic_id: str | None) -> bool:
        """Return whether the directory, whose inode and topic id are given, belongs to another topic.

        A broker that moves a partition to another log directory keeps its topic id. Topics without an id are
        distinguished by their directories.
        """
        if self._inode is None:
            return False
        if self._inode != inode:
            return topic_id is None or topic_id != self.topic_id
        return None not in (topic_id, self.topic_id) and topic_id != self.topic_id

    def _was_last(self, segment: LogSegment) -> bool:
        segments = self.listing.segments
        return bool(segments) and file_id(segments[-1]) == file_id(segment)

    def _find_end(self, segment: LogSegment, clean_shutdown: bool) -> _End:
        """Find the end of a segment. If it was the last one before, only the bytes after its end are read."""
        with segment.open() as file:
            now = file.size_bytes, file.mtime_ms, file.inode
            if now != (segment.size_bytes, segment.mtime_ms, segment.inode):
                segment = replace(
                    segment, size_bytes=file.size_bytes, mtime_ms=file.mtime_ms, inode=file.inode
                )
            known, is_rewritten = None, False
            if self._was_last(segment):
                is_shorter = file.size_bytes < self.tail.end_position
                is_rewritten = is_shorter or not self._marks.has_last(segment, file)
                known = None if is_rewritten else self.tail
            tail = find_tail(
                segment,
                file,
                Window(),
                clean_shutdown=clean_shutdown,
                max_batch_bytes=self._max_batch_bytes,
                known=known,
            )
            mark = None
            if tail.last_position is not None:
                mark = TailMark.read(segment, file, tail.last_position, tail.next_offset)
            return _End(segment, tail, mark, is_rewritten)

    def _truncated_to(
        self, listing: LogListing, tail: Tail, epochs: Sequence[EpochEntry], rewritten: int | None
    ) -> int | None:
        """Return the offset to which the log was truncated; None if it was not.

        Args:
            listing, tail, epochs: the log now.
            rewritten: the lowest base offset of a segment that has lost batches that were seen before.
        """
        if not self.listing.segments:
            return None
        old_end = self.tail.next_offset
        epoch = self._marks.epoch_before(old_end, self.leader_epochs)
        # An end below the old one is noticed without epochs.
        end = max(tail.next_offset, old_end)
        offset = diverged(old_end, epoch, epochs, end, read_entries=self.leader_epochs)
        # A broker appends to a truncated log with a new epoch. If there is none, the log is only shorter. If
        # epochs are unknown, or it is longer again without a new one, other files and batches must tell.
        if rewritten is not None and (not epochs or tail.next_offset >= old_end or offset is not None):
            offset = max(offset or 0, rewritten, self._marks.last_unchanged(listing.segments) or 0)
        if tail.next_offset < old_end:
            offset = tail.next_offset if offset is None else min(offset, tail.next_offset)
        return offset

    def _set(
        self, listing: LogListing, tail: Tail, truncated_to: int | None, *marks: TailMark | None
    ) -> LogChange:
        """Set the state of the log, and return what has changed."""
        before, old_end = self.listing.segments, self.tail.next_offset
        self.listing, self.tail = listing, tail
        if truncated_to is not None:
            self.locations.clear()
            self._marks.truncate(truncated_to)
        else:
            self.locations.keep(_unchanged(before, listing.segments))
        self._marks.keep(listing.segments)
        for mark in marks:
            self._marks.add(mark)
        if listing.segments and tail.damage_position is None:
            end, offset = tail.end_position, tail.next_offset
            self.locations.add(listing.segments[-1], offset, OffsetLocation(end, end, False, offset, offset))
        is_changed = listing.segments != before or tail.next_offset != old_end
        is_lost = truncated_to is not None and truncated_to < old_end
        return LogChange(is_changed, truncated_to if is_lost else None)

    def _version_of(
        self, name: str, entries: Mapping[str, FileEntry] | None
    ) -> FileVersion | ListedFile | None:
        """Return the version of a file; None if it is unknown, so that the file is read."""
        if entries is None:
            return path_version(f"{self._directory}/{name}", self._now_ns)
        return listed_file(entries[name]) if name in entries else None


def _unchanged(before: Sequence[LogSegment], now: Sequence[LogSegment]) -> Iterator[LogSegment]:
    """Yield the segments of `now` whose files were there before. Only the last one may have grown."""
    last = before[-1] if before else None
    known = {file_id(old): old for old in before}
    for new in now:
        old = known.get(file_id(new))
        if old is not None and (old is last or old.id == new.id):
            yield new
