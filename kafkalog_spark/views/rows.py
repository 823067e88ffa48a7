"""The rows of the metadata views, for one partition at a time.

pyarrow.compute is imported where it is used: the option parser imports this module, and that import is slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkalog_spark.views.schemas import BATCHES, LOCATION, PARTITIONS, SEGMENTS, TIMESTAMP, TRANSACTIONS
from native_log.log.changing_files import retry_changed
from native_log.log.tiers.tier_of_segments import LOCAL, REMOTE, remote_segments
from native_log.policies import describe_policy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from native_log.arguments import Mode
    from native_log.log import PartitionLog
    from native_log.policies import TopicFacts


@dataclass(frozen=True, slots=True)
class PartitionScan:
    """A partition to show in a view.

    Attributes:
        facts: what is known about the topic's configuration; None: not requested.
        columns: the columns that the query reads. Others may be left null if they are expensive.
        mode: what to do with damaged batches.
        check_crcs: whether `isValid` is determined if it is among `columns`.
    """

    log: PartitionLog
    facts: TopicFacts | None
    columns: Collection[str]
    mode: Mode
    check_crcs: bool


def batch_rows(scan: PartitionScan) -> Iterator[pa.RecordBatch]:
    """Return one row for each batch, as BATCHES."""
    check_crcs = scan.check_crcs and "isValid" in scan.columns
    for batch in scan.log.batches(check_crcs=check_crcs, mode=scan.mode):
        yield _add_location(batch, scan.log, BATCHES)


def transaction_rows(scan: PartitionScan) -> Iterator[pa.RecordBatch]:
    """Return one row for each transaction, as TRANSACTIONS."""
    for batch in scan.log.transactions(mode=scan.mode).to_batches():
        yield _add_location(batch, scan.log, TRANSACTIONS)


def segment_rows(scan: PartitionScan) -> Iterator[pa.RecordBatch]:
    """Return one row for each segment, as SEGMENTS."""
    log, mode = scan.log, scan.mode
    yield retry_changed(lambda: _segments(log.reopen(), mode), first=lambda: _segments(log, mode))


def _segments(log: PartitionLog, mode: Mode) -> pa.RecordBatch:
    segments = {segment.path: segment for segment in log.segments}
    headers: dict[Path, list[pa.RecordBatch]] = {}
    for segment, batches in log.headers(mode=mode):
        segments.setdefault(segment.path, segment)  # of a merged log, one that replaces damaged batches
        headers.setdefault(segment.path, []).append(
            batches.select(["baseOffset", "lastOffset", "recordCount", "maxTimestamp"])
        )
    rows, remote = [], remote_segments(log.state.source)
    for segment in sorted(segments.values(), key=lambda segment: segment.base_offset):
        end = log.state.end_position(segment) if segment in log.segments else segment.size_bytes
        offset_index = segment.load_offset_index().health(end)
        time_index = segment.load_time_index().health()
        transaction_index = segment.load_transaction_index().health
        rows.append(
            {
                "segment": segment.log,
                "path": str(segment.path),
                "baseOffset": segment.base_offset,
                "sizeInBytes": segment.size_bytes,
                "validBytes": end,
                "invalidBytes": log.invalid_bytes if segment is log.segments[-1] else 0,
                "modified": segment.mtime_ms * 1000,
                "offsetIndex": offset_index.status,
                "offsetIndexEntries": offset_index.entries,
                "timeIndex": time_index.status,
                "timeIndexEntries": time_index.entries,
                "transactionIndex": transaction_index.status,
                "transactionIndexEntries": transaction_index.entries,
                "tier": REMOTE if segment.path in remote else LOCAL,
                **_summarize(headers.get(segment.path, [])),
            }
        )
    return _from_rows(rows, log, SEGMENTS)


def partition_rows(scan: PartitionScan) -> Iterator[pa.RecordBatch]:
    """Return one row, as PARTITIONS."""
    log, facts = scan.log, scan.facts
    row: dict[str, Any] = {
        "path": str(log.path),
        "topicId": log.topic_id,
        "logStartOffset": log.log_start_offset,
        "localLogStartOffset": log.local_log_start_offset,
        "logEndOffset": log.log_end_offset,
        "highWatermark": log.checkpointed_high_watermark,
        "segmentCount": len(log.segments),
        "sizeInBytes": log.size_bytes,
        "invalidBytes": log.invalid_bytes,
        "remoteSegmentCount": len(remote_segments(log.state.source)),
        "leaderEpochs": [
            {"epoch": entry.epoch, "startOffset": entry.start_offset} for entry in log.leader_epochs
        ],
    }
    if facts is not None:
        row["cleanupPolicy"], row["policySource"] = describe_policy(facts)
        row["config"] = None if facts.stored is None else sorted(facts.stored.items())
    # The two columns below require a scan of the batch headers.
    if "lastStableOffset" in scan.columns:
        row["lastStableOffset"] = log.last_stable_offset
    if "maxTimestamp" in scan.columns:
        row["maxTimestamp"] = _max_timestamp(log, scan.mode)
    yield _from_rows([row], log, PARTITIONS)


def _summarize(headers: list[pa.RecordBatch]) -> dict[str, Any]:
    import pyarrow.compute as pc

    if not headers:
        return {"batchCount": 0, "recordCount": 0}
    table = pa.Table.from_batches(headers)
    return {
        "firstOffset": table.column("baseOffset")[0].as_py(),
        "lastOffset": pc.max(table.column("lastOffset")).as_py(),
        "batchCount": table.num_rows,
        "recordCount": pc.sum(table.column("recordCount"), skip_nulls=False).as_py(),
        "maxTimestamp": pc.max(_to_timestamps(table.column("maxTimestamp"))).as_py(),
    }


def _max_timestamp(log: PartitionLog, mode: Mode) -> Any:
    import pyarrow.compute as pc

    epoch_ms = [pc.max(batch.column("maxTimestamp")).as_py() for batch in log.batches(mode=mode)]
    return _to_timestamps(pc.max(pa.array(epoch_ms, pa.int64()))).as_py() if epoch_ms else None


def _to_timestamps(epoch_ms: Any) -> Any:
    """Convert epoch ms to timestamps. Negative values become null: a batch without timestamps has -1."""
    import pyarrow.compute as pc

    known = pc.if_else(pc.greater_equal(epoch_ms, 0), epoch_ms, pa.scalar(None, pa.int64()))
    return pc.cast(pc.cast(known, pa.timestamp("ms", tz="UTC")), TIMESTAMP)


def _from_rows(rows: list[dict[str, Any]], log: PartitionLog, schema: pa.Schema) -> pa.RecordBatch:
    without_location = pa.schema(list(schema)[len(LOCATION) :])
    return _add_location(pa.RecordBatch.from_pylist(rows, schema=without_location), log, schema)


def _add_location(batch: pa.RecordBatch, log: PartitionLog, schema: pa.Schema) -> pa.RecordBatch:
    """Add topic and partition, put the columns in the order of `schema`, and convert its timestamps."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["topic"] = pa.repeat(pa.scalar(log.topic, pa.string()), batch.num_rows)
    columns["partition"] = pa.repeat(pa.scalar(log.partition, pa.int32()), batch.num_rows)
    arrays = [
        _to_timestamps(columns[f.name])
        if f.type == TIMESTAMP and pa.types.is_integer(columns[f.name].type)
        else columns[f.name]
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
