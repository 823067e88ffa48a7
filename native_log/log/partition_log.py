"""PartitionLog, the log of one partition to read from and append to (Kafka: UnifiedLog)."""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from native_log.arguments import optional_integer
from native_log.config import LogConfig
from native_log.errors import KafkaLogError
from native_log.log.live.live_log import LiveLog
from native_log.log.live.log_follower import DEFAULT_POLL_INTERVAL_MS, FollowedLog, LogFollower
from native_log.log.live.partition_follower import PartitionFollower
from native_log.log.readable_log import ReadableLog
from native_log.log.reading.columns import record_schema
from native_log.log.reading.options import with_parsed_filter
from native_log.log.sources.directory import DirectorySource
from native_log.log.sources.joined import JoinedSource
from native_log.log.tail import Tail
from native_log.log.tiers.segment_source import SegmentSource
from native_log.records import DEFAULT_MAX_BATCH_BYTES, RECORD_SCHEMA
from native_log.segment.scan import int32s
from native_log.storage import LOCAL
from native_log.system import current_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Self, Unpack

    import pyarrow as pa
    from typing_extensions import Buffer

    from native_log.arguments import Compression, IsolationLevel, Origin
    from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
    from native_log.log.live.log_follower import FollowedLogs
    from native_log.log.log_state import LogState
    from native_log.log.reading.options import ReadArguments
    from native_log.log.writing.append_context import AppendContext
    from native_log.log.writing.appender import LogAppender
    from native_log.log.writing.encoded_batches import EncodedBatches
    from native_log.log.writing.record_encoding import RecordEncoder
    from native_log.log.writing.writable_log import WritableLog
    from native_log.records import BatchBuilder

# Modules that only appends need are imported in those methods: Spark starts many readers.
_DEFAULT_CONFIG = LogConfig()
_INTERNAL = frozenset(
    (
        *("append_built", "append_with", "checkpoints", "directory_source", "followed_by"),
        *("headers", "invalid_bytes", "max_batch_bytes", "offset_for_time_ms", "owned_by", "state"),
    )
)
"""Names that other modules use, and that `dir` does not show."""
_LOCK_CHECK_MS = 100
"""How often appends look for a lock file that was removed or replaced. A broker takes longer to start."""


class LogOwner(Protocol):
    """An object that keeps logs open for appending alive, so that it can close them."""

    def keep(self, log: PartitionLog, *, is_written: bool) -> None:
        """Keep `log` alive until it is called again with `is_written` false."""


class FollowInDirectory(Protocol):
    """Follows a log together with the checkpoints of its log directory."""

    def __call__(
        self, start_offset: int | None, isolation_level: IsolationLevel, options: ReadArguments
    ) -> FollowedLogs:
        """Return the log. The arguments are those of PartitionLog.follow."""


class PartitionLog(ReadableLog):
    """The log of a partition, to read from and append to.

    Its attributes show the log as it was when it was opened or last appended to. A log that is merged from
    several copies can be read and followed, but not appended to.

    A log that was appended to must be closed. If it is garbage-collected before, a ResourceWarning is raised
    and the log directory is left as after a crash: it must be recovered when it is next opened for writing.
    """

    _writing: WritableLog | None = None
    _owner: weakref.ref[LogOwner] | None = None
    _follow_in_directory: FollowInDirectory | None = None

    def __init__(
        self, state: LogState, config: LogConfig | Callable[[], LogConfig] = _DEFAULT_CONFIG
    ) -> None:
        """Do not call this; use `open`."""
        super().__init__(state)
        self._config = config

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
        settings = config if callable(config) else LogConfig.parse(config) if config else _DEFAULT_CONFIG
        source = DirectorySource.at(
            path,
            topic=topic,
            partition=partition,
            checkpoints=checkpoints,
            max_batch_bytes=max_batch_bytes,
        )
        return cls(source.open(), settings)

    def reopen(self) -> Self:
        """Open the log again, to see its current state."""
        return type(self)(self.state.source.open(), self._config)

    @property
    def config(self) -> LogConfig:
        """The settings for appending. Raises InvalidConfigError if stored settings are invalid."""
        if callable(self._config):
            self._config = self._config()
        return self._config

    def follow(
        self,
        start_offset: int | None = None,
        columns: Sequence[str] | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        *,
        timeout_ms: int | None = None,
        poll_interval_ms: int = DEFAULT_POLL_INTERVAL_MS,
        **options: Unpack[ReadArguments],
    ) -> LogFollower:
        """Read records as they arrive, until the result is stopped or its timeout is over.

        The log is read up to the high watermark, or the last stable offset. If it was opened by a LogDir, its
        checkpoints are read again when they change. A broker writes its high watermark to disk every 5
        seconds (replica.high.watermark.checkpoint.interval.ms), so records of a running broker arrive that
        much later, unless `high_watermark` of the LogDir is "ignore".

        Args:
            start_offset: where to begin; None: at the current end, so that only records arrive that can be
                read later than now. Records that were there already are read from `log_start_offset` on.
            columns, isolation_level: see `read`.
            timeout_ms: end after no records arrived for this time; None: never.
            poll_interval_ms: how often the files are looked at if the system does not report changes. Linux
                does, except on network file systems.
            options: see LogRange.read. With `fail_on_data_loss` false, lost records are reported as a
                warning, and reading continues with the first record after them.

        Returns:
            An iterator of record batches, and a context manager.

        Raises:
            OffsetOutOfRangeError: `start_offset` lies outside [local_log_start_offset, log_end_offset]; or,
                during the iteration, records were deleted before they were read.
            LogTruncatedError: during the iteration, records that were read have been truncated or replaced,
                or the topic was deleted and created again.
            UnknownTopicOrPartitionError: during the iteration, the partition was removed.
            CorruptRecordError: during the iteration, see `mode`.
            ValueError, TypeError: an invalid argument.
        """
        start_offset = optional_integer("start_offset", start_offset)
        names = list(RECORD_SCHEMA.names if columns is None else columns)
        record_schema(names)
        logs = self._followed(start_offset, isolation_level, with_parsed_filter(options))
        return LogFollower(logs, names, timeout_ms=timeout_ms, poll_interval_ms=poll_interval_ms)

    def _followed(
        self, start_offset: int | None, isolation_level: IsolationLevel, options: ReadArguments
    ) -> FollowedLogs:
        if self._follow_in_directory is not None:
            return self._follow_in_directory(start_offset, isolation_level, options)
        source = self.directory_source("followed")
        log = LiveLog(source)
        return FollowedLog(log, PartitionFollower.begin(log, start_offset, isolation_level, options))

    def append(
        self,
        records: pa.RecordBatch | pa.Table,
        *,
        leader_epoch: int | None = None,
        now_ms: int | None = None,
        compression: Compression | None = None,
        level: int | None = None,
        batch_size: int = 16384,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
    ) -> int:
        """Append records at the end of the log. If an error is raised, none of them are appended.

        If the process is killed, some whole batches may remain; recovery truncates an incomplete one. Threads
        may share the log: their appends run one after the other.

        The first append takes the lock of the log directory, which is held until `close`. While it is held,
        no broker can start on the directory; while a broker runs, the append raises LogDirInUseError.
        Appended records can be read at once. They are flushed to disk by `flush` and `close`, and as
        flush.messages and flush.ms say.

        Args:
            records: columns by name, in any order: `value` and `key` (binary or string, may be null),
                `headers` (list of structs of key and value), `timestamp` (an Arrow timestamp, or int64 ms;
                null or no column: the current time). `topic` and `partition`, if present, must be those of
                this log. The other columns that `read` returns are ignored with a warning, because the log
                sets them itself: offsets and the fields of batches. DataFrames of pandas (2.2 or later) and
                Polars are accepted, and other objects with Arrow's PyCapsule interface.
            leader_epoch: leader epoch of the batches; by default that of the last batches, 0 in a new log.
            now_ms: the current time in epoch ms; by default that of the clock.
            compression: none, gzip, snappy, lz4 or zstd; by default compression.type of the topic, or none if
                that is "producer".
            level: compression level; by default that of the topic.
            batch_size: approximate size of a batch in bytes, before compression (Kafka: batch.size).
            producer_id, producer_epoch, base_sequence, is_transactional: producer fields of the batches. A
                control batch ends an open transaction (see append_batches).

        Returns:
            The offset of the first record. The offsets of the others follow without gaps.

        Raises:
            LogDirInUseError: a broker or another process uses the log directory.
            LogNeedsRecoveryError: a crash damaged the end of the log; run `kafkalog recover`.
            ValueError: an unknown column.
            InvalidRecordError: a null key on a compacted topic, or a record of another topic or partition.
            InvalidTimestampError: a timestamp is too far from the current time.
            RecordTooLargeError: a batch would exceed max.message.bytes or segment.bytes.
            OutOfOrderSequenceError, InvalidProducerEpochError: the records do not follow the producer's last
                batch.
            OSError: writing failed, or the file system has no locks.
        """
        from native_log.log.writing.record_encoding import RecordEncoder

        encoder = RecordEncoder(
            compression, level, batch_size, producer_id, producer_epoch, base_sequence, is_transactional
        )
        return self.append_with(encoder, records, leader_epoch=leader_epoch, now_ms=now_ms)

    def append_with(
        self,
        encoder: RecordEncoder,
        records: pa.RecordBatch | pa.Table,
        *,
        leader_epoch: int | None = None,
        now_ms: int | None = None,
    ) -> int:
        """Append records at the end of the log, encoded as `encoder` says. See `append`."""
        from native_log.log.writing.record_encoding import encode_records

        target = self.topic, self.partition

        def prepare(context: AppendContext) -> tuple[int, Iterator[EncodedBatches]]:
            return context.log_end_offset, encode_records(records, encoder, context, target)

        return self._write(prepare, leader_epoch, now_ms)

    def append_batches(
        self,
        batches: Buffer,
        *,
        origin: Origin = "client",
        leader_epoch: int | None = None,
        now_ms: int | None = None,
    ) -> int:
        """Append encoded batches. Offsets and leader epoch are set in place.

        All other bytes, such as compressed records, stay unchanged unless a broker would change them too. A
        batch that is one of the last five of an idempotent producer is a duplicate and is not written again.

        Args:
            batches: the bytes of whole batches, one after the other, as a producer sends or a log has them.
            origin: Kafka's AppendOrigin. "client": batches that a producer may send, any number of them.
                "coordinator": control batches too. "replication": batches of another replica, which keep
                their offsets (at or above the log end offset) and leader epochs.
            leader_epoch, now_ms: see `append`.

        Returns:
            The offset of the first record. If its batch is a duplicate, it is the offset of the original.

        Raises:
            CorruptRecordError: the bytes are not whole, valid batches.
            LogDirInUseError and others: as for `append`.
        """
        from native_log.log.writing.encoded_batches import prepare_batches

        return self._write(lambda context: prepare_batches(batches, origin, context), leader_epoch, now_ms)

    def append_built(
        self,
        builders: Sequence[BatchBuilder],
        encoder: RecordEncoder,
        *,
        leader_epoch: int | None = None,
        now_ms: int | None = None,
    ) -> tuple[int, list[int]]:
        """Append one batch from each builder. If an error is raised, none of them are appended.

        Args:
            builders: builders that contain records.
            encoder: the codec and the producer fields of the batches. `base_sequence` is that of the first
                record.
            leader_epoch, now_ms: see `append`.

        Returns:
            The offset of the first record, and the size of each batch in bytes. The offsets of the other
            records follow without gaps.

        Raises the errors of `append`.
        """
        from native_log.log.writing.built_batches import encode_built

        sizes: list[int] = []

        def prepare(context: AppendContext) -> tuple[int, Iterator[EncodedBatches]]:
            data, batches = encode_built(builders, encoder, context)
            sizes.extend(int32s(batches, "sizeInBytes"))
            return context.log_end_offset, iter([(data, batches)])

        return self._write(prepare, leader_epoch, now_ms), sizes

    def flush(self) -> None:
        """Flush all appended records to disk."""
        with self._append_lock_held():
            if self._writing is not None:
                self._writing.appender.flush(current_ms())

    def owned_by(self, owner: LogOwner) -> Self:
        """Return this log, which `owner` keeps alive while it is open for appending."""
        self._owner = weakref.ref(owner)
        return self

    def followed_by(self, follow: FollowInDirectory) -> Self:
        """Return this log, which `follow` follows together with the checkpoints of its log directory."""
        self._follow_in_directory = follow
        return self

    def close(self) -> None:
        """Finish appending: flush to disk, write producer state and checkpoints, and release the lock.

        The log can still be read, and appended to again. If nothing was appended, nothing is done.
        """
        with self._append_lock_held():
            if self._writing is not None:
                writing, self._writing = self._writing, None
                self._notify_owner(is_written=False)
                writing.close()
                self._refresh(writing.appender)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        writing = self._writing
        if writing is not None and writing.process_id == os.getpid():
            self._writing = None
            # Do not write here: this may run at any time, even while the interpreter shuts down.
            writing.abandon()
            warnings.warn(
                f"{self.path}: expected close() after the last append, found none: the log directory is left "
                "as after a crash; use a `with` block, or close the log",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def __dir__(self) -> list[str]:
        """Return the names to complete, without those for other modules of this library."""
        return sorted(set(super().__dir__()) - _INTERNAL)

    def __getstate__(self) -> dict[str, object]:
        """Return the state without objects that only this process can use."""
        own = ("_owner", "_append_lock", "_writing")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def _notify_owner(self, *, is_written: bool) -> None:
        owner = None if self._owner is None else self._owner()
        if owner is not None:
            owner.keep(self, is_written=is_written)

    def _write(
        self,
        prepare: Callable[[AppendContext], tuple[int, Iterator[EncodedBatches]]],
        leader_epoch: int | None,
        now_ms: int | None,
    ) -> int:
        from native_log.log.writing.writable_log import WritableLog

        leader_epoch = optional_integer("leader_epoch", leader_epoch)
        now_ms = optional_integer("now_ms", now_ms)
        with self._append_lock_held():
            now_ms = current_ms() if now_ms is None else now_ms
            if self._writing is None:
                source = self.directory_source("appended to")
                self._writing = WritableLog.begin(source, self.config, now_ms)
                self._notify_owner(is_written=True)
                self._refresh(self._writing.appender)
            self._writing.session.check_lock(max_age_ms=_LOCK_CHECK_MS)
            appender = self._writing.appender
            first_offset, batches = prepare(appender.context(leader_epoch, now_ms, self.max_batch_bytes))
            try:
                appender.write(batches, now_ms)
            finally:
                self._refresh(appender)
            return first_offset

    @contextmanager
    def _append_lock_held(self) -> Iterator[None]:
        """Hold the lock that makes threads append one after the other."""
        # The lock is created on first use, because a log that is only read must be picklable.
        with self.__dict__.setdefault("_append_lock", threading.RLock()):
            if self._writing is not None and self._writing.process_id != os.getpid():
                self._writing = None  # it belongs to the parent of this forked process
            yield

    def _refresh(self, appender: LogAppender) -> None:
        """Update the attributes after an append."""
        segments, end = appender.segments, appender.log_end_offset
        source = self.directory_source("appended to")
        self.state = replace(
            self.state,
            # No broker has the directory open now, so all records can be read.
            source=replace(source, checkpoints=replace(source.checkpoints, live=False)),
            segments=segments,
            tail=Tail(segments[-1].size_bytes, end),
            log_end_offset=end,
        )
        ReadableLog._last_stable_offset.forget(self)

    def directory_source(self, change: str) -> DirectorySource:
        """Return the source of a log that is in one directory.

        Raises KafkaLogError for a merged log, and for one that is not on a local disk or has segments in
        remote storage: it says that the log cannot be changed in the way `change`.
        """
        source = self.state.source
        if isinstance(source, JoinedSource) and any(
            isinstance(p.source, SegmentSource) for p in source.parts
        ):
            found, advice = "one with segments in remote storage", "open its directory without `remote`"
        elif not isinstance(source, DirectorySource):
            found, advice = "one that is merged from several copies", "open one of its directories"
        elif source.storage is LOCAL:
            return source
        else:
            found, advice = "one that is not on a local disk", "copy the directory to a disk"
        raise KafkaLogError(
            f"expected a log of one directory, found {found}: it can be read, but not {change}; {advice}",
            path=self.path,
        )
