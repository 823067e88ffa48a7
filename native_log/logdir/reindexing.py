"""Indexes made anew from the logs themselves."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.arguments import path_list
from native_log.checkpoints.write_session import WriteSession
from native_log.config import LogConfig
from native_log.errors import KafkaLogError, LogNeedsRecoveryError
from native_log.log.listing import list_log
from native_log.log.producers.producer_states import newest_snapshot, read_batch
from native_log.logdir.discovery import PartitionDir, find_partitions, local_path
from native_log.logdir.recovery import recoverable_partitions
from native_log.records import MAX_BATCH_BYTES
from native_log.segment.rebuild import rebuild
from native_log.system import available_cores

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from native_log.segment.transaction_index import AbortedTxn
    from native_log.storage import DataFile


@dataclass(frozen=True, slots=True)
class PartitionReindexing:
    """What became of a partition.

    Attributes:
        segments: how many of its segments were indexed.
        changed: of how many of them the indexes on disk were different, or missing.
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
"""One row a partition, in the directory `path`: `segments` of it were indexed (in a dry run: would be), of
which `changedSegments` had other indexes, or none. `status` is "reindexed", or "failed" where a segment could
not be indexed as a whole; then `reason` says why, `path` is the file, `position` and `offset` where in it."""


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
    """Make `.index`, `.timeindex` and `.txnindex` of every segment anew, as a broker's recovery makes them.

    No .log is changed. A damaged log is indexed up to the damage; that does not stop the
    others.

    Args:
        path: log directories, or single partition directories. No broker may run on them.
        topics: only these; None: all but the controllers' log.
        dry_run: write nothing and take no lock, only compare.
        exclude_topics: not these.
        config: settings by Kafka's names: index.interval.bytes. See LogConfig.
        threads: how many logs at a time; by default one for each CPU.
        on_partition: called after each partition, in their order.

    Returns:
        One row a partition, as REINDEX_SCHEMA, sorted by topic and partition.

    Raises:
        LogDirInUseError: a broker, or another process, works in the directory, or this very one does.
        UnknownTopicOrPartitionError, FileNotFoundError, PermissionError, NotALogDirError, OSError.
    """
    locations = [local_path(one) for one in path_list(path)]
    settings = LogConfig.parse(config or {})
    done = []
    with ExitStack() as locks:
        if not dry_run:
            for log_dir in dict.fromkeys(find_partitions(location).log_dir for location in locations):
                locks.enter_context(WriteSession.exclusive(log_dir))
        wanted = recoverable_partitions([find_partitions(one) for one in locations], topics, exclude_topics)
        pool = ThreadPoolExecutor(threads or available_cores(), "log-reindexing")
        try:
            for result in pool.map(partial(_reindexed, config=settings, dry_run=dry_run), wanted):
                on_partition(result)
                done.append(result)
        finally:
            pool.shutdown(cancel_futures=True)
    return pa.Table.from_pylist(list(map(_row, done)), schema=REINDEX_SCHEMA)


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
        row |= {"status": "failed", "reason": str(done.error)}
    if isinstance(done.error, KafkaLogError):
        row |= {"reason": done.error.message, "position": done.error.position, "offset": done.error.offset}
        row["path"] = done.error.path or row["path"]
    return row


def _reindexed(partition: PartitionDir, config: LogConfig, dry_run: bool) -> PartitionReindexing:
    indexed = changed = 0
    try:
        listing = list_log(str(partition.path), MAX_BATCH_BYTES)
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
                    f"{checked.damage.message}; only what lies before can be indexed. Run kafkalog recover "
                    "on the log directory to cut the log here, or take the file from another replica",
                    path=segment.path,
                    position=checked.valid_bytes,
                    offset=checked.next_offset,
                )
            indexed += 1
    except (KafkaLogError, OSError) as error:
        return PartitionReindexing(partition, indexed, changed, error)
    return PartitionReindexing(partition, indexed, changed)
