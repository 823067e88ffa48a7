"""The views: what lies in the log directories, one row a batch, segment, partition or transaction.

The driver only finds the partitions; the tasks look into them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafkalog_spark.errors import OptionError, visibility_check
from kafkalog_spark.partitions import OpenablePartition
from kafkalog_spark.read.batch import joined
from kafkalog_spark.read.offsets import Earliest, Latest
from kafkalog_spark.read.plan import open_log_dir, selected
from kafkalog_spark.read.splits import FILE_COST_BYTES, PACK_BYTES, pack
from kafkalog_spark.schema import Projection
from kafkalog_spark.views.schemas import BATCHES, LOCATION, POLICY_COLUMNS, TIMESTAMP, TRANSACTIONS, VIEWS
from native_log.policies import described

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from kafkalog_spark.options.read import ReadOptions
    from native_log.log import PartitionLog
    from native_log.policies import TopicFacts


@dataclass(frozen=True)
class PartitionDirectories(InputPartition):
    """What one task looks into."""

    directories: tuple[OpenablePartition, ...]


class ViewReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        if options.start != Earliest() or options.end != Latest():
            raise OptionError(
                f"view={options.view} shows whole partitions: leave starting and ending options out"
            )
        self._options = options
        self._projection = Projection.of(schema, VIEWS[options.view])

    def partitions(self) -> Sequence[InputPartition]:
        log_dir = open_log_dir(self._options)
        logs = [log_dir.partition(*tp) for tp in selected(self._options, log_dir)]
        is_policy_asked = not POLICY_COLUMNS.isdisjoint(self._projection.columns)
        asked = log_dir.partitions() if is_policy_asked else ()
        facts = {one.key: log_dir.topic_facts(one) for one in asked}
        tasks = pack(logs, lambda log: log.size_bytes + FILE_COST_BYTES * len(log.segments), PACK_BYTES)
        return [
            PartitionDirectories(
                tuple(
                    OpenablePartition(
                        str(log.path),
                        log.topic,
                        log.partition,
                        log.checkpoints,
                        log.max_batch_bytes,
                        facts.get((log.topic, log.partition)),
                    )
                    for log in task
                )
            )
            for task in tasks
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        directories = partition.directories if isinstance(partition, PartitionDirectories) else ()
        columns = self._projection.columns
        rows = (
            batch.select(columns)
            for directory in directories
            for batch in _rows(directory, self._options, columns)
        )
        return map(self._projection.apply, joined(rows) if columns else rows)


def _rows(
    directory: OpenablePartition, options: ReadOptions, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    with visibility_check(directory.path):
        yield from _of_view(directory.open(), directory.facts, options, columns)


def _of_view(
    log: PartitionLog, facts: TopicFacts | None, options: ReadOptions, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    if options.view == "batches":
        yield from _batches(log, options, check_crcs=options.check_crcs and "isValid" in columns)
    elif options.view == "transactions":
        for batch in log.transactions(mode=options.mode).to_batches():
            yield _located(batch, log, TRANSACTIONS)
    else:
        rows = (
            _segments(log, options)
            if options.view == "segments"
            else [_partition(log, facts, options, columns)]
        )
        yield _located(pa.RecordBatch.from_pylist(rows, schema=_without(VIEWS[options.view])), log)


def _batches(log: PartitionLog, options: ReadOptions, *, check_crcs: bool) -> Iterator[pa.RecordBatch]:
    for batch in log.batches(check_crcs=check_crcs, mode=options.mode):
        yield _located(batch, log, BATCHES)


def _segments(log: PartitionLog, options: ReadOptions) -> list[dict[str, Any]]:
    headers: dict[str, list[pa.RecordBatch]] = {segment.log: [] for segment in log.segments}
    for batch in log.batches(mode=options.mode):
        headers[batch.column("segment")[0].as_py()].append(
            batch.select(["baseOffset", "lastOffset", "recordCount", "maxTimestamp"])
        )
    rows = []
    for segment in log.segments:
        offset_index = segment.load_offset_index().health(log.end_position(segment))
        time_index = segment.load_time_index().health()
        transaction_index = segment.load_transaction_index().health
        rows.append(
            {
                "segment": segment.log,
                "path": str(segment.path),
                "baseOffset": segment.base_offset,
                "sizeInBytes": segment.size_bytes,
                "validBytes": log.end_position(segment),
                "invalidBytes": log.invalid_bytes if segment is log.segments[-1] else 0,
                "modified": segment.mtime_ms * 1000,
                "offsetIndex": offset_index.status,
                "offsetIndexEntries": offset_index.entries,
                "timeIndex": time_index.status,
                "timeIndexEntries": time_index.entries,
                "transactionIndex": transaction_index.status,
                "transactionIndexEntries": transaction_index.entries,
                **_summary(headers[segment.log]),
            }
        )
    return rows


def _summary(headers: list[pa.RecordBatch]) -> dict[str, Any]:
    if not headers:
        return {"batchCount": 0, "recordCount": 0}
    table = pa.Table.from_batches(headers)
    return {
        "firstOffset": table.column("baseOffset")[0].as_py(),
        "lastOffset": pc.max(table.column("lastOffset")).as_py(),
        "batchCount": table.num_rows,
        "recordCount": pc.sum(table.column("recordCount"), skip_nulls=False).as_py(),
        "maxTimestamp": pc.max(_times(table.column("maxTimestamp"))).as_py(),
    }


def _partition(
    log: PartitionLog, facts: TopicFacts | None, options: ReadOptions, columns: Sequence[str]
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "path": str(log.path),
        "topicId": log.topic_id,
        "logStartOffset": log.log_start_offset,
        "localLogStartOffset": log.local_log_start_offset,
        "logEndOffset": log.log_end_offset,
        "highWatermark": log.high_watermark,
        "segmentCount": len(log.segments),
        "sizeInBytes": log.size_bytes,
        "invalidBytes": log.invalid_bytes,
        "leaderEpochs": [
            {"epoch": entry.epoch, "startOffset": entry.start_offset} for entry in log.leader_epochs
        ],
    }
    if facts is not None:
        row["cleanupPolicy"], row["policySource"] = described(facts)
        row["config"] = None if facts.stored is None else sorted(facts.stored.items())
    # These take a pass over the headers.
    if "lastStableOffset" in columns:
        row["lastStableOffset"] = log.last_stable_offset
    if "maxTimestamp" in columns:
        greatest = [pc.max(b.column("maxTimestamp")) for b in log.batches(mode=options.mode)]
        if greatest:
            row["maxTimestamp"] = _times(pc.max(pa.array([g.as_py() for g in greatest], pa.int64()))).as_py()
    return row


def _times(epoch_ms: Any) -> Any:
    """Epoch ms as timestamps. A batch without timestamps (-1) has none."""
    known = pc.if_else(pc.greater_equal(epoch_ms, 0), epoch_ms, pa.scalar(None, pa.int64()))
    return pc.cast(pc.cast(known, pa.timestamp("ms", tz="UTC")), TIMESTAMP)


def _without(schema: pa.Schema) -> pa.Schema:
    return pa.schema(list(schema)[len(LOCATION) :])


def _located(batch: pa.RecordBatch, log: PartitionLog, schema: pa.Schema | None = None) -> pa.RecordBatch:
    """The batch with its topic and partition, its columns in the order and of the types of the schema."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["topic"] = pa.repeat(pa.scalar(log.topic, pa.string()), batch.num_rows)
    columns["partition"] = pa.repeat(pa.scalar(log.partition, pa.int32()), batch.num_rows)
    schema = schema or pa.schema([*LOCATION, *batch.schema])
    arrays = [
        _times(columns[f.name])
        if f.type == TIMESTAMP and pa.types.is_integer(columns[f.name].type)
        else columns[f.name]
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
