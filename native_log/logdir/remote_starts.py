"""Where logs begin in remote storage, as the __remote_log_metadata in log directories records it."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from native_log.checkpoints.names import BROKER_TOPICS, REMOTE_LOG_METADATA_TOPIC, PartitionKind
from native_log.checkpoints.partition_metadata import read_topic_id
from native_log.errors import CorruptRecordError, KafkaLogError, error_message
from native_log.lazy import shared_property
from native_log.log import PartitionLog
from native_log.log.sources.directory import DirectorySource
from native_log.messages.reading import MessageError
from native_log.prefetch import map_together
from native_log.storage import LOCAL, path_of
from native_log.workers import map_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from native_log.internal_topics.remote_segments import RemoteSegments
    from native_log.log.tiers.remote_segment import RemotePartition
    from native_log.logdir.discovery import Discovery, PartitionDir
    from native_log.storage import Folder

logger = logging.getLogger(__name__)

_COLLECTED_BYTES = 64 << 20
"""Up to this size, all metadata in a bucket is read at the same time."""

_METADATA_DIRECTORY = re.compile(rf"{REMOTE_LOG_METADATA_TOPIC}-[0-9]+")


class RemoteStarts:
    """The first offsets in remote storage, for logs without an entry in log-start-offset-checkpoint.

    Brokers write that entry for each log with remote storage, but not if they are killed early. The metadata
    is read on first use.
    """

    def __init__(self, log_dirs: Iterable[Folder], discoveries: Iterable[Discovery] = ()) -> None:
        """Take the log directories that may contain partitions of __remote_log_metadata.

        Args:
            log_dirs: the log directories.
            discoveries: what was found at their paths. A log directory among them is not listed again.
        """
        found = {each.log_dir: _metadata_among(each) for each in discoveries if not each.is_partition}
        self._log_dirs = {log_dir: found.get(path_of(log_dir.path)) for log_dir in log_dirs}
        """The partitions of __remote_log_metadata in each log directory; None: not looked up yet."""

    def start_offset(self, directory: PartitionDir) -> int | None:
        """Return the first offset of a partition in remote storage; None if no segment is known there.

        Segments of a deleted topic with the same name do not count: its topic id differs.
        """
        if directory.kind is not PartitionKind.NORMAL or directory.topic in BROKER_TOPICS:
            return None
        starts = self._starts.get(directory.key)
        if starts is None:
            return None
        topic_id = read_topic_id(directory.folder)
        return min(starts.values()) if topic_id is None else starts.get(topic_id)

    @shared_property
    def _starts(self) -> Mapping[tuple[str, int], Mapping[str, int]]:
        """The first offsets by topic id, by (topic, partition)."""
        directories = [
            directory
            for log_dir, found in self._log_dirs.items()
            for directory in (_metadata_directories(log_dir) if found is None else found)
        ]
        return _by_partition(_segments_in(directories).start_offsets()) if directories else {}


def _by_partition(starts: Mapping[RemotePartition, int]) -> dict[tuple[str, int], dict[str, int]]:
    by_partition: dict[tuple[str, int], dict[str, int]] = {}
    for remote, start in starts.items():
        by_partition.setdefault((remote.topic, remote.partition), {})[remote.topic_id] = start
    return by_partition


def is_known_empty(log_dirs: Iterable[Folder]) -> bool:
    """Return whether the metadata in log directories says that nothing is in remote storage.

    Without metadata, that is not known.
    """
    directories = [path for log_dir in log_dirs for path in _metadata_directories(log_dir)]
    return bool(directories) and not _segments_in(directories).start_offsets()


def read_remote_segments(log_dirs: Iterable[Folder]) -> RemoteSegments:
    """Return the segments in remote storage that the metadata in log directories tells of.

    Several brokers can have copies of the same metadata partition. The longest copy is used. Unreadable
    metadata is a warning.
    """
    return _segments_in([path for log_dir in log_dirs for path in _metadata_directories(log_dir)])


def _segments_in(directories: Iterable[Folder]) -> RemoteSegments:
    from native_log.internal_topics.remote_segments import RemoteSegments  # few programs need the schemas

    segments = RemoteSegments()
    folders = list(directories)
    are_local = all(folder.storage is LOCAL for folder in folders)
    logs = _longest_copies(folders, are_local=are_local)
    are_small = sum(log.size_bytes for log in logs) <= _COLLECTED_BYTES
    tables = map_tables(_read, logs, len(logs) if logs and are_small and not are_local else None)
    for log, batches in zip(logs, tables, strict=True):
        with _warns_of_unreadable_metadata():
            _apply_all(segments, log, batches)
    return segments


def _longest_copies(directories: Sequence[Folder], *, are_local: bool) -> list[PartitionLog]:
    """Return the partitions of __remote_log_metadata; of each, the longest copy."""

    def open_log(directory: Folder) -> PartitionLog | None:
        with _warns_of_unreadable_metadata():
            source = DirectorySource.at(directory.path, storage=directory.storage)
            return PartitionLog(source.open())
        return None

    longest: dict[int, PartitionLog] = {}
    for log in map_together(open_log, directories, are_local=are_local):
        if log is None:
            continue
        other = longest.get(log.partition)
        if other is None or log.log_end_offset > other.log_end_offset:
            longest[log.partition] = log
    return list(longest.values())


@contextmanager
def _warns_of_unreadable_metadata() -> Iterator[None]:
    try:
        yield
    except (KafkaLogError, OSError) as error:
        logger.warning(
            "which segments are in remote storage is not fully known, so logs without an entry in "
            "log-start-offset-checkpoint may begin earlier than they seem to: %s",
            error_message(error),
        )


def _metadata_among(discovery: Discovery) -> list[Folder]:
    """Return the partitions of __remote_log_metadata that were found in a log directory."""
    normal = (each for each in discovery.partitions if each.kind is PartitionKind.NORMAL)
    return [each.folder for each in normal if each.topic == REMOTE_LOG_METADATA_TOPIC]


def _metadata_directories(log_dir: Folder) -> list[Folder]:
    """List a log directory. Return the partitions of __remote_log_metadata in it, sorted."""
    try:
        names = log_dir.list()
    except PermissionError:  # of the parent of a partition directory that was given by itself
        return []
    return [log_dir / name for name in sorted(names) if _METADATA_DIRECTORY.fullmatch(name)]


def _read(log: PartitionLog) -> Iterator[pa.RecordBatch | KafkaLogError | OSError]:
    """Yield all records of a partition of __remote_log_metadata, and the error that ends it, if any."""
    try:
        yield from log.range().read(["offset", "value"])
    except (KafkaLogError, OSError) as error:
        yield error


def _apply_all(
    segments: RemoteSegments,
    log: PartitionLog,
    batches: Iterable[pa.RecordBatch | KafkaLogError | OSError],
) -> None:
    """Apply the records of a partition of __remote_log_metadata.

    Raises:
        CorruptRecordError: the log is damaged, or a newer Kafka wrote it.
        KafkaLogError, OSError: the log cannot be read.
    """
    for batch in batches:
        if isinstance(batch, Exception):
            raise batch
        for offset, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            try:
                segments.apply(value or b"")
            except MessageError as error:
                raise CorruptRecordError(
                    f"{error}; was it written by a newer Kafka?", path=log.path, offset=offset
                ) from None
