"""The state of a log on disk (Kafka: LocalLog): its segments in order, and the offsets that bound it."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import EpochEntry, read_leader_epochs
from native_log.checkpoints.partition_checkpoints import NO_CHECKPOINTS, PartitionCheckpoints
from native_log.checkpoints.partition_metadata import read_topic_id
from native_log.config import LogConfig
from native_log.errors import OffsetOutOfRangeError
from native_log.log.listing import LogListing, list_with_tail
from native_log.log.reading.offset_lookup import locate
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.segment.lookup import SegmentLookup
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Self

    from native_log.log.reading.location_cache import LocationCache
    from native_log.log.replicas.merged_source import MergedSource
    from native_log.log.segment_slices import SegmentId, SegmentSlice
    from native_log.log.tail import Tail
    from native_log.records import Scanned
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment

_DEFAULT_CONFIG = LogConfig()
_DIRECTORY = re.compile(r"(.+)-([0-9]+)(?:\.[^.]+-(?:delete|future|stray))?")


def partition_of_directory(directory: str) -> tuple[str, int]:
    """Return the topic and the partition in a directory's name; the whole name and 0 if it has none."""
    name = os.path.basename(os.path.abspath(directory))  # noqa: PTH100, PTH119 (a hot path of strings)
    match = _DIRECTORY.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, 0)


class LocalLog:
    """The log in one partition directory, as it was when it was opened.

    Attributes:
        path: the partition directory.
        topic, partition: taken from the directory's name, unless they were given.
        segments: all segments, by ascending base offset.
        snapshots: (offset, file name) of producer state snapshots, newest first.
        checkpoints: the partition's entries in the checkpoint files of the log directory.
        log_start_offset: the first offset of the log, from log-start-offset-checkpoint if that has an entry,
            else from __remote_log_metadata. It may lie within a batch.
        local_log_start_offset: the first offset of the log in the segments of this directory. It is greater
            than log_start_offset if the records before it are in tiered storage (KIP-405), or lost.
        log_end_offset: the offset after the last record.
        high_watermark: the first offset that is not read. It is the checkpointed high watermark while a
            broker has the directory open, else the log end offset: what a consumer gets after this broker has
            started as the leader, and no other replica has a longer log.
        max_batch_bytes: a batch that claims more bytes, or decompresses to more, counts as damaged.
        locations: remembers where offsets were found; None: nothing is remembered.
        merged: the copies from which the log is merged; None: it is in one directory.
    """

    merged: MergedSource | None = None

    def __init__(
        self,
        path: Path,
        topic: str,
        partition: int,
        listing: LogListing,
        tail: Tail,
        checkpoints: PartitionCheckpoints,
        max_batch_bytes: int,
        config: LogConfig | Callable[[], LogConfig] = _DEFAULT_CONFIG,
        locations: LocationCache | None = None,
    ) -> None:
        """Do not call this; use `open`."""
        self.path = path
        self.topic = topic
        self.partition = partition
        self.segments = listing.segments
        self.snapshots = listing.snapshots
        self.checkpoints = checkpoints
        self._config = config
        self._tail = tail
        self.max_batch_bytes = max_batch_bytes
        self.locations = locations
        first = self.segments[0].base_offset if self.segments else 0
        self.local_log_start_offset = max(first, checkpoints.log_start_offset or 0)
        self.log_start_offset = checkpoints.start_before(self.local_log_start_offset)
        # A broker empties a log that ends before its start offset, and continues at the start offset.
        self.log_end_offset = max(tail.next_offset, self.local_log_start_offset)
        self.high_watermark = self.log_end_offset
        if checkpoints.live and checkpoints.high_watermark is not None:
            self.high_watermark = max(
                self.local_log_start_offset, min(checkpoints.high_watermark, self.log_end_offset)
            )

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        topic: str | None = None,
        partition: int | None = None,
        checkpoints: PartitionCheckpoints | None = None,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        config: Mapping[str, object] | Callable[[], LogConfig] | None = None,
    ) -> Self:
        """Open the partition directory `path`: list its files and find the end of the last segment.

        Args:
            path: the partition directory.
            topic, partition: the log's topic and partition; by default those in the directory's name.
            checkpoints: the partition's entries in the checkpoint files of the log directory.
            max_batch_bytes: a batch that claims more bytes, or decompresses to more, counts as damaged.
            config: settings for appending, by Kafka's names: {"segment.bytes": 1048576}. See LogConfig. Or a
                function that returns a LogConfig, which is called when the settings are first needed.

        Raises:
            InvalidConfigError: a setting is invalid.
            FileNotFoundError, NotADirectoryError, PermissionError, OSError: the directory or a file cannot be
                read.
            KafkaLogError: a segment has 2^31 bytes or more.
        """
        directory = os.fspath(path)
        if topic is None or partition is None:
            named_topic, named_partition = partition_of_directory(directory)
            topic = named_topic if topic is None else topic
            partition = named_partition if partition is None else partition
        checkpoints = checkpoints or NO_CHECKPOINTS
        settings = config if callable(config) else LogConfig.parse(config) if config else _DEFAULT_CONFIG
        listing, tail = list_with_tail(directory, checkpoints.clean_shutdown, max_batch_bytes)
        return cls(
            Path(directory),
            topic,
            partition,
            listing,
            tail,
            checkpoints,
            max_batch_bytes,
            settings,
        )

    @property
    def config(self) -> LogConfig:
        """The settings for appending. Raises InvalidConfigError if stored settings are invalid."""
        if callable(self._config):
            self._config = self._config()
        return self._config

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({str(self.path)!r}, offsets {self.local_log_start_offset} to "
            f"{self.log_end_offset}, {len(self.segments)} segments)"
        )

    @property
    def end_of_last_batch(self) -> int:
        """The offset after the last record in the last segment, even if it is below the log start offset."""
        return self._tail.next_offset

    @property
    def invalid_bytes(self) -> int:
        """The number of bytes after the last valid batch, which are not read.

        0 while a broker has the directory open: then the bytes are preallocated zeros, or a batch that is
        being written.
        """
        return 0 if self.checkpoints.live else self._tail.invalid_bytes

    @property
    def missing_end(self) -> str | None:
        """What is ignored or missing after the log end offset, in one line; None if nothing is.

        While a broker has the directory open, bytes after the last batch are not reported.
        """
        signs = []
        if self.invalid_bytes:
            signs.append(
                f"its last {self.invalid_bytes} bytes, from position {self._tail.end_position} of "
                f"{self.segments[-1].log}, are ignored: {self._tail.invalid}, as a crash leaves it"
            )
        snapshot, name = self.snapshots[0] if self.snapshots else (0, "")
        if snapshot > self.log_end_offset:
            signs.append(f"{name} was written when the log had reached offset {snapshot}")
        if (self.checkpoints.high_watermark or 0) > self.log_end_offset:
            signs.append(
                f"its high watermark was {self.checkpoints.high_watermark} (replication-offset-checkpoint)"
            )
        return f"the log ends at offset {self.log_end_offset}, but {'; '.join(signs)}" if signs else None

    @property
    def checkpointed_high_watermark(self) -> int | None:
        """The high watermark that the broker stored last, in replication-offset-checkpoint; None: no entry.

        All in-sync replicas had the records below it. It is up to five seconds old, so there may be more such
        records. It is greater than the log end offset if this directory lost its end.
        """
        return self.checkpoints.checkpointed_high_watermark

    @property
    def size_bytes(self) -> int:
        """The total size of all .log files in bytes."""
        return sum(segment.size_bytes for segment in self.segments)

    @cached_property
    def leader_epochs(self) -> tuple[EpochEntry, ...]:
        """The leader epochs and their start offsets, from `leader-epoch-checkpoint`.

        Empty if that file is missing or invalid.
        """
        return read_leader_epochs(self.path)

    @cached_property
    def topic_id(self) -> str | None:
        """The topic id, 22 characters of base64url, from `partition.metadata`.

        None if that file is missing or invalid.
        """
        return read_topic_id(self.path)

    def check_offset(self, offset: int) -> None:
        """Raise OffsetOutOfRangeError if `offset` lies outside [local_log_start_offset, log_end_offset]."""
        if self.log_start_offset <= offset < self.local_log_start_offset:
            raise OffsetOutOfRangeError(
                f"expected an offset at or above the local log start offset {self.local_log_start_offset}, "
                f"found {offset}: {self.missing_start}",
                path=self.path,
                offset=offset,
            )
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"expected an offset from the log start offset {self.log_start_offset} to the log end "
                f"offset {self.log_end_offset}, found {offset}",
                path=self.path,
                offset=offset,
            )

    @property
    def missing_start(self) -> str | None:
        """The offsets at the log's start that no segment in this directory has, in words; None if none."""
        start = self.checkpoints.stored_start
        if start is None or self.log_start_offset >= self.local_log_start_offset:
            return None
        return (
            f"the log starts at offset {self.log_start_offset} ({start[1]}), its local "
            f"segments at {self.local_log_start_offset}; the offsets between are in tiered storage, or lost"
        )

    def headers(
        self,
        start_offset: int | None,
        on_damage: Callable[[DamagedRange], None],
        *,
        check_crcs: bool = False,
    ) -> Iterator[tuple[LogSegment, Scanned]]:
        """Yield the batch headers of the log, with their segments.

        Args:
            start_offset: start at the batch with this offset; None: at the first batch of the first segment.
            on_damage: called with each damaged range. The scan then continues after it.
            check_crcs: also check the checksum of each batch.
        """
        window = Window()
        bases = [segment.base_offset for segment in self.segments]
        first = 0 if start_offset is None else max(0, bisect_right(bases, start_offset) - 1)
        for segment in self.segments[first:]:
            end = self.end_position(segment)
            if end == 0:
                continue
            with SegmentLookup(segment, end, window, max_batch_bytes=self.max_batch_bytes) as lookup:
                within = start_offset is not None and start_offset > segment.base_offset
                position, next_offset = 0, segment.base_offset
                if within:
                    offset = start_offset or 0
                    place = (
                        lookup.find_offset(offset)
                        if self.locations is None
                        else self.locations.find(lookup, segment, offset, end)
                    )
                    position, next_offset = place.position, place.next_offset
                for scanned in lookup.batches(
                    position, on_damage, next_offset=next_offset, check_crcs=check_crcs
                ):
                    yield segment, scanned

    def locate(self, start: int, end: int) -> tuple[tuple[SegmentSlice, ...], tuple[SegmentId, ...]]:
        """Return the slices with the records from `start` to before `end`, and LogRange.earlier.

        Raises OffsetOutOfRangeError.
        """
        return locate(self, start, end)

    def slices_from(self, part: SegmentSlice, position: int) -> Iterator[SegmentSlice]:
        """Yield what to read for a slice that `locate` returned, from the batch at `position` on."""
        yield replace(part, start_position=position)

    def reopen(self) -> Self:
        """Open the log again, to see its current state."""
        log = type(self).open(
            self.path,
            topic=self.topic,
            partition=self.partition,
            checkpoints=self.checkpoints,
            max_batch_bytes=self.max_batch_bytes,
        )
        log._config = self._config
        return log

    @property
    def last_batch_position(self) -> int | None:
        """The position of the last whole batch in the last segment; None if it is unknown."""
        return self._tail.last_position

    @property
    def last_batch_timestamp_ms(self) -> int | None:
        """The largest timestamp of the last whole batch in the last segment.

        -1 if the batch has none (magic 0); None if it is unknown.
        """
        return self._tail.last_timestamp_ms

    @property
    def last_segment_timestamp_ms(self) -> int | None:
        """The largest timestamp of the last segment.

        -1 if it has none (magic 0); None if it is unknown, because only the end of the segment was read.
        """
        return self._tail.segment_timestamp_ms

    def end_position(self, segment: LogSegment) -> int:
        """Return the position at which reading `segment` stops, exclusive.

        This is the segment's size or, for the last segment, the end of its last batch.

        Damage after the high watermark of a live log is left out: a commit may be writing there, or was
        killed.
        """
        if segment is not self.segments[-1]:
            return segment.size_bytes
        high_watermark, damage = self.checkpoints.high_watermark, self._tail.damage_position
        if damage is None or not self.checkpoints.live or high_watermark is None:
            return self._tail.end_position
        return damage if high_watermark <= self.log_end_offset else self._tail.end_position
