"""What the driver and the tasks of a compaction tell each other. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.compaction import statistics

if TYPE_CHECKING:
    from kafkalog_spark.partitions import OpenablePartition
    from native_log.compaction.eligibility import Cleanable
    from native_log.compaction.rounds import Round
    from native_log.compaction.statistics import GroupStatistics, PartitionStatistics
    from native_log.compaction.survey import Survey
    from native_log.log import LogRange
    from native_log.policies import CompactionPolicy


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one run; sent with every task. `buffer_bytes`: log.cleaner.dedupe.buffer.size."""

    buffer_bytes: int
    now_ms: int
    dry_run: bool


@dataclass(frozen=True, slots=True)
class LogToClean:
    """A partition's directory, and its topic's policy."""

    directory: OpenablePartition
    policy: CompactionPolicy


@dataclass(frozen=True, slots=True)
class Task:
    """Partitions for one task to look into.

    `whole`: what is to be cleaned is cleaned at once, if its keys fit in memory.
    """

    logs: tuple[LogToClean, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class Staged:
    """A group, rewritten: its files wait in the directory `attempt` within the staging directory, to take the
    place of the segments of these base offsets."""

    base_offsets: tuple[int, ...]
    attempt: str


@dataclass(frozen=True, slots=True)
class Inspected:
    """What a look at a partition came to.

    `large_partition` where it is still to be cleaned; else `statistics`, and what was staged.
    """

    directory: OpenablePartition
    invisible_from: str | None = None
    statistics: PartitionStatistics | None = None
    staged: tuple[Staged, ...] = ()
    large_partition: LargePartition | None = None


@dataclass(frozen=True, slots=True)
class LargePartition:
    """A partition too large for one task.

    Attributes:
        policy: of its topic.
        plain: the round over it, if there are no transactions in the log.
        is_plain: there were none where it was looked at.
        segments: (base offset, size in bytes) of each.
    """

    directory: OpenablePartition
    policy: CompactionPolicy
    found: Cleanable
    plain: Round
    is_plain: bool
    segments: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """Segments first <= index < end of a partition, to be surveyed.

    `number`, `place`: where the plan is made, and the part's place among all that it is made of.
    """

    number: int
    place: int
    directory: OpenablePartition
    first: int
    end: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Split:
    """Part of a round to gather keys from.

    Attributes:
        number, place: as of a Part.
        aborted: the transactions that may have data in it; None: there are none, says the plan, and the
            headers are yet to be surveyed.
        buckets: in each bundle.
    """

    number: int
    place: int
    range: LogRange
    is_dirty: bool
    aborted: bytes | None
    first_bundle: int
    bundles: int
    buckets: int


@dataclass(frozen=True, slots=True)
class PartSurvey:
    """What a task tells of a part of a log.

    `has_transactions`: there are some, where there were to be none; all else is of no use then.
    """

    survey: Survey | None = None
    null_keys: int = 0
    has_transactions: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """A round over a partition too large for one task, or why there is none."""

    round: Round | None = None
    null_keys: int = 0
    has_transactions: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class GroupResult:
    """What rewriting a group came to. `attempt`: where its files wait, within the staging directory."""

    stats: GroupStatistics
    attempt: str | None = None
    null_keys: int = 0
    has_transactions: bool = False
    error: str | None = None


def failed(directory: OpenablePartition, error: Exception | str) -> PartitionStatistics:
    return statistics.PartitionStatistics(directory.topic, directory.partition, "failed", str(error))
