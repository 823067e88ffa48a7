"""The partition directories that were found in log directories, and the ones that are read."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from native_log.checkpoints.names import PartitionKind
from native_log.errors import (
    KafkaLogError,
    LogTruncatedError,
    UnknownTopicOrPartitionError,
    error_message,
)
from native_log.log.replicas.last_batch import believed_end
from native_log.log.sources.directory import DirectorySource
from native_log.logdir.discovery import join_names
from native_log.prefetch import look_up_together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
    from native_log.log.log_state import LogState
    from native_log.logdir.directory_state import DirectoryState
    from native_log.logdir.discovery import Discovery, PartitionDir

logger = logging.getLogger(__name__)

Opened = TypeVar("Opened")

PartitionKey = tuple[str, int]
"""(topic, partition)"""


@dataclass(frozen=True, slots=True)
class PartitionCandidates:
    """The partition directories in one or several log directories.

    Attributes:
        candidates: the directories that may be read, by partition: usually one each.
        ignored: the others: `-delete`, `-stray` and `-future` directories.
        skipped: the directories that are not partitions.
    """

    candidates: Mapping[PartitionKey, tuple[PartitionDir, ...]]
    ignored: tuple[PartitionDir, ...]
    skipped: tuple[Path, ...]

    @classmethod
    def of(
        cls,
        discoveries: Iterable[Discovery],
        states: Mapping[Path, DirectoryState],
        *,
        include_deleted: bool,
    ) -> PartitionCandidates:
        """Sort out what was found. Partitions that an unfinished write creates do not exist yet.

        Args:
            discoveries: what was found at each path.
            states: the states of the log directories, by path.
            include_deleted: see LogDir.
        """
        candidates: dict[PartitionKey, tuple[PartitionDir, ...]] = {}
        ignored: list[PartitionDir] = []
        skipped: list[Path] = []
        for discovery in discoveries:
            skipped += [discovery.log_dir / name for name in discovery.skipped]
            state = states[discovery.log_dir]
            for partition in discovery.partitions:
                if state.unfinished is not None and state.is_uncommitted(partition):
                    continue
                if discovery.is_partition or _is_read(partition.kind, include_deleted):
                    key = partition.topic, partition.partition
                    candidates[key] = (*candidates.get(key, ()), partition)
                else:
                    ignored.append(partition)
        return cls(candidates, tuple(ignored), tuple(skipped))

    def choose(
        self,
        open_copy: Callable[[PartitionDir], LogState | None],
        keys: Iterable[PartitionKey] | None = None,
        *,
        are_local: bool = True,
    ) -> dict[PartitionKey, PartitionDir]:
        """Return the directory to read for each partition, sorted. Log one warning about copies.

        Args:
            open_copy: opens a log, if several directories contain the same partition (see `open_copy_of`).
            keys: the partitions; None: all.
            are_local: whether all directories are on local disks.
        """
        chosen = sorted(self.candidates if keys is None else keys)
        with_copies = (key for key in chosen if len(self.candidates[key]) > 1)
        choices = {key: _Choice(self.candidates[key][0]) for key in chosen}
        choices |= look_up_together(
            lambda key: _choose(self.candidates[key], open_copy), with_copies, are_local=are_local
        )
        _warn_of_copies([choice for choice in choices.values() if choice.others])
        return {key: choice.directory for key, choice in choices.items()}

    def all_of(self, key: PartitionKey) -> list[PartitionDir]:
        """Return all directories that contain a partition. One that was given by two paths counts once."""
        return _distinct(self.candidates.get(key, ()))

    @property
    def empty_message(self) -> str:
        """Why there is no partition to read."""
        names = sorted({directory.path.name for directory in self.ignored})
        if self.skipped:
            names += [f"{path.name} (not <topic>-<partition>)" for path in self.skipped]
        if not names:
            return "the log directory contains no partitions; use allow_empty=True to create topics in it"
        return (
            f"the log directory contains no partitions, only {join_names(names, 3)}; use include_deleted to "
            "read -delete and -stray directories, or give the path of a single directory"
        )

    def unknown_message(self, topic: str, partition: int, topics: Mapping[str, Iterable[int]]) -> str:
        """Say which partitions exist instead of one that does not."""
        if topic in topics:
            return f"topic {topic} has no partition {partition} here, but {join_names(topics[topic])}"
        return unknown_topic_message(topic, topics, self.ignored)


@dataclass(frozen=True, slots=True)
class Catalog:
    """What was found at some paths, and what is read of it.

    Attributes:
        paths: the paths that the user gave: log directories or partition directories.
        found: all directories.
        partitions: the directory that is read for each partition, sorted.
    """

    paths: Sequence[Path]
    found: PartitionCandidates
    partitions: Mapping[PartitionKey, PartitionDir]

    def topics(self) -> dict[str, list[int]]:
        """Return the partitions of each topic, internal topics included, sorted."""
        topics: dict[str, list[int]] = {}
        for topic, partition in self.partitions:
            topics.setdefault(topic, []).append(partition)
        return topics

    def unknown(self, topic: str, partition: int) -> UnknownTopicOrPartitionError:
        """Return the error for a partition that is not read. It says which partitions exist."""
        message = self.found.unknown_message(topic, partition, self.topics())
        return UnknownTopicOrPartitionError(message, path=", ".join(map(str, self.paths)))


@dataclass(frozen=True, slots=True)
class _Choice:
    """The directory that is read for a partition, and the other copies.

    Attributes:
        end_offset: the log end offset of `directory`; None: there are no other copies, so it was not opened.
        others: the other copies, with their log end offsets.
    """

    directory: PartitionDir
    end_offset: int | None = None
    others: tuple[tuple[PartitionDir, int], ...] = ()


def _choose(
    candidates: tuple[PartitionDir, ...], open_copy: Callable[[PartitionDir], LogState | None]
) -> _Choice:
    """Choose the directory to read, if several contain the same partition."""
    equals = copies_among(candidates)
    if len(equals) == 1:
        return _Choice(equals[0])
    logs = {directory: open_copy(directory) for directory in equals}
    ends = {directory: _end_of(log, logs.values()) for directory, log in logs.items()}
    chosen = max(equals, key=ends.__getitem__)
    others = tuple((directory, end) for directory, end in ends.items() if directory is not chosen)
    return _Choice(chosen, ends[chosen], others)


def _end_of(log: LogState | None, copies: Iterable[LogState | None]) -> int:
    """Return the end of a copy as far as it is believed; -1 if the copy cannot be opened."""
    if log is None:
        return -1
    others = (other for other in copies if other is not None and other is not log)
    try:
        return believed_end(log, others)
    except (OSError, LogTruncatedError):  # a broker has changed the files, or a reader reports the error
        return log.log_end_offset


def _warn_of_copies(choices: Sequence[_Choice]) -> None:
    """Log one warning about partitions with several copies, of which one is read."""
    if len(choices) == 1:
        (choice,) = choices
        chosen, *others = ((choice.directory, choice.end_offset), *choice.others)
        logger.warning(
            "%s-%d exists %d times: %s is read, not %s",
            *(choice.directory.topic, choice.directory.partition, len(others) + 1),
            _describe(*chosen),
            " or ".join(_describe(*other) for other in others),
        )
    elif choices:
        read = Counter(str(choice.directory.path.parent) for choice in choices)
        logger.warning(
            "%d partitions exist in several directories, and only the longest copy of each is read: %s",
            len(choices),
            ", ".join(f"{number} in {log_dir}" for log_dir, number in sorted(read.items())),
        )


def _describe(directory: PartitionDir, end_offset: int | None) -> str:
    is_open = end_offset is not None and end_offset >= 0
    return f"{directory.path} ({f'log end offset {end_offset}' if is_open else 'cannot be opened'})"


def copies_among(candidates: tuple[PartitionDir, ...]) -> list[PartitionDir]:
    """Return the directories that are copies of each other.

    A `-delete` or `-stray` directory is not a copy of a normal one. A directory that was given by two paths
    counts once.
    """
    kinds = list(PartitionKind)
    first_kind = min((directory.kind for directory in candidates), key=kinds.index)
    return _distinct(directory for directory in candidates if directory.kind is first_kind)


def _distinct(directories: Iterable[PartitionDir]) -> list[PartitionDir]:
    found = list(directories)
    if len(found) == 1:
        return found
    by_path: dict[str, PartitionDir] = {}
    for directory in found:
        by_path.setdefault(directory.storage.identity(str(directory.path)), directory)
    return list(by_path.values())


def open_copy_of(
    directory: PartitionDir, checkpoints: PartitionCheckpoints, max_batch_bytes: int
) -> LogState | None:
    """Open a log; return None if it cannot be opened, so that another copy is read."""
    try:
        source = DirectorySource.at(
            directory.path,
            checkpoints=checkpoints,
            max_batch_bytes=max_batch_bytes,
            storage=directory.storage,
        )
        return source.open()
    except (KafkaLogError, FileNotFoundError) as error:
        logger.warning("%s", error_message(error))
        return None


def open_copies(
    directories: Iterable[PartitionDir], open_copy: Callable[[PartitionDir], Opened]
) -> list[Opened]:
    """Open the copies of a partition that are to be merged. Log a warning for each that cannot be opened.

    Raises KafkaLogError, FileNotFoundError if none of them can be opened.
    """
    opened: list[Opened] = []
    failure: KafkaLogError | FileNotFoundError | None = None
    for directory in directories:
        try:
            opened.append(open_copy(directory))
        except (KafkaLogError, FileNotFoundError) as error:
            logger.warning("%s; this copy is not merged", error_message(error))
            failure = error
    if failure is not None and not opened:
        raise failure
    return opened


def _is_read(kind: PartitionKind, include_deleted: bool) -> bool:
    if kind is PartitionKind.NORMAL:
        return True
    return include_deleted and kind is not PartitionKind.FUTURE


def unknown_topic_message(topic: str, existing: Iterable[str], others: Iterable[PartitionDir]) -> str:
    """Say that a topic does not exist, and what exists. `others` are directories that are not read."""
    kinds = sorted({f"-{directory.kind}" for directory in others if directory.topic == topic})
    if kinds:
        return (
            f"topic {topic} has only {' and '.join(kinds)} directories here; to read them, give their own "
            "paths, or use include_deleted for -delete and -stray"
        )
    return f"there is no topic {topic}, but {join_names(sorted(existing)) or 'no topics at all'}"
