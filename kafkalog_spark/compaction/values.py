"""What the driver and the tasks of a compaction tell each other. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.cleaner import statistics

if TYPE_CHECKING:
    from kafkalog_spark.views import PartitionDirectory
    from native_log.cleaner.eligibility import Cleanable
    from native_log.cleaner.plan import Group, Round
    from native_log.cleaner.statistics import PartitionStatistics
    from native_log.config import LogConfig


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one run; sent with every task."""

    config: LogConfig
    now_ms: int
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Task:
    """Partitions for one task to look into.

    `whole`: what is to be cleaned is cleaned at once, if its keys fit in memory.
    """

    directories: tuple[PartitionDirectory, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class Staged:
    """A group, rewritten: its files wait in the directory `attempt` within the staging directory."""

    group: Group
    attempt: str


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at a partition came to.

    `found` where it is still to be cleaned; else `statistics`, and what was staged.

    Attributes:
        segments: (base offset, size in bytes) of each, where it is still to be cleaned.
    """

    directory: PartitionDirectory
    invisible_from: str | None = None
    statistics: PartitionStatistics | None = None
    staged: tuple[Staged, ...] = ()
    found: Cleanable | None = None
    segments: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """A round over a partition too large for one task, or why there is none."""

    round: Round | None
    records: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """What goes along with keys and survivors to those who rewrite."""

    null_keys: int = 0
    error: str | None = None


def failed(directory: PartitionDirectory, error: Exception | str) -> PartitionStatistics:
    return statistics.PartitionStatistics(directory.topic, directory.partition, "failed", str(error))
