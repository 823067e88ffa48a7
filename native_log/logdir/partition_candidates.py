"""Select the partition directories to read, among those that were found in several log directories."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.checkpoints.names import PartitionKind
from native_log.errors import KafkaLogError
from native_log.log.local_log import LocalLog
from native_log.logdir.discovery import join_names
from native_log.logdir.selection import unknown_topic_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
    from native_log.logdir.directory_state import DirectoryState
    from native_log.logdir.discovery import Discovery, PartitionDir

logger = logging.getLogger(__name__)

PartitionKey = tuple[str, int]
"""(topic, partition)"""


@dataclass(frozen=True, slots=True)
class PartitionCandidates:
    """The partition directories in one or several log directories.

    Attributes:
        candidates: the directories that may be read, by partition: usually one each.
        ignored: the others: `-delete`, `-stray` and `-future` directories.
        skipped: the names of directories that are not partitions.
    """

    candidates: Mapping[PartitionKey, tuple[PartitionDir, ...]]
    ignored: tuple[PartitionDir, ...]
    skipped: tuple[str, ...]

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
        skipped: list[str] = []
        for discovery in discoveries:
            skipped += discovery.skipped
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

    def choose(self, log_end_offset: Callable[[PartitionDir], int]) -> dict[PartitionKey, PartitionDir]:
        """Return the directory to read for each partition, sorted.

        Args:
            log_end_offset: opens a log, if several directories contain the same partition.
        """
        return {key: choose(self.candidates[key], log_end_offset) for key in sorted(self.candidates)}

    @property
    def empty_message(self) -> str:
        """Why there is no partition to read."""
        names = sorted({directory.path.name for directory in self.ignored})
        if self.skipped:
            names += [f"{name} (not <topic>-<partition>)" for name in self.skipped]
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


def choose(
    candidates: tuple[PartitionDir, ...], log_end_offset: Callable[[PartitionDir], int]
) -> PartitionDir:
    """Return the directory to read, if several contain the same partition."""
    equals = copies_among(candidates)
    if len(equals) == 1:
        return equals[0]
    ends = {directory: log_end_offset(directory) for directory in equals}
    chosen = max(equals, key=ends.__getitem__)
    others = [
        f"{directory.path} (log end offset {end})"
        for directory, end in ends.items()
        if directory is not chosen
    ]
    logger.warning(
        "%s-%d exists %d times: %s (log end offset %d) is read, not %s",
        *(chosen.topic, chosen.partition, len(equals), chosen.path, ends[chosen], " or ".join(others)),
    )
    return chosen


def copies_among(candidates: tuple[PartitionDir, ...]) -> list[PartitionDir]:
    """Return the directories that are copies of each other.

    A `-delete` or `-stray` directory is no copy of a normal one. A directory that was given by two paths
    counts once.
    """
    if len(candidates) == 1:
        return list(candidates)
    kinds = list(PartitionKind)
    first_kind = min((directory.kind for directory in candidates), key=kinds.index)
    by_path = {
        os.path.realpath(directory.path): directory
        for directory in reversed(candidates)
        if directory.kind is first_kind
    }
    return list(reversed(by_path.values()))


def log_end_offset_of(
    directory: PartitionDir, checkpoints: PartitionCheckpoints, max_batch_bytes: int
) -> int:
    """Open a log and return its end, for `choose`. If it cannot be opened, another copy is read."""
    try:
        log = LocalLog.open(directory.path, checkpoints=checkpoints, max_batch_bytes=max_batch_bytes)
    except KafkaLogError as error:
        logger.warning("%s", error)
        return -1
    return log.log_end_offset


def _is_read(kind: PartitionKind, include_deleted: bool) -> bool:
    if kind is PartitionKind.NORMAL:
        return True
    return include_deleted and kind is not PartitionKind.FUTURE
