"""Read a log: locate ranges, look up times, and list batches and transactions."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from native_log.arguments import optional_integer
from native_log.lazy import lazy_property
from native_log.log.changing_files import ATTEMPTS, CHANGED, retry_changed
from native_log.log.missing_segments import MissingSegment, describe_all, missing_segments
from native_log.log.offset_span import OffsetSpan
from native_log.log.producers.transactions import all_transactions, last_stable_offset, transactions_table
from native_log.log.reading.columns import check_mode, record_schema
from native_log.log.reading.log_range import LogRange
from native_log.log.reading.log_scan import LogScan
from native_log.records import RECORD_SCHEMA
from native_log.segment.damage import DamagedRange
from native_log.segment.files import MAX_OFFSET
from native_log.segment.scan import int64s
from native_log.times import TimeLike, to_time_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Unpack

    from native_log.arguments import IsolationLevel, Mode
    from native_log.checkpoints.leader_epochs import EpochEntry
    from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
    from native_log.log.log_state import LogState
    from native_log.log.reading.options import ReadArguments
    from native_log.segment.segment import LogSegment

# Modules that only lookups by time need are imported in that method: Spark starts many readers.
logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class ReadableLog:
    """A log to read from. Its attributes show the log as it was when it was opened.

    Attributes:
        state: the segments and where they are.
    """

    def __init__(
        self, state: LogState, find_stable_offset: Callable[[LogState], int] = last_stable_offset
    ) -> None:
        """Read the log that `state` describes. `find_stable_offset` finds its last stable offset."""
        self.state = state
        self._is_outdated = False
        self._find_stable_offset = find_stable_offset

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({str(self.path)!r}, offsets {self.local_log_start_offset} to "
            f"{self.log_end_offset}, {len(self.segments)} segments)"
        )

    @property
    def path(self) -> Path:
        """The partition directory; that of the leading copy if the log is merged from several."""
        return self.state.path

    @property
    def topic(self) -> str:
        """The topic. It is taken from the directory's name, unless it was given."""
        return self.state.source.topic

    @property
    def partition(self) -> int:
        """The partition. It is taken from the directory's name, unless it was given."""
        return self.state.source.partition

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """All segments, by ascending base offset."""
        return self.state.segments

    @property
    def checkpoints(self) -> PartitionCheckpoints:
        """The partition's entries in the checkpoint files of the log directory."""
        return self.state.checkpoints

    @property
    def max_batch_bytes(self) -> int:
        """A batch that claims more bytes, or decompresses to more, counts as damaged."""
        return self.state.max_batch_bytes

    @property
    def log_start_offset(self) -> int:
        """The first offset of the log, from log-start-offset-checkpoint if that has an entry.

        Otherwise it is taken from __remote_log_metadata. It may lie within a batch.
        """
        return self.state.log_start_offset

    @property
    def local_log_start_offset(self) -> int:
        """The first offset of the log in `segments`.

        It is greater than log_start_offset if the records before it are in tiered storage (KIP-405), or lost.
        """
        return self.state.local_log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record."""
        return self.state.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The first offset that is not read.

        It is the checkpointed high watermark while a broker has the directory open, else the log end offset:
        what a consumer gets after this broker has started as the leader, and no other replica has a longer
        log.
        """
        return self.state.high_watermark

    @property
    def checkpointed_high_watermark(self) -> int | None:
        """The high watermark that the broker stored last, in replication-offset-checkpoint; None: no entry.

        All in-sync replicas had the records below it. It is up to five seconds old, so there may be more such
        records. It is greater than the log end offset if this directory lost its end.
        """
        return self.state.checkpoints.checkpointed_high_watermark

    @property
    def size_bytes(self) -> int:
        """The total size of all .log files in bytes. Of a merged log, that of the parts that are read."""
        return self.state.size_bytes

    @property
    def missing_start(self) -> str | None:
        """The offsets at the log's start that no segment has, in words; None if none."""
        return self.state.missing_start

    @property
    def missing_end(self) -> str | None:
        """What is ignored or missing after the log end offset, in one line; None if nothing is.

        While a broker has the directory open, bytes after the last batch are not reported.
        """
        return self.state.missing_end

    @property
    def missing_segments(self) -> str | None:
        """The segments that have only indexes left, in one line; None if there are none.

        A broker removes or rebuilds such indexes, and consumers skip the offsets without an error.
        """
        return describe_all(self._missing_segments)

    @property
    def invalid_bytes(self) -> int:
        """The number of bytes after the last valid batch, which are not read.

        0 while a broker has the directory open: then the bytes are preallocated zeros, or a batch that is
        being written.
        """
        return self.state.invalid_bytes

    @property
    def leader_epochs(self) -> tuple[EpochEntry, ...]:
        """The leader epochs and their start offsets, from `leader-epoch-checkpoint`.

        Empty if that file is missing or invalid.
        """
        return self.state.leader_epochs

    @property
    def topic_id(self) -> str | None:
        """The topic id, 22 characters of base64url, from `partition.metadata`.

        None if that file is missing or invalid.
        """
        return self.state.topic_id

    @property
    def last_stable_offset(self) -> int:
        """The first offset that a read_committed consumer does not get.

        It is the first offset of the oldest transaction that is undecided below the high watermark, or else
        the high watermark.
        """
        return self._last_stable_offset

    def end_offset(self, isolation_level: IsolationLevel = "read_uncommitted") -> int:
        """Return the first offset that cannot be read: the high watermark, or the last stable offset.

        Args:
            isolation_level: "read_uncommitted" or "read_committed".

        Raises ValueError for an unknown isolation level.
        """
        if isolation_level == "read_committed":
            return self.last_stable_offset
        if isolation_level != "read_uncommitted":
            raise ValueError(
                f"isolation_level: expected read_uncommitted or read_committed, found {isolation_level!r}"
            )
        return self.high_watermark

    def range(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> LogRange:
        """Locate the records with offsets in [start_offset, end_offset).

        The range ends at the high watermark at the latest, or at the last stable offset if `isolation_level`
        is "read_committed".

        Args:
            start_offset: None: the first offset in local segments. A warning is logged if the log starts
                before it.
            end_offset: exclusive; None: the last offset that can be read. A warning is logged if the end of
                the log is damaged or missing, or if an open transaction hides it and no broker has the
                directory open.
            isolation_level: "read_uncommitted" or "read_committed".

        A warning is logged, too, if segments with some of the records are missing.

        Raises:
            OffsetOutOfRangeError: an offset lies outside [local_log_start_offset, log_end_offset].
            TypeError: an offset is not an int.
            ValueError: an unknown isolation level.
        """
        start_offset = optional_integer("start_offset", start_offset)
        end_offset = optional_integer("end_offset", end_offset)
        limit = self.end_offset(isolation_level)
        if end_offset is None:
            report_missing_end(self.state)
            self._report_open_transaction(limit)
            last = limit
        else:
            self.state.check_offset(end_offset)
            last = min(end_offset, limit)
        requested = OffsetSpan(start_offset or 0, MAX_OFFSET if end_offset is None else end_offset)
        missing = describe_all([each for each in self._missing_segments if each.span.overlaps(requested)])
        if missing is not None:
            _warn_once(f"{self.path}/{missing}; run kafkalog verify for details")
        if start_offset is None and self.missing_start:
            logger.warning("%s is read only in part: %s", self.path, self.missing_start)

        def locate_range(state: LogState) -> LogRange:
            # Retention may have moved the start of a log that was opened again.
            start = state.local_log_start_offset if start_offset is None else start_offset
            span = OffsetSpan(start, max(start, last))
            located = state.locate(span)
            return LogRange(
                state.source, start, span.end_offset, isolation_level, located.slices, located.earlier
            )

        return self._retry(locate_range)

    def read(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        columns: Sequence[str] | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        **options: Unpack[ReadArguments],
    ) -> pa.RecordBatchReader:
        """Read the records of `range(start_offset, end_offset)` as record batches.

        The result is an iterator with `schema`, `read_all()` and `read_pandas()`. Polars, DuckDB and other
        users of Arrow's PyCapsule interface accept it directly. It can be read once: after that it has no
        rows, and pyarrow raises no error. `scan` returns a source that can be read more often.

        Args:
            start_offset, end_offset, isolation_level: see `range`.
            columns: names in RECORD_SCHEMA, in any order, and `_corrupt_record`; by default the whole schema.
                Only these columns are decoded.
            options: see LogRange.read. `mode` says what to do about damaged bytes.

        Raises:
            OffsetOutOfRangeError: see `range`.
            CorruptRecordError: raised while batches are read, see `mode`.
            ValueError: an unknown column, isolation level or mode.
        """
        return self.scan(start_offset, end_offset, columns, isolation_level, **options).to_reader()

    def scan(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        columns: Sequence[str] | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        **options: Unpack[ReadArguments],
    ) -> LogScan:
        """Return a source that can be read more than once, for queries that read a table twice or run again.

        The arguments are those of `read`. The offsets are resolved now, not when the source is read.

        Raises OffsetOutOfRangeError, ValueError as `read`.
        """
        names = RECORD_SCHEMA.names if columns is None else columns
        record_schema(names)  # check the names before anything is read
        located = self.range(start_offset, end_offset, isolation_level=isolation_level)
        return LogScan((located,), tuple(names), options)

    def offset_for_timestamp(
        self,
        timestamp_ms: TimeLike,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        mode: Mode = "failFast",
    ) -> int | None:
        """Return the lowest offset of a record with a timestamp of at least `timestamp_ms`, or None.

        This is what Kafka's ListOffsets returns. Records of control batches and of aborted transactions
        count. Records at or above the high watermark (read_committed: the last stable offset) do not. v0
        records have no timestamp. There is one difference from a broker: if the first segment whose index
        promises a match has none, as after compaction, the search continues in the next segment.

        Args:
            timestamp_ms: milliseconds since 1970, or a datetime (in UTC if it has no time zone).
            isolation_level: "read_uncommitted" or "read_committed".
            mode: "failFast", or another one to skip damaged bytes with a warning.

        Raises:
            CorruptRecordError: damaged bytes may have contained the record (with mode "failFast").
            TypeError, ValueError: the time is of another type, or a number of seconds.
        """
        time_ms = to_time_ms("timestamp_ms", timestamp_ms)
        return self.offset_for_time_ms(time_ms, isolation_level, mode)

    def offset_for_time_ms(
        self, time_ms: int, isolation_level: IsolationLevel = "read_uncommitted", mode: Mode = "failFast"
    ) -> int | None:
        """Do the same for any number of epoch ms, also one that is probably meant in seconds."""
        from native_log.log.reading.timestamps import offset_for_timestamp

        return self._find_readable(
            lambda state, on_damage: offset_for_timestamp(state, time_ms, on_damage), isolation_level, mode
        )

    def offset_for_max_timestamp(
        self, *, isolation_level: IsolationLevel = "read_uncommitted", mode: Mode = "failFast"
    ) -> int | None:
        """Return the lowest offset of a record with the largest timestamp, or None.

        This is what Kafka's ListOffsets returns for timestamp -3 (KIP-734), but a broker also counts records
        before the log start offset. It is None if no record has a timestamp, or if the record is at or above
        the high watermark (read_committed: the last stable offset).

        Arguments and errors are as for offset_for_timestamp.
        """
        from native_log.log.reading.timestamps import offset_for_max_timestamp

        return self._find_readable(offset_for_max_timestamp, isolation_level, mode)

    def _find_readable(
        self,
        find: Callable[[LogState, Callable[[DamagedRange], None]], int | None],
        isolation_level: IsolationLevel,
        mode: Mode,
    ) -> int | None:
        """Return the offset that `find` returns; None if it is at or above the end of the log."""
        limit, on_damage = self.end_offset(isolation_level), _damage_handler(mode)
        offset = self._retry(lambda state: find(state, on_damage))
        return offset if offset is not None and offset < limit else None

    def batches(self, *, check_crcs: bool = False, mode: Mode = "failFast") -> Iterator[pa.RecordBatch]:
        """Yield one row for each batch in the segment files, from batch headers alone.

        The columns are those of BATCH_SCHEMA and `segment`, the file's name. If a broker deletes or compacts
        segments during the iteration, it continues in the current files, after the last batch yielded.

        Args:
            check_crcs: also check the checksum of each batch, for the column `isValid`.
            mode: "failFast", or another one to skip damaged bytes with a warning.

        Raises:
            CorruptRecordError: a batch header is damaged (with mode "failFast").
        """
        report_missing_end(self.state)
        on_damage = _damage_handler(mode)
        state, start_offset, failures = self.state, None, 0
        while True:
            try:
                for segment, scanned in state.headers(start_offset, on_damage, check_crcs=check_crcs):
                    batches = scanned.batches
                    if batches.num_rows:
                        names = pa.array([segment.log] * batches.num_rows, pa.string())
                        yield batches.append_column("segment", names)
                        start_offset, failures = int64s(batches, "lastOffset")[-1] + 1, 0
                return
            except CHANGED:
                failures += 1
                if failures == ATTEMPTS:
                    raise
                state = self.state.source.reopen()
                if start_offset is not None and start_offset >= state.log_end_offset:
                    return

    def headers(
        self, *, check_crcs: bool = False, mode: Mode = "failFast"
    ) -> Iterator[tuple[LogSegment, pa.RecordBatch]]:
        """Yield the rows of `batches` without the column `segment`, and with the segments themselves.

        Raises FileNotFoundError, LogTruncatedError: a broker has removed or replaced a file.
        """
        report_missing_end(self.state)
        for segment, scanned in self.state.headers(None, _damage_handler(mode), check_crcs=check_crcs):
            if scanned.batches.num_rows:
                yield segment, scanned.batches

    def transactions(self, *, mode: Mode = "failFast") -> pa.Table:
        """Return the transactions that have data in the log, as TRANSACTION_SCHEMA.

        Ended transactions come first, by the offset of their markers, then open ones.

        Args:
            mode: "failFast", or another one to skip damaged bytes with a warning.

        Raises:
            CorruptRecordError: damaged bytes may have contained a marker (with mode "failFast").
        """
        on_damage = _damage_handler(mode)
        report_missing_end(self.state)
        return transactions_table(self._retry(lambda state: all_transactions(state, on_damage)))

    def _report_open_transaction(self, end_offset: int) -> None:
        """Log a warning if an open transaction hides records from `end_offset` on.

        While a broker has the directory open, the transaction will end, and nothing is logged.
        """
        if end_offset < self.high_watermark and not self.checkpoints.live:
            _warn_once(
                f"{self.path}: read_committed ends at offset {end_offset}, and the log at "
                f"{self.high_watermark}: a transaction is open, or its end is damaged; run kafkalog "
                "transactions and kafkalog verify for details"
            )

    @lazy_property
    def _missing_segments(self) -> tuple[MissingSegment, ...]:
        return missing_segments(self.state)

    @lazy_property
    def _last_stable_offset(self) -> int:
        return self._retry(self._find_stable_offset)

    def _retry(self, work: Callable[[LogState], Result]) -> Result:
        """Call `work` with the state. If files are removed or truncated meanwhile, open the log again."""
        try:
            return work(self.state)
        except CHANGED:
            self._is_outdated = True
            return retry_changed(lambda: work(self.state.source.reopen()))


def is_outdated(log: ReadableLog) -> bool:
    """Return whether files of a log were found to be gone, or truncated, since it was opened."""
    return log._is_outdated


def report_missing_end(state: LogState) -> None:
    """Log a warning if the end of the log is damaged or missing, unless it was logged recently."""
    missing = state.missing_end
    if missing is not None:
        _warn_once(f"{state.path}: {missing}; run kafkalog verify for details")


@lru_cache(maxsize=1024)
def _warn_once(message: str) -> None:
    """Log a warning unless it was logged recently, because a log may be opened and read many times."""
    logger.warning("%s", message)


def _damage_handler(mode: Mode) -> Callable[[DamagedRange], None]:
    check_mode(mode)

    def report(damaged: DamagedRange) -> None:
        logger.warning("skipped damaged bytes of a log: %s", damaged)

    return DamagedRange.fail if mode == "failFast" else report
