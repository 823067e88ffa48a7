"""A log in one partition directory."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from native_log.checkpoints.names import PartitionKind, parse_partition_name
from native_log.checkpoints.partition_checkpoints import NO_CHECKPOINTS, PartitionCheckpoints
from native_log.checkpoints.write_intent import WRITE_INTENT
from native_log.errors import KafkaLogError
from native_log.log.listing import list_with_tail
from native_log.log.log_state import LogState, Relocated
from native_log.log.sources.one_copy import OneCopy
from native_log.log.sources.relocation import relocate
from native_log.log.tail import Tail
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.storage import LOCAL, Folder

if TYPE_CHECKING:
    from native_log.errors import LogTruncatedError
    from native_log.log.listing import LogListing
    from native_log.log.location_cache import LocationCache
    from native_log.log.offset_span import OffsetSpan
    from native_log.log.ordinary_listing import OrdinaryLog
    from native_log.log.slices import Located
    from native_log.storage import Storage

_DIRECTORY = re.compile(r"(.+)-([0-9]+)(?:\.[^.]+-(?:delete|future|stray))?")


def partition_of_directory(directory: str) -> tuple[str, int]:
    """Return the topic and the partition in a directory's name; the whole name and 0 if it has none."""
    name = os.path.basename(os.path.abspath(directory))  # noqa: PTH100, PTH119 (a hot path of strings)
    match = _DIRECTORY.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, 0)


@dataclass(frozen=True, slots=True)
class DirectorySource(OneCopy):
    """The log in one partition directory. See LogSource for the other attributes.

    Attributes:
        storage: has the directory.
    """

    path: str
    topic: str
    partition: int
    checkpoints: PartitionCheckpoints = NO_CHECKPOINTS
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    storage: Storage = LOCAL

    @classmethod
    def at(
        cls,
        path: str | os.PathLike[str],
        *,
        topic: str | None = None,
        partition: int | None = None,
        checkpoints: PartitionCheckpoints | None = None,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        storage: Storage = LOCAL,
    ) -> DirectorySource:
        """Return the log in the directory `path`. Topic and partition are those in its name by default."""
        directory = os.fspath(path)
        if topic is None or partition is None:
            named_topic, named_partition = partition_of_directory(directory)
            topic = named_topic if topic is None else topic
            partition = named_partition if partition is None else partition
        return cls(directory, topic, partition, checkpoints or NO_CHECKPOINTS, max_batch_bytes, storage)

    @classmethod
    def as_part(cls, log: LogState) -> DirectorySource:
        """Return the source of a directory's log as a part of a joined log.

        Of the checkpoints, only the end before an unfinished write limits this part. The others limit the
        joined log.
        """
        source, checkpoints = log.source, log.checkpoints
        return cls(
            source.path,
            source.topic,
            source.partition,
            PartitionCheckpoints(
                clean_shutdown=checkpoints.clean_shutdown, before_write=checkpoints.before_write
            ),
            log.max_batch_bytes,
            source.folder.storage,
        )

    @property
    def folder(self) -> Folder:
        """See LogSource."""
        return Folder(self.path, self.storage)

    def open(self, listed: OrdinaryLog | None = None) -> LogState:
        """See LogSource. `listed` is what `list_ahead` has found in the directory."""
        source, checkpoints = self, self.checkpoints
        if checkpoints.before_write is not None and not self.folder.parent.has(WRITE_INTENT):
            # The write is finished, and its segment may have been compacted. Its offset still limits the log.
            source = replace(self, checkpoints=replace(checkpoints, before_write=None))
        return source.state(
            *list_with_tail(self.folder, checkpoints.clean_shutdown, self.max_batch_bytes, listed)
        )

    def locate_again(
        self, located: Located, span: OffsetSpan, error: FileNotFoundError | LogTruncatedError
    ) -> Relocated:
        """See LogSource.

        A broker that deletes a partition, or has moved it to another log directory, renames its directory and
        removes it a minute later (file.delete.delay.ms). Until then, the records are read there.
        """
        try:
            state = self.open()
        except FileNotFoundError:
            if not self.folder.was_removed():
                raise
            state = None
        if state is None or not _has_some(state, located):
            state = self._find_deleted(located) or state
        if state is not None:
            return relocate(state, located, span, error)
        loss = FileNotFoundError(
            f"{self.path}: the partition was removed while it was read, with the records from offset "
            f"{span.start_offset} on"
        )
        return Relocated(self, (), loss)

    def _find_deleted(self, located: Located) -> LogState | None:
        """Open the directory that the broker has renamed in order to delete it; None if it is not there."""
        if self.storage is not LOCAL:
            return None
        parent = self.folder.parent
        try:
            names = list(parent.list())
        except OSError:  # only the partition may be read
            return None
        for name in names:
            parsed = parse_partition_name(name)
            if parsed is None or (parsed.partition, parsed.kind) != (self.partition, PartitionKind.DELETE):
                continue
            source = replace(self, path=f"{parent}/{name}")
            try:
                state = source.open()
            except (OSError, KafkaLogError):
                continue
            if _has_some(state, located):
                return state
        return None

    def state(
        self,
        listing: LogListing,
        tail: Tail,
        *,
        high_watermark: int = 0,
        locations: LocationCache | None = None,
    ) -> LogState:
        """Return the state of the log whose files are given, without what an unfinished write has appended.

        Args:
            listing: the files.
            tail: the end of the last segment.
            high_watermark: a lower bound of the high watermark. The one in the checkpoints may be older.
            locations: see LogState.
        """
        source, checkpoints = self, self.checkpoints
        if checkpoints.before_write is not None:
            listing = listing.before_write(checkpoints.before_write)
            size = listing.segments[-1].size_bytes if listing.segments else 0
            tail = Tail(size, checkpoints.before_write.offset)
        if checkpoints.high_watermark is not None and checkpoints.high_watermark < high_watermark:
            source = replace(self, checkpoints=replace(checkpoints, high_watermark=high_watermark))
        first = listing.segments[0].base_offset if listing.segments else 0
        start = max(first, checkpoints.log_start_offset or 0)
        # A broker empties a log that ends before its start offset, and continues at the start offset.
        end = max(tail.next_offset, start)
        return LogState(
            source, listing.segments, listing.snapshots, tail, start, end, locations, listing.without_log
        )


def _has_some(state: LogState, located: Located) -> bool:
    """Return whether a log has some of the segments that were located."""
    now = {segment.base_offset: segment for segment in state.segments}
    before = (each.segment for each in located.slices if each.segment.base_offset in now)
    return any(segment.is_same_file(now[segment.base_offset]) for segment in before)
