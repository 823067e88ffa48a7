"""Where else in log directories copies of erased records may lie."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import LEADER_EPOCH_CHECKPOINT
from native_log.checkpoints.names import BROKER_TOPICS, MAX_NAME_LENGTH, PartitionKind, parse_partition_name
from native_log.checkpoints.partition_metadata import PARTITION_METADATA
from native_log.log.replacing.interrupted import STAGING_DIRECTORY
from native_log.logdir.discovery import REMOTE_INDEX_CACHE, ROOT_FILES, PartitionDir
from native_log.segment.files import LOG, parse_file_name
from native_log.storage import is_directory
from native_log.storage.writing import gone_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from native_log.logdir import LogDir

_REMOTE_LOG_METADATA = "__remote_log_metadata"
_OWN_FILES = ".kafkalog-"
_NO_RECORDS = {*ROOT_FILES, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA}


@dataclass(frozen=True, slots=True)
class PossibleCopy:
    """A directory or file that was not searched.

    Attributes:
        partition: the partition it belongs to; None if the name does not tell.
        reason: why it may hold copies, and what to do.
    """

    partition: PartitionDir | None
    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """The topics whose copies matter.

    Attributes:
        topics: None: all but Kafka's internal ones.
        excluded: left out in any case.
    """

    topics: frozenset[str] | None
    excluded: frozenset[str]

    def holds(self, one: PartitionDir) -> bool:
        if one.topic in self.excluded:
            return False
        if self.topics is None:
            return one.topic not in BROKER_TOPICS
        # The directory's name may have only the beginning of the topic's.
        is_cut = len(one.path.name) >= MAX_NAME_LENGTH
        return one.topic in self.topics or (is_cut and any(t.startswith(one.topic) for t in self.topics))


def leftovers(directory: Path) -> list[str]:
    """Return what is removed from a partition's directory: files of segments that left the log or were to
    replace others (`.deleted`, `.cleaned`, `.swap`), and what an interrupted compaction staged."""
    staging = directory / STAGING_DIRECTORY
    found = [str(folder) for folder in (staging, gone_name(staging)) if folder.exists()]
    with os.scandir(directory) as entries:
        files = [parse_file_name(entry.name) for entry in entries]
    return sorted(found + [str(directory / file.name) for file in files if file is not None and file.state])


def set_aside(log_dir: LogDir) -> list[PartitionDir]:
    """Return the `-delete`, `-stray` and `-future` directories in the log directories."""
    return [
        one
        for directory in log_dir.directories
        for one in _by_name(_entries(directory.path)[0])[0]
        if one.kind is not PartitionKind.NORMAL
    ]


def other_places(log_dir: LogDir, chosen: Sequence[PartitionDir], wanted: Wanted) -> Iterator[PossibleCopy]:
    """Return the places in the log directories, besides the chosen partitions, that may hold copies."""
    keys, paths = {one.key for one in chosen}, {one.path for one in chosen}
    for directory in log_dir.directories:
        root = directory.path
        directories, files = _entries(root)
        # A partition that is given by its own path may lie beside anything.
        is_whole = root in log_dir.paths
        named, unknown = _by_name(path for path in directories if path not in paths)
        for one in named:
            if one.kind is PartitionKind.NORMAL:
                if one.key in keys:
                    yield PossibleCopy(
                        one, one.path, "another directory of the partition: erase there by its own path"
                    )
            elif wanted.holds(one) and (is_whole or one.key in keys):
                yield PossibleCopy(
                    one, one.path, f"a -{one.kind} directory: erase there by its own path, or remove it"
                )
        if _is_tiered(named, unknown):
            reason = "the broker used tiered storage: remote segments of these topics may hold copies"
            yield PossibleCopy(None, root, reason)
        if is_whole:
            for path in unknown:
                if path.name != REMOTE_INDEX_CACHE and path not in log_dir.paths:
                    yield from _unknown_directory(path)
            yield from _unknown_files(None, files)
    for one in chosen:
        yield from _within_partition(log_dir, one)


def _by_name(directories: Iterable[Path]) -> tuple[list[PartitionDir], list[Path]]:
    """Return the directories with a partition's name, and the others."""
    named, unknown = [], []
    for path in directories:
        name = parse_partition_name(path.name)
        if name is None:
            unknown.append(path)
        else:
            named.append(PartitionDir.named(path, name))
    return named, unknown


def _is_tiered(named: Iterable[PartitionDir], unknown: Iterable[Path]) -> bool:
    return any(one.topic == _REMOTE_LOG_METADATA for one in named) or any(
        path.name == REMOTE_INDEX_CACHE for path in unknown
    )


def _within_partition(log_dir: LogDir, one: PartitionDir) -> Iterator[PossibleCopy]:
    directories, files = _entries(one.path)
    staging = one.path / STAGING_DIRECTORY
    for path in directories:
        if path not in (staging, gone_name(staging)):
            yield PossibleCopy(
                one, path, "a directory within a partition's, as an unfinished write leaves it"
            )
    yield from _unknown_files(one, files)
    start, first = log_dir.checkpoints(one).log_start_offset, _first_offset(files)
    if start is not None and first is not None and start < first:
        where = f"the log starts at offset {start}, its local files at {first}"
        yield PossibleCopy(one, one.path, f"{where}: earlier segments may lie in tiered storage")


def _unknown_directory(path: Path) -> Iterator[PossibleCopy]:
    try:
        if next(path.iterdir(), None) is not None:
            yield PossibleCopy(None, path, "not a partition's directory: look what it holds")
    except OSError as error:
        yield PossibleCopy(None, path, f"cannot be listed: {error.strerror}")


def _unknown_files(one: PartitionDir | None, files: Iterable[Path]) -> Iterator[PossibleCopy]:
    for path in files:
        name = path.name.removesuffix(".tmp")
        is_known = name in _NO_RECORDS or name.startswith(_OWN_FILES) or parse_file_name(name) is not None
        if not is_known and _has_bytes(path):
            yield PossibleCopy(one, path, "not one of Kafka's files: look what it holds")


def _has_bytes(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError as error:  # a link that leads nowhere, or to itself
        return error.errno not in (errno.ENOENT, errno.ELOOP)


def _first_offset(paths: Iterable[Path]) -> int | None:
    files = (parse_file_name(path.name) for path in paths)
    return min((f.offset for f in files if f is not None and f.kind == LOG and not f.state), default=None)


def _entries(directory: Path) -> tuple[list[Path], list[Path]]:
    """Return the directories and the files in a directory, sorted by name."""
    with os.scandir(directory) as entries:
        found = sorted((entry.name, is_directory(entry)) for entry in entries)
    directories = [directory / name for name, is_directory in found if is_directory]
    return directories, [directory / name for name, is_directory in found if not is_directory]
