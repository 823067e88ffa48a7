"""Indexes made anew from the logs themselves."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from native_log.config import LogConfig
from native_log.errors import KafkaLogError, LogNeedsRecoveryError
from native_log.log.listing import list_log
from native_log.log.producers.producer_states import newest_snapshot, read_batch
from native_log.logdir.discovery import PartitionDir, find_partitions, local_path
from native_log.logdir.recovery import recoverable
from native_log.logdir.session import WriteSession
from native_log.records import MAX_BATCH_BYTES
from native_log.segment.rebuild import rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa

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


def reindex(
    path: str | os.PathLike[str],
    topics: str | Iterable[str] | None = None,
    *,
    dry_run: bool = False,
    exclude_topics: str | Iterable[str] = (),
    config: Mapping[str, object] | None = None,
    threads: int | None = None,
    on_partition: Callable[[PartitionReindexing], None] = lambda _: None,
) -> list[PartitionReindexing]:
    """Make `.index`, `.timeindex` and `.txnindex` of every segment anew, as a broker's recovery makes them.

    No .log is changed. A damaged log is indexed up to the damage; that is its `error`, a
    LogNeedsRecoveryError, and does not stop the others.

    Args:
        topics: only these.
        dry_run: write nothing and take no lock, only compare.
        exclude_topics: not these.
        config: settings by Kafka's names: index.interval.bytes. See LogConfig.
        threads: how many logs at a time; by default one for each CPU.
        on_partition: called after each partition, in their order.

    Raises:
        LogDirInUseError: a broker, or another process, works in the directory, or this very one does.
        UnknownTopicOrPartitionError, FileNotFoundError, PermissionError, NotALogDirError, OSError.
    """
    location = local_path(path)
    settings = LogConfig.parse(config or {})
    done = []
    with nullcontext() if dry_run else WriteSession.alone(find_partitions(location).log_dir):
        pool = ThreadPoolExecutor(threads or os.cpu_count(), "log-reindexing")
        try:
            wanted = recoverable(find_partitions(location), topics, exclude_topics)
            for result in pool.map(partial(_reindexed, config=settings, dry_run=dry_run), wanted):
                on_partition(result)
                done.append(result)
        finally:
            pool.shutdown(cancel_futures=True)
    return done


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
