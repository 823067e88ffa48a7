"""Rebuild the indexes of segments from their batches."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.arguments import optional_count, path_list
from native_log.checkpoints.write_session import WriteSession
from native_log.config import LogConfig
from native_log.errors import KafkaLogError, LogNeedsRecoveryError, error_message
from native_log.log.listing import list_log
from native_log.log.producers.producer_states import newest_snapshot, read_batch
from native_log.logdir.discovery import PartitionDir, find_partitions, local_path
from native_log.logdir.known_topics import KnownTopics
from native_log.logdir.recovery import recoverable_partitions
from native_log.logdir.unfinished_writes import before_unfinished_writes
from native_log.outcomes import as_planned
from native_log.records import MAX_BATCH_BYTES
from native_log.segment.rebuild import rebuild
from native_log.system import available_cores
from native_log.workers import worker_threads

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from native_log.checkpoints.partition_checkpoints import EndBeforeWrite
    from native_log.segment.transaction_index import AbortedTxn
    from native_log.storage import DataFile


@dataclass(frozen=True, slots=True)
class PartitionReindexing:
    """The result of reindexing a partition.

    Attributes:
        partition: the partition directory.
        segments: the number of segments that were indexed.
        changed: the number of segments whose indexes on disk were different or missing.
        error: why the other segments were not indexed; None if all were.
    """

    partition: PartitionDir
    segments: int
    changed: int = 0
    error: KafkaLogError | OSError | None = None


REINDEX_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "path": pa.string(),
        "status": pa.string(),
        "segments": pa.int64(),
        "changedSegments": pa.int64(),
        "position": pa.int64(),
        "offset": pa.int64(),
        "reason": pa.string(),
    }
)
"""One row for each partition. In a dry run, the columns say what would be done.

- `path`: the partition directory or, if the status is "failed", the file;
- `status`: "reindexed" (in a dry run: "would be reindexed"), or "failed" if a segment could not be indexed
  completely;
- `segments`: the number of segments that were indexed;
- `changedSegments`: how many of them had different or missing indexes;
- `position`, `offset`, `reason`: where and why it failed, or null.
"""


def reindex(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    topics: str | Iterable[str] | None = None,
    *,
    dry_run: bool = False,
    exclude_topics: str | Iterable[str] = (),
    config: Mapping[str, object] | None = None,
    threads: int | None = None,
    on_partition: Callable[[PartitionReindexing], None] = lambda _: None,
) -> pa.Table:
    """Rebuild `.index`, `.timeindex` and `.txnindex` of every segment, as a broker's recovery does.

    No .log file is changed. A damaged log is indexed up to the damage, and other logs completely.

    Args:
        path: log directories or partition directories. No broker may run on them.
        topics: reindex only these; None: all but `__cluster_metadata`.
        dry_run: only compare: write nothing and take no lock.
        exclude_topics: skip these.
        config: settings by Kafka's names. index.interval.bytes is used; by default the one that is stored for
            the topic. See LogConfig.
        threads: the number of logs to reindex at a time; by default one for each CPU.
        on_partition: called after each partition, in the order of the rows.

    Returns:
        A table of REINDEX_SCHEMA with one row for each partition, sorted by topic and partition.

    Raises:
        LogDirInUseError: a broker, another process or this process writes to the directory.
        UnknownTopicOrPartitionError, FileNotFoundError, PermissionError, NotALogDirError, OSError.
    """
    locations = [local_path(location) for location in path_list(path)]
    threads = optional_count("threads", threads) or available_cores()
    LogConfig.parse(config or {})  # check it before any lock is taken
    done = []
    with ExitStack() as locks:
        if not dry_run:
            for log_dir in dict.fromkeys(find_partitions(location).log_dir for location in locations):
                locks.enter_context(WriteSession.exclusive(log_dir))
        discoveries = [find_partitions(location) for location in locations]
        partitions = recoverable_partitions(discoveries, topics, exclude_topics)
        known = KnownTopics.read(dict.fromkeys(discovery.log_dir for discovery in discoveries))
        ends = before_unfinished_writes(partitions) if dry_run else dict.fromkeys(partitions)
        configs = [known.valid_settings(partition, config or {}) for partition in ends]
        with worker_threads(threads, "log-reindexing") as pool:
            for result in pool.map(partial(_reindex, dry_run=dry_run), ends, ends.values(), configs):
                on_partition(result)
                done.append(result)
    report = pa.Table.from_pylist(list(map(_row, done)), schema=REINDEX_SCHEMA)
    return as_planned(report, "status", ("reindexed",)) if dry_run else report


def _row(done: PartitionReindexing) -> dict[str, object]:
    row: dict[str, object] = {
        "topic": done.partition.topic,
        "partition": done.partition.partition,
        "path": str(done.partition.path),
        "status": "reindexed",
        "segments": done.segments,
        "changedSegments": done.changed,
    }
    if done.error is not None:
        row |= {"status": "failed", "reason": error_message(done.error)}
    if isinstance(done.error, KafkaLogError):
        row |= {"reason": done.error.message, "position": done.error.position, "offset": done.error.offset}
        row["path"] = done.error.path or row["path"]
    return row


def _reindex(
    partition: PartitionDir, before_write: EndBeforeWrite | None, config: LogConfig, *, dry_run: bool
) -> PartitionReindexing:
    indexed = changed = 0
    try:
        listing = list_log(str(partition.path), MAX_BATCH_BYTES).before_write(before_write)
        base = listing.segments[0].base_offset if listing.segments else 0
        states = newest_snapshot(partition.path, listing.snapshots, base, base)
        aborted: list[AbortedTxn] = []

        def take(file: DataFile, batches: pa.RecordBatch) -> None:
            aborted.extend(states.apply(batches, partial(read_batch, file)))

        for segment in listing.segments:
            aborted.clear()
            checked, indexes = rebuild(segment, config.index_interval_bytes, take)
            changed += indexes.differs(segment, aborted)
            if not dry_run:
                indexes.write(segment, aborted)
            if checked.damage is not None:
                raise LogNeedsRecoveryError(
                    f"{checked.damage.message}; only batches before the damage can be indexed; run kafkalog "
                    "recover on the log directory to truncate the log here, or take the file from another "
                    "replica",
                    path=segment.path,
                    position=checked.valid_bytes,
                    offset=checked.next_offset,
                )
            indexed += 1
    except (KafkaLogError, OSError) as error:
        return PartitionReindexing(partition, indexed, changed, error)
    return PartitionReindexing(partition, indexed, changed)
