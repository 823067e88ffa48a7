"""The values that the driver and the tasks of a compaction exchange. All of them can be pickled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from native_log.compaction.eligibility import CleanableRange
    from native_log.compaction.rounds import Round
    from native_log.compaction.statistics import GroupStatistics, PartitionStatistics
    from native_log.compaction.survey import Survey
    from native_log.log import LogRange
    from native_log.log.sources.directory import DirectorySource
    from native_log.policies import CompactionPolicy
    from native_log.storage import CarriedSecrets


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings that all tasks of a run share.

    Attributes:
        buffer_bytes: log.cleaner.dedupe.buffer.size, the memory that one task may use for keys.
        now_ms: the time from which ages are measured.
        secrets: credentials, which a process knows that has unpickled the settings; None: no URL is read.
    """

    buffer_bytes: int
    now_ms: int
    dry_run: bool
    secrets: CarriedSecrets | None = None


@dataclass(frozen=True, slots=True)
class PartitionToCompact:
    """A partition, and the policy of its topic."""

    directory: DirectorySource
    policy: CompactionPolicy


@dataclass(frozen=True, slots=True)
class InspectionTask:
    """The partitions that one task inspects.

    Attributes:
        compact_whole: whether the task also compacts each partition whose keys fit in memory.
    """

    partitions: tuple[PartitionToCompact, ...]
    compact_whole: bool


@dataclass(frozen=True, slots=True)
class StagedGroup:
    """A group of segments that a task has rewritten into one.

    Attributes:
        base_offsets: the base offsets of the segments that the new segment replaces.
        attempt: the directory of its files, inside the partition's staging directory.
    """

    base_offsets: tuple[int, ...]
    attempt: str


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """What tasks did with a partition.

    Attributes:
        invisible_from: the host of an executor that does not see the partition directory; None if it does.
        statistics: the outcome; None if the partition is invisible or too large.
        staged: the rewritten groups, which the driver has to install.
        large_partition: set if the partition is too large for one task and has to be compacted by many.
    """

    directory: DirectorySource
    invisible_from: str | None = None
    statistics: PartitionStatistics | None = None
    staged: tuple[StagedGroup, ...] = ()
    large_partition: LargePartition | None = None


@dataclass(frozen=True, slots=True)
class LargePartition:
    """A partition too large for one task.

    Attributes:
        policy: the policy of its topic.
        provisional_round: the round over the partition if its log has no transactions.
        assume_no_transactions: whether the log seems to have no transactions: its first dirty batches have
            none.
        segments: (base offset, size in bytes) of each segment.
    """

    directory: DirectorySource
    policy: CompactionPolicy
    cleanable: CleanableRange
    provisional_round: Round
    assume_no_transactions: bool
    segments: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SurveyPart:
    """Consecutive segments of a partition whose headers one task surveys.

    Attributes:
        row_number, row_part: the number and the part of the row in which the task reports. The number selects
            the task that plans the round, and the part orders the reports by offset.
        first, end: indexes of the partition's segments, end exclusive.
    """

    row_number: int
    row_part: int
    directory: DirectorySource
    first: int
    end: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class KeySplit:
    """A part of a round whose keys one task collects.

    Attributes:
        row_number, row_part: as in a SurveyPart.
        is_dirty: whether the range is in the dirty part of the log.
        aborted: the aborted transactions that may have data in the range, packed as for `records.decode`.
            None if the round assumes that there are no transactions; then the task also surveys the headers.
        first_bundle, bundles: the numbers of the round's bundles, and how many there are.
        buckets: the number of buckets in each bundle.
    """

    row_number: int
    row_part: int
    range: LogRange
    is_dirty: bool
    aborted: bytes | None
    first_bundle: int
    bundles: int
    buckets: int


@dataclass(frozen=True, slots=True)
class CollectionReport:
    """What a task reports on a KeySplit or a SurveyPart.

    Attributes:
        survey: the headers; None if the task did not survey them.
        null_keys: the number of dirty records without a key.
        has_transactions: whether there are transactions although the round assumes that there are none. Then
            everything else is void.
        error: why the task failed; None if it did not.
    """

    survey: Survey | None = None
    null_keys: int = 0
    has_transactions: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """The plan of a round over a large partition, or why there is none.

    Attributes:
        round: the round; None if it cannot be planned.
        null_keys, has_transactions, error: as in a CollectionReport, for the whole partition.
    """

    round: Round | None = None
    null_keys: int = 0
    has_transactions: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The result of rewriting a group of segments.

    Attributes:
        attempt: the directory of the new segment, inside the staging directory; None in a dry run.
        null_keys, has_transactions, error: as in a RoundPlan.
    """

    stats: GroupStatistics
    attempt: str | None = None
    null_keys: int = 0
    has_transactions: bool = False
    error: str | None = None
