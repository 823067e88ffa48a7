"""What lies in a partition directory (Kafka: LocalLog): segments in order, and offsets that bound them."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import EpochEntry, read_leader_epochs
from native_log.checkpoints.partition_checkpoints import NO_CHECKPOINTS, PartitionCheckpoints
from native_log.checkpoints.partition_metadata import read_topic_id
from native_log.config import LogConfig
from native_log.errors import OffsetOutOfRangeError
from native_log.log.listing import LogListing, list_with_tail
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.segment.lookup import SegmentLookup
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Self

    from native_log.log.tail import Tail
    from native_log.records import Scanned
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment

_DEFAULT_CONFIG = LogConfig()
_DIRECTORY = re.compile(r"(.+)-([0-9]+)(?:\.[^.]+-(?:delete|future|stray))?")


class LocalLog:
    """The log in one partition directory, as it was when it was opened.

    Attributes:
        path: the directory.
        topic, partition: from the directory's name, unless they were given.
        segments: all segments, by ascending base offset.
        snapshots: (offset, file name) of the snapshots of producer state, newest first.
        log_start_offset: first offset of the log, by the broker's checkpoint where that has it. It may lie
            within a batch.
        local_log_start_offset: first offset of the log in the segments of this directory. It is greater than
            log_start_offset where what lies before it is in tiered storage (KIP-405), or lost.
        log_end_offset: the offset after the last record.
        high_watermark: the first offset a consumer does not get: the checkpointed one while a broker has the
            directory open, else the log end offset, as after the broker's restart.
    """

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
    ) -> None:
        """Use `open`."""
        self.path = path
        self.topic = topic
        self.partition = partition
        self.segments = listing.segments
        self.snapshots = listing.snapshots
        self.checkpoints = checkpoints
        self._config = config
        self._tail = tail
        self.max_batch_bytes = max_batch_bytes
        first = self.segments[0].base_offset if self.segments else 0
        checkpointed = checkpoints.log_start_offset
        self.local_log_start_offset = max(first, checkpointed or 0)
        self.log_start_offset = self.local_log_start_offset if checkpointed is None else checkpointed
        # A log that ends before its start is emptied by the broker: it goes on at the start.
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
        """Open the partition directory `path`: list its files and look at the end of the last segment.

        Args:
            topic, partition: what to call it; by default as its directory is named.
            checkpoints: what the checkpoint files of the log directory say of it.
            max_batch_bytes: a batch that claims, or decompresses to, more is taken for damaged.
            config: settings for appending, by Kafka's names: {"segment.bytes": 1048576}. See LogConfig. Or a
                function that returns them all, called when they are first needed.

        Raises:
            InvalidConfigError: a setting that cannot be meant.
            FileNotFoundError, NotADirectoryError, PermissionError, OSError: the directory or a file cannot be
            read.
            KafkaLogError: a segment is larger than one can be.
        """
        directory = os.fspath(path)
        match = _DIRECTORY.fullmatch(os.path.basename(os.path.abspath(directory)))  # noqa: PTH100, PTH119
        checkpoints = checkpoints or NO_CHECKPOINTS
        settings = config if callable(config) else LogConfig.parse(config) if config else _DEFAULT_CONFIG
        listing, tail = list_with_tail(directory, checkpoints.clean_shutdown, max_batch_bytes)
        return cls(
            Path(directory),
            topic if topic is not None else match[1] if match else Path(directory).name,
            partition if partition is not None else int(match[2]) if match else 0,
            listing,
            tail,
            checkpoints,
            max_batch_bytes,
            settings,
        )

    @property
    def config(self) -> LogConfig:
        """The settings for appending. Raises InvalidConfigError for stored ones that are not known."""
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
        """The log end offset by what lies in the last segment, were it below the log's start."""
        return self._tail.next_offset

    @property
    def invalid_bytes(self) -> int:
        """How many bytes behind the last batch reading leaves out.

        0 while a broker has the directory open: there they are zeros, or a batch that is being written.
        """
        return 0 if self.checkpoints.live else self._tail.invalid_bytes

    @property
    def missing_end(self) -> str | None:
        """What is left out or missing behind the log end offset, in one line; None if nothing is.

        While a broker has the directory open it says nothing of bytes behind the last batch.
        """
        found = []
        if self.invalid_bytes:
            found.append(
                f"its last {self.invalid_bytes} bytes, from position {self._tail.end_position} of "
                f"{self.segments[-1].log} on, are left out: {self._tail.invalid}, as a crash leaves it"
            )
        snapshot, name = self.snapshots[0] if self.snapshots else (0, "")
        if snapshot > self.log_end_offset:
            found.append(f"{name} was written when it had reached offset {snapshot}")
        if (self.checkpoints.high_watermark or 0) > self.log_end_offset:
            found.append(
                f"its high watermark was {self.checkpoints.high_watermark} (replication-offset-checkpoint)"
            )
        return f"the log ends at offset {self.log_end_offset}, but {'; '.join(found)}" if found else None

    @property
    def size_bytes(self) -> int:
        """Size of all .log files."""
        return sum(segment.size_bytes for segment in self.segments)

    @cached_property
    def leader_epochs(self) -> tuple[EpochEntry, ...]:
        """The leader epochs and where each began, from `leader-epoch-checkpoint`.

        Empty if that is missing or unreadable.
        """
        return read_leader_epochs(self.path)

    @cached_property
    def topic_id(self) -> str | None:
        """The topic's id, 22 characters of base64url, from `partition.metadata`.

        None if that is missing or unreadable.
        """
        return read_topic_id(self.path)

    def check_offset(self, offset: int) -> None:
        """Raises OffsetOutOfRangeError for one that the log never had, or has no more."""
        if self.log_start_offset <= offset < self.local_log_start_offset:
            raise OffsetOutOfRangeError(
                f"expected an offset from the local log start offset {self.local_log_start_offset} on, found "
                f"{offset}: {self.missing_start}",
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
        """Which offsets of the log no segment of this directory has, in words; None if there are none."""
        if self.log_start_offset >= self.local_log_start_offset:
            return None
        return (
            f"the log starts at offset {self.log_start_offset} (log-start-offset-checkpoint), its local "
            f"segments at {self.local_log_start_offset}; what lies between is in tiered storage, or lost"
        )

    def headers(
        self,
        start_offset: int | None,
        on_damage: Callable[[DamagedRange], None],
        *,
        check_crcs: bool = False,
    ) -> Iterator[tuple[LogSegment, Scanned]]:
        """The headers of all batches from the one with `start_offset` on, with their segments.

        None: all that is there.
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
                    place = lookup.find_offset(start_offset or 0)
                    position, next_offset = place.position, place.next_offset
                for scanned in lookup.batches(
                    position, on_damage, next_offset=next_offset, check_crcs=check_crcs
                ):
                    yield segment, scanned

    def reopen(self) -> Self:
        """The log as it lies there now."""
        log = type(self).open(
            self.path,
            topic=self.topic,
            partition=self.partition,
            checkpoints=self.checkpoints,
            max_batch_bytes=self.max_batch_bytes,
        )
        log._config = self._config
        return log

    def end_position(self, segment: LogSegment) -> int:
        """Where reading `segment` stops: its size, for the last one where what is written of it ends."""
        return self._tail.end_position if segment is self.segments[-1] else segment.size_bytes
