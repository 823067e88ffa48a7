"""Survey partitions in parallel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError, error_message
from native_log.log.changing_files import MOVED, retry_changed
from native_log.policies import Request, compaction_policy, describe_policy
from native_log.prefetch import map_ahead, map_together
from native_log.reporting.figures import Failure
from native_log.reporting.partitions import describe_partition
from native_log.reporting.samples import SamplePlace
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from native_log.log import PartitionLog
    from native_log.logdir import LogDir, PartitionDir
    from native_log.policies import CompactionPolicy, TopicFacts
    from native_log.reporting.figures import PartitionFigures
    from native_log.reporting.partitions import Limits


@dataclass(frozen=True, slots=True)
class TopicPolicy:
    """What is known about the configuration of a topic.

    Attributes:
        name: the cleanup.policy in words; None: unknown.
        unreadable: why the cluster's metadata cannot be read; None if it was read, or is not there.
    """

    name: str | None
    compaction: CompactionPolicy
    unreadable: str | None

    @classmethod
    def of(cls, topic: str, facts: TopicFacts) -> Self:
        return cls(
            describe_policy(facts)[0], compaction_policy(topic, facts, Request.of(None, {})), facts.unreadable
        )


@dataclass(frozen=True, slots=True)
class PartitionSurvey:
    """What is known of a partition: its figures and a place for a sample, or why there are none.

    Nothing is known of one that a broker has removed meanwhile.
    """

    figures: PartitionFigures | None = None
    sample: SamplePlace | None = None
    failure: Failure | None = None


def survey_partitions(
    log_dir: LogDir,
    partitions: Sequence[PartitionDir],
    topics: Sequence[TopicPolicy],
    *,
    limits: Limits | None,
    now_ms: int,
    on_progress: Callable[[int, int], None],
) -> list[PartitionSurvey]:
    """Return the surveys of partitions, in their order.

    Args:
        log_dir: the log directories.
        partitions: some of its partitions.
        topics: the policy of the topic of each partition.
        limits: how much of a log to read; None: the headers of all batches.
        now_ms: the time from which ages are measured.
        on_progress: called with (partitions done, partitions).
    """

    def survey(partition: tuple[PartitionDir, TopicPolicy, Callable[[], PartitionLog]]) -> PartitionSurvey:
        directory, topic, open_log = partition

        def describe(log: PartitionLog) -> PartitionSurvey:
            figures = describe_partition(
                log,
                topic.name,
                topic.compaction,
                lag_end_offset=log_dir.lag_end_offset(log),
                limits=limits,
                now_ms=now_ms,
            )
            return PartitionSurvey(figures, _sample_place(log))

        try:
            try:
                return describe(open_log())
            except MOVED:
                return retry_changed(lambda: describe(log_dir.partition(*directory.key)), MOVED)
        except (KafkaLogError, OSError) as error:
            if directory.folder.was_removed():
                return PartitionSurvey()
            return PartitionSurvey(failure=Failure(directory.path.name, error_message(error)))

    openers = log_dir.openers(directory.key for directory in partitions)
    work = zip(partitions, topics, openers, strict=True)
    if limits is None:
        results = map_ahead(survey, work, log_dir.waiting_readers(partitions) or available_cores())
    else:
        # Reading a few batches of a local log is mostly Python's work, for which threads wait for each other.
        results = map_together(survey, work, are_local=log_dir.is_local)
    surveys: list[PartitionSurvey] = []
    for result in results:
        surveys.append(result)
        on_progress(len(surveys), len(partitions))
    return surveys


def _sample_place(log: PartitionLog) -> SamplePlace | None:
    """Return the newest segment that is not empty, as a place for a sample; None if all are empty."""
    for segment in reversed(log.segments):
        if segment.size_bytes:
            return SamplePlace(log.topic, f"{segment.directory}/{segment.log}", log.size_bytes)
    return None
