"""The verification of a report, which reads every byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.logdir.verification import verify_log_dirs
from native_log.reporting.figures import ProblemKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from native_log.log.problems import Problem
    from native_log.logdir import LogDir, PartitionDir

    OnProgress = Callable[[int, int], None]

EXAMPLES = 10
"""How many problems of a kind are kept in words."""


def find_problems(
    log_dir: LogDir, partitions: Sequence[PartitionDir], on_progress: OnProgress
) -> tuple[tuple[ProblemKind, ...], dict[Path, int]]:
    """Check all copies of partitions, as `native_log.verify` does.

    Return their problems by kind, and how many each partition directory has.
    """
    kinds: dict[str, ProblemKind] = {}
    counts: dict[Path, int] = {}
    for directory, problems in verify_log_dirs(log_dir, log_dir.all_copies(partitions), on_progress):
        add_problems(kinds, problems)
        if directory is not None:
            counts[directory.path] = len(problems)
    return tuple(kinds.values()), counts


def add_problems(kinds: dict[str, ProblemKind], problems: Iterable[Problem]) -> None:
    """Add problems to the others, by kind."""
    for problem in problems:
        known = kinds.get(problem.kind, ProblemKind(problem.kind, 0, ()))
        examples = known.examples if known.count >= EXAMPLES else (*known.examples, str(problem))
        kinds[problem.kind] = ProblemKind(problem.kind, known.count + 1, examples)
