"""Gather the figures of a report from log directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.logdir.maintenance import decide_policies
from native_log.reporting.checks import find_problems
from native_log.reporting.coordinators import Offsets, read_coordinators
from native_log.reporting.copies import describe_copies
from native_log.reporting.directories import describe_directory
from native_log.reporting.dry_runs import try_compaction, try_retention
from native_log.reporting.figures import ReportFigures
from native_log.reporting.partition_survey import TopicPolicy, survey_partitions
from native_log.reporting.partitions import Limits
from native_log.reporting.samples import take_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from native_log.logdir import LogDir, PartitionDir
    from native_log.reporting.figures import Extent

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
    topics = decide_policies(log_dir, partitions, TopicPolicy.of)
    surveys = survey_partitions(
        log_dir,
        partitions,
        topics,
        limits=None if extent.batches else Limits.for_partitions(len(partitions)),
        now_ms=now_ms,
        on_progress=progress.part("batches" if extent.batches else "partitions"),
    )
    described = tuple(survey.figures for survey in surveys if survey.figures is not None)
    offsets = {
        (figures.topic, figures.partition): Offsets(
            figures.log_start_offset, figures.lag_end_offset, figures.log_end_offset
        )
        for figures in described
    }
    problems, problem_counts = None, None
    if extent.verification:
        problems, problem_counts = find_problems(log_dir, partitions, progress.part("verification"))
    return ReportFigures(
        now_ms,
        extent,
        tuple(map(describe_directory, log_dir.directories)),
        described,
        tuple(survey.failure for survey in surveys if survey.failure is not None),
        read_coordinators(log_dir, offsets, all_batches=extent.batches, now_ms=now_ms),
        take_samples(survey.sample for survey in surveys if survey.sample is not None),
        next((topic.unreadable for topic in topics if topic.unreadable is not None), None),
        problems,
        try_compaction(log_dir, partitions, now_ms, progress.part("compaction"))
        if extent.compaction
        else None,
        try_retention(log_dir, partitions, now_ms, progress.part("retention")) if extent.retention else None,
        describe_copies(log_dir, partitions, problem_counts),
    )


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
