"""Gather the figures of a report from log directories."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError, error_message
from native_log.logdir.maintenance import decide_policies
from native_log.policies import Request, compaction_policy, describe_policy
from native_log.reporting.checks import find_problems
from native_log.reporting.coordinators import read_coordinators
from native_log.reporting.directories import look_at_directory
from native_log.reporting.dry_runs import try_compaction, try_retention
from native_log.reporting.figures import Failure, PartitionFigures, ReportFigures
from native_log.reporting.partitions import Limits, look_at_partition
from native_log.reporting.samples import SamplePlace, take_samples
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from native_log.log import PartitionLog
    from native_log.logdir import LogDir, PartitionDir
    from native_log.policies import CompactionPolicy, TopicFacts
    from native_log.reporting.figures import Extent

_CHUNK = 32
_STEPS = 1000
_WEIGHTS = {"partitions": 1, "batches": 5, "verification": 20, "compaction": 20, "retention": 1}
"""How long the parts of a report take, in proportion."""


def survey(
    log_dir: LogDir,
    partitions: Sequence[PartitionDir],
    extent: Extent,
    now_ms: int,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> ReportFigures:
    """Return the figures of a report. No file is changed.

    Args:
        log_dir: the log directories.
        partitions: the partitions to report on.
        extent: what to examine.
        now_ms: the time from which ages are measured.
        on_progress: called with (steps done, total steps), from any thread.
    """
    progress = _Progress(extent, on_progress or (lambda *_: None))
    topics = decide_policies(log_dir, partitions, _TopicPolicy.of)
    looked = _look_at_partitions(
        log_dir,
        partitions,
        topics,
        extent,
        now_ms,
        progress.part("batches" if extent.batches else "partitions"),
    )
    looked_at = tuple(result.figures for result in looked if result.figures is not None)
    offsets = {
        (figures.topic, figures.partition): (figures.log_start_offset, figures.high_watermark)
        for figures in looked_at
    }
    return ReportFigures(
        now_ms,
        extent,
        tuple(map(look_at_directory, log_dir.directories)),
        looked_at,
        tuple(result.failure for result in looked if result.failure is not None),
        read_coordinators(log_dir, offsets, all_batches=extent.batches, now_ms=now_ms),
        take_samples(result.sample for result in looked if result.sample is not None),
        next((topic.unreadable for topic in topics if topic.unreadable is not None), None),
        find_problems(log_dir, partitions, progress.part("verification")) if extent.verification else None,
        try_compaction(log_dir, partitions, now_ms, progress.part("compaction"))
        if extent.compaction
        else None,
        try_retention(log_dir, partitions, now_ms, progress.part("retention")) if extent.retention else None,
    )


@dataclass(frozen=True, slots=True)
class _TopicPolicy:
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


def _look_at_partitions(
    log_dir: LogDir,
    partitions: Sequence[PartitionDir],
    topics: Sequence[_TopicPolicy],
    extent: Extent,
    now_ms: int,
    on_progress: Callable[[int, int], None],
) -> list[_Looked]:
    limits = None if extent.batches else Limits.for_partitions(len(partitions))

    def look_at(directory: PartitionDir, topic: _TopicPolicy) -> _Looked:
        try:
            log = log_dir.partition(directory.topic, directory.partition)
            figures = look_at_partition(log, topic.name, topic.compaction, limits=limits, now_ms=now_ms)
        except (KafkaLogError, OSError) as error:
            return _Looked(failure=Failure(directory.path.name, error_message(error)))
        return _Looked(figures, _sample_place(log))

    def look_at_chunk(start: int) -> list[_Looked]:
        end = start + chunk
        return list(map(look_at, partitions[start:end], topics[start:end]))

    # Without reading all batches, a partition takes less than a millisecond, so a task is a chunk of them.
    chunk = 1 if extent.batches else _CHUNK
    looked: list[_Looked] = []
    pool = ThreadPoolExecutor(available_cores(), "log-report")
    try:
        for results in pool.map(look_at_chunk, range(0, len(partitions), chunk)):
            looked += results
            on_progress(len(looked), len(partitions))
    finally:
        pool.shutdown(cancel_futures=True)  # in case of an interrupt
    return looked


@dataclass(frozen=True, slots=True)
class _Looked:
    """What was seen of a partition: its figures, or why there are none."""

    figures: PartitionFigures | None = None
    sample: SamplePlace | None = None
    failure: Failure | None = None


def _sample_place(log: PartitionLog) -> SamplePlace | None:
    """Return the newest segment that is not empty, as a place for a sample; None if all are empty."""
    for segment in reversed(log.segments):
        if segment.size_bytes:
            return SamplePlace(log.topic, f"{segment.directory}/{segment.log}", log.size_bytes)
    return None


class _Progress:
    """The progress of the parts of a report."""

    def __init__(self, extent: Extent, on_progress: Callable[[int, int], None]) -> None:
        first = "batches" if extent.batches else "partitions"
        parts = [
            first,
            *["verification"] * extent.verification,
            *["compaction"] * extent.compaction,
            *["retention"] * extent.retention,
        ]
        self._total = sum(_WEIGHTS[part] for part in parts) * _STEPS
        self._before = 0
        self._on_progress = on_progress

    def part(self, name: str) -> Callable[[int, int], None]:
        """Return a function that takes the progress of the next part."""
        before, steps = self._before, _WEIGHTS[name] * _STEPS
        self._before += steps

        def report(done: int, total: int) -> None:
            self._on_progress(before + done * steps // max(1, total), self._total)

        return report
