"""The parts of a report that read every byte: verification, and the dry run of a compaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from native_log.compaction import compact
from native_log.logdir.verification import verify_partitions
from native_log.reporting.dry_runs import has_normal_partitions, other_topics
from native_log.reporting.figures import CompactionFigures, Failure, ProblemKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from native_log.log.problems import Problem
    from native_log.logdir import LogDir, PartitionDir

    OnProgress = Callable[[int, int], None]

EXAMPLES = 10
"""How many problems of a kind are kept in words."""


def find_problems(
    log_dir: LogDir, partitions: Sequence[PartitionDir], on_progress: OnProgress
) -> tuple[ProblemKind, ...]:
    """Check all partitions, as `native_log.verify` does, and return their problems by kind."""
    kinds: dict[str, ProblemKind] = {}
    for _, problems in verify_partitions(log_dir, partitions, on_progress):
        add_problems(kinds, problems)
    return tuple(kinds.values())


def add_problems(kinds: dict[str, ProblemKind], problems: Iterable[Problem]) -> None:
    """Add the problems of a partition to those of the others, by kind."""
    for problem in problems:
        known = kinds.get(problem.kind, ProblemKind(problem.kind, 0, ()))
        examples = known.examples if known.count >= EXAMPLES else (*known.examples, str(problem))
        kinds[problem.kind] = ProblemKind(problem.kind, known.count + 1, examples)


def try_compaction(
    log_dir: LogDir, partitions: Sequence[PartitionDir], now_ms: int, on_progress: OnProgress
) -> tuple[CompactionFigures, ...]:
    """Make a dry run of a compaction of all logs with dirty records, and return its result by topic.

    min.cleanable.dirty.ratio is 0, so logs count that a broker would not compact yet. Only topics are
    compacted that `kafkalog compact` compacts without being asked by name.
    """
    if not has_normal_partitions(log_dir):
        return ()
    result = compact(
        log_dir.paths,
        None,
        {"min.cleanable.dirty.ratio": 0},
        now_ms,
        dry_run=True,
        exclude_topics=other_topics(log_dir, partitions),
        on_progress=on_progress,
    )
    return compaction_figures(result.to_pylist())


def compaction_figures(rows: Iterable[dict[str, Any]]) -> tuple[CompactionFigures, ...]:
    """Return the rows (STATISTICS_SCHEMA) summed by topic. Skipped partitions are left out."""
    by_topic: dict[str, CompactionFigures] = {}
    for row in rows:
        if row["status"] == "skipped":
            continue
        sum = by_topic.get(row["topic"], CompactionFigures(row["topic"]))
        if row["status"] == "failed":
            failure = Failure(f"{row['topic']}-{row['partition']}", row["reason"])
            by_topic[row["topic"]] = replace(sum, failed=(*sum.failed, failure))
            continue
        by_topic[row["topic"]] = replace(
            sum,
            partitions=sum.partitions + 1,
            bytes_before=sum.bytes_before + row["bytesBefore"],
            bytes_after=sum.bytes_after + row["bytesAfter"],
            records_before=sum.records_before + row["recordsBefore"],
            records_after=sum.records_after + row["recordsAfter"],
            tombstones=sum.tombstones + row["tombstonesKept"] + row["tombstonesDropped"],
            null_keys=sum.null_keys + row["nullKeys"],
        )
    return tuple(by_topic.values())
