"""Indexes made anew from the logs themselves."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
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
    """A partition, how many of its segments were indexed, and why the others were not, if they were not."""

    partition: PartitionDir
    segments: int
    error: KafkaLogError | OSError | None = None


def reindex(
    path: str | os.PathLike[str],
    topics: str | Iterable[str] | None = None,
    *,
    config: Mapping[str, object] | None = None,
    threads: int | None = None,
    on_partition: Callable[[PartitionReindexing], None] = lambda _: None,
) -> list[PartitionReindexing]:
    """Make `.index`, `.timeindex` and `.txnindex` of every segment anew, as a broker's recovery makes them.

    No .log is changed. A damaged log is indexed up to the damage; that is its `error`, a
    LogNeedsRecoveryError, and does not stop the others.

    Args:
        topics: only these.
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
    with WriteSession.alone(find_partitions(location).log_dir):
        pool = ThreadPoolExecutor(threads or os.cpu_count(), "log-reindexing")
        try:
            wanted = recoverable(find_partitions(location), topics)
            for result in pool.map(partial(_reindexed, config=settings), wanted):
                on_partition(result)
                done.append(result)
        finally:
            pool.shutdown(cancel_futures=True)
    return done


def _reindexed(partition: PartitionDir, config: LogConfig) -> PartitionReindexing:
    indexed = 0
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
            indexes.write(segment, aborted)
            if checked.damage is not None:
                raise LogNeedsRecoveryError(
                    f"{checked.damage.message}; what lies before was indexed. Run kafkalog recover on the "
                    "log directory to cut the log here, or take the file from another replica",
                    path=segment.path,
                    position=checked.valid_bytes,
                    offset=checked.next_offset,
                )
            indexed += 1
    except (KafkaLogError, OSError) as error:
        return PartitionReindexing(partition, indexed, error)
    return PartitionReindexing(partition, indexed)
