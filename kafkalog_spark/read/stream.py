"""The streaming reader of records: `spark.readStream.format("kafkalog")`.

It behaves as Spark's kafka source (KafkaMicroBatchStream). Spark creates one reader on the driver, which
follows the logs for as long as the query runs, and others that only read in the tasks.
"""

from __future__ import annotations

import logging
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader

from kafkalog_spark.errors import DataLossError
from kafkalog_spark.read.offset_state import OffsetState, PlannedBatch
from kafkalog_spark.read.offsets import (
    Latest,
    OffsetRange,
    check_data_loss,
    resolve_starts,
    starts_at_earliest,
)
from kafkalog_spark.read.plan import offsets_for_times
from kafkalog_spark.read.report import describe_backlog, log_plan
from kafkalog_spark.read.stream_logs import StreamLogs
from kafkalog_spark.read.stream_offsets import from_json, to_json
from kafkalog_spark.read.stream_ranges import micro_batch_ranges
from kafkalog_spark.read.tasks import Split, TaskReader, plan_tasks
from kafkalog_spark.read.triggers import backlogs, delays_trigger, limit_bytes, limit_offsets
from native_log.log.changing_files import MOVED, retry_changed
from native_log.log.outdated_segment import missing_start
from native_log.sizes import format_count
from native_log.system import current_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from kafkalog_spark.options.offset_json import TopicPartition
    from kafkalog_spark.options.stream import StreamOptions
    from kafkalog_spark.read.offset_state import Identities
    from kafkalog_spark.read.stream_logs import Replacement
    from kafkalog_spark.read.stream_offsets import Offsets, OffsetsJson
    from kafkalog_spark.read.tasks import AnyRange
    from native_log.log import LogRange

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # before Spark 4.2

        class SupportsTriggerAvailableNow:
            """Stands for the interface that this version of Spark does not have."""


logger = logging.getLogger("kafkalog")

Result = TypeVar("Result")


class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the records of logs as they are appended.

    Spark 4.0 and 4.1 know no read limits: they pass neither the start nor a limit to `latestOffset`. The
    limits of the options apply there too, but a query with Trigger.AvailableNow ends after one micro-batch.
    Spark does not tell a source which trigger the query has, so the reader can only warn.
    """

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        self._options = options
        self._tasks = TaskReader.of(options.read, schema)
        self._secrets = options.read.storage_options.carried()
        self._batch: tuple[Offsets, Offsets] | None = None  # start and end of the last micro-batch
        self._planned: set[TopicPartition] = set()  # the partitions that it reads
        self._read_before: Identities = {}  # what was read before it
        self._latest: Offsets = {}
        self._available_now: Offsets | None = None
        self._last_trigger_ms = 0
        self._is_begun = False
        self._reported: set[Replacement] = set()

    # What Spark calls on the driver. Offsets are JSON: see stream_offsets.

    def initialOffset(self) -> OffsetsJson:  # noqa: N802
        return to_json(self._initial_offsets)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        from pyspark.sql.streaming import datasource

        # Spark knows no combination of limits. It passes the limit back to latestOffset, which applies all
        # limits of the options unless it gets ReadAllAvailable.
        options = self._options
        if options.max_offsets is not None:
            return datasource.ReadMaxRows(options.max_offsets)
        if options.max_bytes is not None:
            return datasource.ReadMaxBytes(options.max_bytes)
        if options.min_offsets is not None:
            return datasource.ReadMinRows(options.min_offsets)
        return datasource.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._available_now = self._refresh().end_offsets()

    def latestOffset(self, start: OffsetsJson | None = None, limit: ReadLimit | None = None) -> OffsetsJson:  # noqa: N802
        if start is not None:
            starts = from_json(start)
            self._begin_again()
        else:
            starts = self._initial_offsets if self._batch is None else self._batch[1]
        self._forget_what_was_read_again()
        logs = self._refresh()
        logs.raise_high_watermarks(starts)
        self._check_replacements(starts)
        ends = logs.end_offsets()
        if self._available_now is not None:
            # A stream that has read beyond what was there, in an earlier run, stays where it is.
            ends = {
                tp: max(end, min(starts.get(tp, 0), ends.get(tp, 0)))
                for tp, end in self._available_now.items()
            }
        for tp in logs.replacements:
            if starts.get(tp) == ends.get(tp):
                ends[tp] -= 1  # if the offsets were the same, Spark would run no micro-batch
        is_first, self._latest = not self._latest, ends
        if type(limit).__name__ == "ReadAllAvailable":
            return to_json(ends)
        limited = self._limit(starts, ends)
        if limit is None and is_first:
            self._report_limit(backlogs(limited, ends))
        return to_json(limited)

    def reportLatestOffset(self) -> OffsetsJson | None:  # noqa: N802
        return to_json(self._latest) or None

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> list[InputPartition]:
        starts, ends = from_json(start), from_json(end)
        self._begin_again()
        if self._batch != (starts, ends):  # Spark may plan a micro-batch several times
            self._batch = starts, ends
            self._read_before = dict(self._logs.identities)
        splits = self._retry(partial(self._plan, starts, ends))
        if self._state.is_kept:
            read = self._logs.identities
            self._state.save_planned_batch(PlannedBatch(starts, ends, self._read_before, read))
        if starts != ends:  # Spark 4.0 and 4.1 restart a query with an empty micro-batch
            left = backlogs(ends, self._latest or self._logs.end_offsets())
            log_plan(self._options.read.paths, splits, left)
        return [Split(tuple(ranges)) for ranges in splits]

    def commit(self, end: OffsetsJson) -> None:
        """Do nothing, as Spark's kafka source."""

    # How the reader finds offsets.

    @cached_property
    def _state(self) -> OffsetState:
        return OffsetState(self._options.state_location)

    @cached_property
    def _logs(self) -> StreamLogs:
        saved = self._state.planned_batch()
        if saved is None:
            return StreamLogs(self._options.read, self._state.initial_identities())
        is_run_again = self._batch == (saved.starts, saved.ends)
        return StreamLogs(self._options.read, saved.before if is_run_again else saved.after)

    def _refresh(self) -> StreamLogs:
        logs = self._logs
        logs.refresh()
        return logs

    @cached_property
    def _initial_offsets(self) -> Offsets:
        """Where the query starts. It is determined once, although Spark asks twice."""
        self._is_begun = True
        saved = self._state.initial_offsets()
        if saved is not None:
            return saved
        read, logs = self._options.read, self._refresh()
        readable = {tp: log.log for tp, log in logs.logs.items()}
        lookup = partial(offsets_for_times, read, readable, are_local=logs.are_local)
        available = logs.available(logs.logs)
        offsets = resolve_starts(read.start, read.strategy, available, lookup)
        for tp, log in logs.logs.items():
            first = OffsetRange(*tp, offsets[tp], offsets[tp])
            if log.log.missing_start and starts_at_earliest(first, available[tp], read.start):
                logger.warning("%s is read in part: %s", log.path, log.log.missing_start)
        logs.begin(offsets, available)
        self._state.save_initial_offsets(offsets, logs.identities)
        if isinstance(read.start, Latest) and not self._state.is_kept:
            logger.warning(
                "the stream starts at latest, and offsetStateLocation is not set: if the query stops before "
                "its first commit, the next run starts at the end of the logs at that time, and the records "
                "in between are skipped"
            )
        return offsets

    def _begin_again(self) -> None:
        """Warn once if the query continues from a checkpoint: Spark has not asked for initial offsets."""
        if not (self._is_begun or self._state.is_kept):
            logger.warning(
                "the stream continues from its checkpoint, and offsetStateLocation is not set: a topic that "
                "was deleted and created again since the last run is not noticed, nor is a truncated log, "
                "and records may be skipped"
            )
        self._is_begun = True

    def _plan(self, starts: Offsets, ends: Offsets) -> list[list[AnyRange]]:
        """Return the log ranges that each task of a micro-batch reads."""
        logs = self._logs
        self._check_replacements(starts)
        replaced = {tp: replacement.offset for tp, replacement in logs.replacements.items()}
        changed = {tp: offset for tp, offset in ends.items() if starts.get(tp) != offset or tp in replaced}
        logs.raise_high_watermarks(changed)
        available = logs.available(changed)
        # Records that replaced others are read although they are below the start.
        firsts = {tp: max(offset, available[tp].start) for tp, offset in replaced.items() if tp in available}
        requested = micro_batch_ranges(starts | firsts, ends, available, self._report_loss)
        splits = plan_tasks(self._options.read, requested, self._locate(requested, available))
        logs.record(changed, available)
        self._planned = set(changed)
        return splits

    def _check_replacements(self, starts: Offsets) -> None:
        """Report the records that were replaced after they were read."""
        for tp, replacement in list(self._logs.replacements.items()):
            start = starts.get(tp)
            if start is None or replacement.offset >= start:
                self._logs.forget(tp)  # they were not read yet
            elif replacement not in self._reported:
                self._reported.add(replacement)
                self._report_loss(
                    f"KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED: {replacement.reason}: the records of {tp} "
                    f"from offset {replacement.offset} to {start} are not those that were read"
                )

    def _forget_what_was_read_again(self) -> None:
        self._logs.forget_read(self._planned)
        self._reported = {known for known in self._reported if known.partition not in self._planned}
        self._planned = set()

    def _locate(
        self, requested: Iterable[OffsetRange], available: Mapping[TopicPartition, OffsetRange]
    ) -> dict[TopicPartition, LogRange]:
        """Return where the records are, and report offsets that do not exist any more."""
        read = self._options.read
        parts = {}
        for r in requested:
            tp = r.topic_partition
            held, log = available.get(tp), self._logs.logs.get(tp)
            if held is None or log is None:
                self._report_loss(
                    f"KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE: the directory of {tp} was removed before "
                    f"{format_count(r.size, 'offset')}, [{r.start}, {r.end}), were read"
                )
                continue
            check_data_loss(r, held, fail=read.fail_on_data_loss, path=log.path, reason=log.log.missing_start)
            part = r.intersection(held)
            if part.size > 0:
                parts[tp] = part

        def locate(tp: TopicPartition) -> LogRange:
            log, part = self._logs.logs[tp].log, parts[tp]
            return log.range(part.start, part.end, isolation_level=read.isolation_level)

        located = self._logs.find_together(locate, parts)
        for tp, range in located.items():
            missing = missing_start(self._logs.logs[tp].log.state, range)
            if missing is not None:
                self._report_loss(f"KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE: {range.path}: {missing}")
        return located

    def _limit(self, starts: Offsets, ends: Offsets) -> Offsets:
        """Apply the limits of the options to the end offsets of a trigger."""
        options, logs = self._options, self._logs.logs
        if options.min_offsets is not None and self._is_delayed(starts, ends, options.min_offsets):
            return starts
        # New partitions are read from the start of their logs.
        firsts = {tp: log.log.local_log_start_offset for tp, log in logs.items() if tp in ends} | starts
        if options.max_offsets is not None:
            ends = limit_offsets(firsts, ends, options.max_offsets)
        if options.max_bytes is not None:
            ends = ends | self._retry(partial(self._limit_bytes, firsts, ends, options.max_bytes))
        return ends

    def _limit_bytes(self, firsts: Offsets, ends: Offsets, max_bytes: int) -> Offsets:
        """Return the end offsets of the partitions that have records, if about `max_bytes` are read."""
        return limit_bytes(self._ranges(firsts, ends), max_bytes, are_local=self._logs.are_local)

    def _ranges(self, firsts: Offsets, ends: Offsets) -> dict[TopicPartition, LogRange]:
        """Return where the records are that can still be read, of partitions that have some."""
        logs = {tp: live.log for tp, live in self._logs.logs.items() if tp in ends}
        starts = {tp: max(firsts[tp], log.local_log_start_offset) for tp, log in logs.items() if tp in firsts}
        # A topic may have been created again since the last trigger, and have fewer records.
        lasts = {tp: min(ends[tp], log.log_end_offset) for tp, log in logs.items()}
        return self._logs.find_together(
            lambda tp: logs[tp].range(starts[tp], lasts[tp]),
            (tp for tp, start in starts.items() if start < lasts[tp]),
        )

    def _retry(self, work: Callable[[], Result]) -> Result:
        """Call `work`. If segments have changed since the last refresh, refresh, and call it again."""

        def work_again() -> Result:
            self._refresh()
            return work()

        return retry_changed(work_again, MOVED, first=work)

    def _report_limit(self, left: Mapping[TopicPartition, int]) -> None:
        """Warn that a query with Trigger.AvailableNow leaves offsets, on Spark 4.0 and 4.1."""
        if left:
            logger.warning(
                "the first micro-batch leaves %s behind, because maxOffsetsPerTrigger or maxBytesPerTrigger "
                "is set. On Spark before 4.2, a query with Trigger.AvailableNow has no other micro-batch: "
                "run it again, or remove the limits",
                describe_backlog(left),
            )

    def _is_delayed(self, starts: Offsets, ends: Offsets, min_offsets: int) -> bool:
        now_ms = current_ms()
        is_late = now_ms - self._last_trigger_ms >= self._options.max_delay_ms
        if not is_late and delays_trigger(starts, ends, min_offsets):
            return True
        self._last_trigger_ms = now_ms
        return False

    def _report_loss(self, message: str) -> None:
        if self._options.read.fail_on_data_loss:
            raise DataLossError(f"{message}; set failOnDataLoss=false to continue with what the logs hold")
        logger.warning("%s; the stream continues, because failOnDataLoss=false", message)

    # What Spark calls in the tasks.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._tasks.read(partition)

    def __getstate__(self) -> dict[str, Any]:
        return {"_tasks": self._tasks, "_secrets": self._secrets}
