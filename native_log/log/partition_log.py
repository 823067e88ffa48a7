"""One partition of a topic (Kafka: UnifiedLog): what is read of its log, and what is appended to it."""

from __future__ import annotations

import logging
import os
import threading
import warnings
import weakref
from contextlib import contextmanager
from functools import cached_property, lru_cache
from numbers import Real
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa

from native_log.arguments import optional_integer
from native_log.errors import LogTruncatedError
from native_log.log.local_log import LocalLog
from native_log.log.producers.transactions import all_transactions, last_stable_offset, transactions_table
from native_log.log.reading.log_range import LogRange
from native_log.log.reading.log_scan import LogScan
from native_log.log.reading.offset_lookup import locate
from native_log.log.reading.reader import check_mode, record_schema
from native_log.log.tail import Tail
from native_log.records import RECORD_SCHEMA
from native_log.segment.damage import DamagedRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self, Unpack

    from typing_extensions import Buffer

    from native_log.arguments import Compression, IsolationLevel, Mode, Origin
    from native_log.log.reading.log_range import ReadOptions
    from native_log.log.writing.append_context import AppendContext
    from native_log.log.writing.appender import LogAppender
    from native_log.log.writing.encoded_batches import EncodedBatches
    from native_log.log.writing.writable_log import WritableLog

# What only writing needs, or looking up times, is imported there: a Spark job starts many readers.
logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class LogOwner(Protocol):
    """Keeps the logs that are written alive, so that it can close them."""

    def keep(self, log: PartitionLog, *, is_written: bool) -> None:
        """Keep `log` alive until it is called again with `is_written` false."""


class PartitionLog(LocalLog):
    """A log to read and to append to. Its attributes are as they were when it was opened or last appended to.

    A log that was appended to has to be closed. One that goes away without that raises a ResourceWarning, and
    leaves its directory as after a crash: to be recovered by whoever opens it next.
    """

    _writing: WritableLog | None = None
    _owner: weakref.ref[LogOwner] | None = None

    @cached_property
    def last_stable_offset(self) -> int:
        """First offset that a read_committed consumer does not get: the high watermark, or the first offset
        of the oldest transaction that is undecided below it."""
        return self._retried(last_stable_offset)

    def range(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> LogRange:
        """The records from `start_offset` to before `end_offset`, None: as far as can be read.

        Without a start offset, a log whose start no local segment has is read with a warning; and without an
        end offset, one whose end is torn or missing.

        The end is never beyond the high watermark, with `isolation_level` "read_committed" never beyond the
        last stable offset.

        Raises:
            OffsetOutOfRangeError: an offset lies outside of [local_log_start_offset, log_end_offset].
            TypeError: an offset that is not an int.
        """
        start_offset = optional_integer("start_offset", start_offset)
        end_offset = optional_integer("end_offset", end_offset)
        limit = self._limit(isolation_level)
        if end_offset is None:
            self._report_missing_end()
        if start_offset is None and self.missing_start:
            logger.warning("%s is read in part: %s", self.path, self.missing_start)
        start = self.local_log_start_offset if start_offset is None else start_offset
        self.check_offset(limit if end_offset is None else end_offset)
        end = max(start, limit if end_offset is None else min(end_offset, limit))
        pieces, earlier = self._retried(lambda log: locate(log, start, end))
        return LogRange(
            str(self.path),
            self.topic,
            self.partition,
            start,
            end,
            isolation_level,
            pieces,
            self.max_batch_bytes,
            earlier,
        )

    def read(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        columns: Sequence[str] | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        **how: Unpack[ReadOptions],
    ) -> pa.RecordBatchReader:
        """The records of `range(start_offset, end_offset)`: an iterator of record batches that has `schema`,
        `read_all()` and `read_pandas()`, and that Polars, DuckDB and whatever else knows Arrow's PyCapsule
        interface take as it is. It can be read once; see `scan` for more often.

        Args:
            columns: names of RECORD_SCHEMA, in any order, and `_corrupt_record`; by default the whole schema.
                Only these are decoded.
            how: see LogRange.read; `mode` among them, what to do about damaged bytes.

        Raises:
            OffsetOutOfRangeError: as `range`. CorruptRecordError: as the batches are read, see `mode`.
            ValueError: an unknown column, isolation level or mode.
        """
        return self.scan(start_offset, end_offset, columns, isolation_level, **how).to_reader()

    def scan(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        columns: Sequence[str] | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        **how: Unpack[ReadOptions],
    ) -> LogScan:
        """The same as `read`, as a source that can be scanned more than once: for a query that reads a table
        twice, or is run again. Its offsets are those of now.

        Raises OffsetOutOfRangeError, ValueError as `read`.
        """
        names = RECORD_SCHEMA.names if columns is None else columns
        record_schema(names)  # before the log is looked into
        wanted = self.range(start_offset, end_offset, isolation_level=isolation_level)
        return LogScan(wanted, tuple(names), how)

    def offset_for_timestamp(
        self,
        timestamp_ms: int,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        mode: Mode = "failFast",
    ) -> int | None:
        """Offset of the first record, by offset, with a timestamp of at least `timestamp_ms`; None if there
        is none.

        As ListOffsets answers: records of control batches and of aborted transactions count, those at or
        above the high watermark (read_committed: the last stable offset) do not. Unlike a broker this goes on
        to the next segment where the first that promised a match has none, as after compaction. v0 records
        have no timestamp.

        Raises:
            CorruptRecordError: damaged bytes on the way may have held the record (with mode "failFast").
        """
        if not isinstance(timestamp_ms, Real):
            raise TypeError(
                f"timestamp_ms is in milliseconds since 1970, found {timestamp_ms!r}; of a datetime they are "
                "int(when.timestamp() * 1000)"
            )
        limit = self._limit(isolation_level)
        from native_log.log.reading.timestamps import offset_for_timestamp

        on_damage = _damage_handler(mode)
        offset = self._retried(lambda log: offset_for_timestamp(log, timestamp_ms, on_damage))
        return offset if offset is not None and offset < limit else None

    def batches(self, *, check_crcs: bool = False, mode: Mode = "failFast") -> Iterator[pa.RecordBatch]:
        """All batches in the segments' files, from their headers alone: BATCH_SCHEMA and `segment`, the
        file's name.

        Raises:
            CorruptRecordError: a batch cannot be told from the next (with mode "failFast", else it is stepped
                over).
        """
        self._report_missing_end()
        for segment, scanned in self.headers(None, _damage_handler(mode), check_crcs=check_crcs):
            count = scanned.batches.num_rows
            if count:
                yield scanned.batches.append_column("segment", pa.array([segment.log] * count, pa.string()))

    def transactions(self, *, mode: Mode = "failFast") -> pa.Table:
        """The transactions that the log has data of, as TRANSACTION_SCHEMA: first the ended ones in the order
        of their markers.

        Raises:
            CorruptRecordError: damaged bytes may have held a marker (with mode "failFast").
        """
        on_damage = _damage_handler(mode)
        self._report_missing_end()
        return transactions_table(self._retried(lambda log: all_transactions(log, on_damage)))

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
        """Append records at the log's end, all of them or, if an error is raised, none. (A process that is
        killed leaves whole batches of them: what comes after is cut off by recovery.) Threads may share the
        log, and append in turn.

        The directory's lock is taken with the first append and held until `close`: a broker cannot start on
        it meanwhile, and one that runs is not disturbed. What was appended can be read at once; it is on the
        disk for good after `flush` or `close` (or as flush.messages and flush.ms say).

        Args:
            records: columns by name, in any order: `value`, `key` (binary or string; null is null), `headers`
                (list of structs of key and value), `timestamp` (any Arrow timestamp, or int64 ms; null or no
                such column: now). `topic` and `partition` have to be this log's. The other columns of
                RECORD_SCHEMA, which `read` returns, are ignored. A DataFrame of pandas (2.2 on) or Polars
                will do, as all that Arrow's PyCapsule interface takes.
            leader_epoch: of the batches; by default that of the batches before, 0 in a new log.
            now_ms: the time now, epoch ms; by default the clock's.
            compression: none, gzip, snappy, lz4 or zstd; by default what compression.type says, none where
                that is "producer". `level`: of the codec; by default the topic's.
            batch_size: about how many bytes a batch has before compression (Kafka: batch.size).
            producer_id, producer_epoch, base_sequence, is_transactional: what the batches say of their
                producer; an open transaction is ended by a control batch (see append_batches).

        Returns:
            The offset of the first record; those of the others follow without a gap.

        Raises:
            LogDirInUseError: a broker, or another process, works in the log directory.
            LogNeedsRecoveryError: a crash left the log's end damaged; `kafkalog recover` mends it.
            ValueError: an unknown column.
            InvalidRecordError: a null key on a compacted topic, or a record of another topic or partition.
            InvalidTimestampError, RecordTooLargeError.
            OutOfOrderSequenceError, InvalidProducerEpochError: not what comes next of the producer.
            OSError: writing failed, or the file system has no locks.
        """
        from native_log.log.writing.record_encoding import RecordEncoder, encoded

        how = RecordEncoder(
            compression, level, batch_size, producer_id, producer_epoch, base_sequence, is_transactional
        )
        target = self.topic, self.partition

        def prepare(at: AppendContext) -> tuple[int, Iterator[EncodedBatches]]:
            return at.log_end_offset, encoded(records, how, at, target)

        return self._write(prepare, leader_epoch, now_ms)

    def append_batches(
        self,
        batches: Buffer,
        *,
        origin: Origin = "client",
        leader_epoch: int | None = None,
        now_ms: int | None = None,
    ) -> int:
        """Append encoded batches as bytes: offsets and leader epoch are set in place, the rest stays as it is
        wherever a broker would leave it (its checksum, its compression).

        Args:
            batches: whole batches, one behind the other, as a producer makes them or another log holds them.
            origin: Kafka's AppendOrigin. "client": what a producer may send, any number of batches;
                "coordinator": control batches, too; "replication": batches of another replica, which keep
                their offsets, at or above the log's end, and their epochs.
            leader_epoch, now_ms: as for `append`.

        A batch that an idempotent producer sent before, one of its last five, is not written again.

        Returns:
            The offset of the first record: in the log already, if that one was sent before.

        Raises:
            CorruptRecordError: the bytes are no whole, valid batches.
            LogDirInUseError and others: as for `append`.
        """
        from native_log.log.writing.encoded_batches import incoming

        return self._write(lambda at: incoming(batches, origin, at), leader_epoch, now_ms)

    def flush(self) -> None:
        """Have everything that was appended on the disk."""
        with self._one_by_one():
            if self._writing is not None:
                from native_log.log.writing.writable_log import current_ms

                self._writing.appender.flush(current_ms())

    def owned_by(self, owner: LogOwner) -> Self:
        """Return this log, which `owner` keeps alive while it is written."""
        self._owner = weakref.ref(owner)
        return self

    def close(self) -> None:
        """End appending: indexes complete, producers' state and checkpoints written, the lock given back.

        The log can still be read, and appended to again. Does nothing where nothing was appended.
        """
        with self._one_by_one():
            if self._writing is not None:
                writing, self._writing = self._writing, None
                self._tell_owner(is_written=False)
                writing.close(self)
                self._refresh(writing.appender)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        writing = self._writing
        if writing is not None and writing.process_id == os.getpid():
            self._writing = None
            # Nothing is written here: this may run anywhere, at the end of the process too.
            writing.abandon(self)
            warnings.warn(
                f"{self.path}: expected close() after the last append, found the log dropped: its directory "
                "is left as after a crash; use `with`, or close it",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def __getstate__(self) -> dict[str, object]:
        """Without what belongs to this process."""
        own = ("_owner", "_append_lock", "_writing")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def _tell_owner(self, *, is_written: bool) -> None:
        owner = None if self._owner is None else self._owner()
        if owner is not None:
            owner.keep(self, is_written=is_written)

    def _write(
        self,
        prepare: Callable[[AppendContext], tuple[int, Iterator[EncodedBatches]]],
        leader_epoch: int | None,
        now_ms: int | None,
    ) -> int:
        from native_log.log.writing.writable_log import WritableLog, current_ms

        leader_epoch = optional_integer("leader_epoch", leader_epoch)
        now_ms = optional_integer("now_ms", now_ms)
        with self._one_by_one():
            now_ms = current_ms() if now_ms is None else now_ms
            if self._writing is None:
                self._writing = WritableLog.begin(self, now_ms)
                self._tell_owner(is_written=True)
                self._refresh(self._writing.appender)
            self._writing.session.check_lock()
            appender = self._writing.appender
            first_offset, pieces = prepare(appender.admission(leader_epoch, now_ms, self.max_batch_bytes))
            try:
                appender.write(pieces, now_ms)
            finally:
                self._refresh(appender)
            return first_offset

    @contextmanager
    def _one_by_one(self) -> Iterator[None]:
        """Threads that append wait for each other."""
        # Made where it is needed: a log that is only read can be pickled.
        with self.__dict__.setdefault("_append_lock", threading.RLock()):
            if self._writing is not None and self._writing.process_id != os.getpid():
                self._writing = None  # of the process that this one was forked from, and its alone
            yield

    def _refresh(self, appender: LogAppender) -> None:
        """See the log as it is written."""
        self.segments = appender.segments
        self.log_end_offset = self.high_watermark = appender.log_end_offset
        self._tail = Tail(self.segments[-1].size_bytes, appender.log_end_offset)
        for name in ("last_stable_offset", "leader_epochs"):
            self.__dict__.pop(name, None)

    def _retried(self, work: Callable[[LocalLog], Result]) -> Result:
        """`work` on this log; once more on the log as it is now if its files were moved or cut meanwhile."""
        try:
            return work(self)
        except (FileNotFoundError, LogTruncatedError):
            return work(self.reopen())

    def _report_missing_end(self) -> None:
        missing = self.missing_end
        if missing is not None:
            _warn_once(f"{self.path}: {missing}; kafkalog verify says more")

    def _limit(self, isolation_level: IsolationLevel) -> int:
        if isolation_level == "read_committed":
            return self.last_stable_offset
        if isolation_level != "read_uncommitted":
            raise ValueError(
                f"isolation_level must be read_uncommitted or read_committed, found {isolation_level!r}"
            )
        return self.high_watermark


@lru_cache(maxsize=1024)
def _warn_once(message: str) -> None:
    """Log a warning that has not been logged lately: a log is opened, and read, any number of times."""
    logger.warning("%s", message)


def _damage_handler(mode: Mode) -> Callable[[DamagedRange], None]:
    check_mode(mode)

    def report(damaged: DamagedRange) -> None:
        logger.warning("skipped damaged bytes of a log: %s", damaged)

    return DamagedRange.fail if mode == "failFast" else report
