"""Indexes made anew from the logs themselves."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from native_log.config import LogConfig
from native_log.errors import LogNeedsRecoveryError
from native_log.log.listing import list_log
from native_log.log.producers import ProducerStates
from native_log.logdir.discovery import PartitionDir, find_partitions, local_path
from native_log.logdir.lock import LogDirLock
from native_log.logdir.names import PartitionKind
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.segment.files import INDEX, TIME_INDEX, TRANSACTION_INDEX, file_name
from native_log.segment.rebuild import rebuild
from native_log.segment.writer import transaction_index_bytes
from native_log.storage.writing import remove_file, replace_file

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterator

    import pyarrow as pa

    from native_log.segment.transaction_index import AbortedTxn
    from native_log.storage import DataFile


def reindex(
    path: str | os.PathLike[str], topics: Collection[str] | None = None, *, config: LogConfig | None = None
) -> Iterator[tuple[PartitionDir, int]]:
    """Make `.index`, `.timeindex` and `.txnindex` of every segment anew, as a broker's recovery makes them.

    No .log is changed. Yields each partition with the number of its segments.

    Args:
        topics: only these.

    Raises:
        LogNeedsRecoveryError: a log is damaged; its indexes up to there were made.
        LogDirInUseError: a broker, or another process, works in the directory.
    """
    found = find_partitions(local_path(path))
    with LogDirLock(found.log_dir):
        for one in found.partitions:
            if one.kind is PartitionKind.NORMAL and (topics is None or one.topic in topics):
                yield one, _reindexed(one, config or LogConfig())


def _reindexed(partition: PartitionDir, config: LogConfig) -> int:
    states = ProducerStates()
    aborted: list[AbortedTxn] = []
    segments = list_log(str(partition.path), DEFAULT_MAX_BATCH_BYTES).segments

    def take(file: DataFile, batches: pa.RecordBatch) -> None:
        aborted.extend(states.apply(batches, partial(_read, file)))

    for segment in segments:
        aborted.clear()
        one = rebuild(segment, config.index_interval_bytes, take)
        base = segment.base_offset
        replace_file(partition.path / file_name(base, INDEX), one.offset_index)
        replace_file(partition.path / file_name(base, TIME_INDEX), one.time_index)
        transactions = partition.path / file_name(base, TRANSACTION_INDEX)
        if aborted:
            replace_file(transactions, transaction_index_bytes(aborted))
        else:
            remove_file(transactions)
        if one.truncated_bytes:
            reason = one.damage.message if one.damage else "less than a batch is left at the end"
            raise LogNeedsRecoveryError(
                f"{reason}; what lies before was indexed. Run kafkalog recover on the log directory to cut "
                "the log here, or take the file from another replica",
                path=segment.path,
                position=one.valid_bytes,
                offset=one.next_offset,
            )
    return len(segments)


def _read(file: DataFile, position: int, size_bytes: int) -> memoryview:
    return memoryview(file.read(position, size_bytes))
