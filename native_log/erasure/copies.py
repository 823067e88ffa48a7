"""Find other places in log directories that may contain copies of erased records."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import LEADER_EPOCH_CHECKPOINT
from native_log.checkpoints.names import (
    MAX_NAME_LENGTH,
    REMOTE_LOG_METADATA_TOPIC,
    PartitionKind,
    parse_partition_name,
)
from native_log.checkpoints.partition_metadata import PARTITION_METADATA
from native_log.log.replacing.interrupted import STAGING_DIRECTORY
from native_log.logdir.discovery import REMOTE_INDEX_CACHE, ROOT_FILES, PartitionDir
from native_log.prefetch import map_together
from native_log.segment.files import LOG, parse_file_name
from native_log.storage import LOCAL, is_directory, path_of
from native_log.storage.hard_links import other_links
from native_log.storage.writing import removal_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from native_log.logdir import LogDir
    from native_log.logdir.selection import PartitionSelection
    from native_log.storage import Folder, Storage

_STAGING = (STAGING_DIRECTORY, removal_name(Path(STAGING_DIRECTORY)).name)
_OWN_PREFIX = ".kafkalog-"
_FILES_WITHOUT_RECORDS = {*ROOT_FILES, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA}


@dataclass(frozen=True, slots=True)
class PossibleCopy:
    """A directory or file that was not searched and may contain copies.

    Attributes:
        partition: the partition to which it belongs; None if its name does not say.
        reason: why it may contain copies, and what to do.
    """

    partition: PartitionDir | None
    path: Path
    reason: str


def leftovers(directory: Folder) -> list[str]:
    """Return the paths that an erasure removes from a partition directory.

    These are files of segments that left the log or were written to replace others (`.deleted`, `.cleaned`,
    `.swap`), and the staging directories of an interrupted compaction.
    """
    names = directory.list()
    found = [name for name in _STAGING if name in names]
    found += [name for name in names if (file := parse_file_name(name)) is not None and file.state]
    return sorted(f"{directory}/{name}" for name in found)


def find_hard_links(partition: PartitionDir, paths: Iterable[str]) -> Iterator[PossibleCopy]:
    """Yield the files, of those at the given paths, that keep their content under other names.

    Erasure replaces or removes these files. Call this before.
    """
    if partition.storage is not LOCAL:
        return
    for path in paths:
        links, inode = other_links(path)
        if links:
            yield PossibleCopy(
                partition,
                Path(path),
                f"the file has other hard links ({links}), for example in a snapshot made with cp -al or "
                f"rsync --link-dest, which keep the records; find -inum {inode} finds them",
            )


def list_renamed_partitions(log_dir: LogDir) -> list[PartitionDir]:
    """Return the `-delete`, `-stray` and `-future` directories in the log directories."""
    return [
        partition
        for directory in log_dir.directories
        for partition in _split_by_name(_list_entries(directory.folder)[0], directory.storage)[0]
        if partition.kind is not PartitionKind.NORMAL
    ]


def find_possible_copies(
    log_dir: LogDir, searched: Sequence[PartitionDir], selection: PartitionSelection
) -> Iterator[PossibleCopy]:
    """Yield the places in the log directories that may contain copies, except the searched partitions.

    Args:
        log_dir: the log directories.
        searched: the partitions that were searched.
        selection: the topics whose copies are reported.
    """
    keys, paths = {partition.key for partition in searched}, {partition.path for partition in searched}
    for directory in log_dir.directories:
        root = directory.path
        directories, files = _list_entries(directory.folder)
        # If a partition directory was given by its own path, the files next to it are not the user's concern.
        is_whole = root in log_dir.paths
        partitions, others = _split_by_name(
            (path for path in directories if path not in paths), directory.storage
        )
        for partition in partitions:
            if partition.kind is PartitionKind.NORMAL:
                if partition.key in keys:
                    yield PossibleCopy(
                        partition,
                        partition.path,
                        "another directory of the partition; give its own path to erase there",
                    )
            elif _is_relevant(partition, selection) and (is_whole or partition.key in keys):
                yield PossibleCopy(
                    partition,
                    partition.path,
                    f"a -{partition.kind} directory; give its own path to erase there, or remove it",
                )
        if _uses_tiered_storage(partitions, others):
            reason = "the broker used tiered storage; remote segments of these topics may contain copies"
            yield PossibleCopy(None, root, reason)
        if is_whole:
            for path in others:
                if path.name != REMOTE_INDEX_CACHE and path not in log_dir.paths:
                    yield from _unknown_directory(path, directory.storage)
            yield from _unknown_files(None, files, directory.storage)
    checked = map_together(
        lambda partition: list(_check_partition(log_dir, partition)), searched, are_local=log_dir.is_local
    )
    yield from chain.from_iterable(checked)


def _is_relevant(partition: PartitionDir, selection: PartitionSelection) -> bool:
    if selection.includes_topic(partition.topic):
        return True
    # A broker truncates the topic in the name of a directory that would be too long.
    is_truncated = len(partition.path.name) >= MAX_NAME_LENGTH
    topics = (selection.topics or frozenset()) - selection.excluded
    return is_truncated and any(topic.startswith(partition.topic) for topic in topics)


def _split_by_name(directories: Iterable[Path], storage: Storage) -> tuple[list[PartitionDir], list[Path]]:
    """Return the partition directories, recognized by their names, and the other directories."""
    partitions, others = [], []
    for path in directories:
        name = parse_partition_name(path.name)
        if name is None:
            others.append(path)
        else:
            partitions.append(PartitionDir.from_name(path, name, storage))
    return partitions, others


def _uses_tiered_storage(partitions: Iterable[PartitionDir], others: Iterable[Path]) -> bool:
    return any(partition.topic == REMOTE_LOG_METADATA_TOPIC for partition in partitions) or any(
        path.name == REMOTE_INDEX_CACHE for path in others
    )


def _check_partition(log_dir: LogDir, partition: PartitionDir) -> Iterator[PossibleCopy]:
    try:
        directories, files = _list_entries(partition.folder)
    except FileNotFoundError:
        if partition.folder.was_removed():
            return
        raise
    for path in directories:
        if path.name not in _STAGING:
            yield PossibleCopy(
                partition, path, "a directory inside a partition directory, as an unfinished write leaves it"
            )
    yield from _unknown_files(partition, files, partition.storage)
    start, first = log_dir.checkpoints(partition).log_start_offset, _first_offset(files)
    if start is not None and first is not None and start < first:
        reason = (
            f"the log starts at offset {start}, its local files at {first}; earlier segments may be in "
            "tiered storage"
        )
        yield PossibleCopy(partition, partition.path, reason)


def _unknown_directory(path: Path, storage: Storage) -> Iterator[PossibleCopy]:
    try:
        if storage.list(str(path)):
            yield PossibleCopy(None, path, "not a partition directory; check what it contains")
    except OSError as error:
        yield PossibleCopy(None, path, f"it cannot be listed: {error.strerror}")


def _unknown_files(
    partition: PartitionDir | None, files: Iterable[Path], storage: Storage
) -> Iterator[PossibleCopy]:
    for path in files:
        name = path.name.removesuffix(".tmp")
        is_known = (
            name in _FILES_WITHOUT_RECORDS
            or name.startswith(_OWN_PREFIX)
            or parse_file_name(name) is not None
        )
        if not is_known and _has_bytes(path, storage):
            yield PossibleCopy(partition, path, "not one of Kafka's files; check what it contains")


def _has_bytes(path: Path, storage: Storage) -> bool:
    try:
        return storage.list(str(path.parent))[path.name].stat().st_size > 0
    except KeyError:
        return False
    except OSError as error:  # a symbolic link without a target, or to itself
        return error.errno not in (errno.ENOENT, errno.ELOOP)


def _first_offset(paths: Iterable[Path]) -> int | None:
    files = (parse_file_name(path.name) for path in paths)
    return min((f.offset for f in files if f is not None and f.kind == LOG and not f.state), default=None)


def _list_entries(directory: Folder) -> tuple[list[Path], list[Path]]:
    """Return the directories and the files in a directory, sorted by name."""
    path = path_of(directory.path)
    names = sorted((name, is_directory(entry)) for name, entry in directory.list().items())
    directories = [path / name for name, is_directory in names if is_directory]
    return directories, [path / name for name, is_directory in names if not is_directory]
