"""`kafkalog recover`, `reindex` and `verify`: what they do, and the lines they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from native_log.config import LogConfig
from native_log.errors import KafkaLogError
from native_log.logdir.recovery import PartitionRecovery, recover
from native_log.logdir.reindexing import reindex
from native_log.logdir.verification import Problem, verify_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from native_log.logdir import LogDir


@dataclass(slots=True)
class Totals:
    """What was met in all."""

    partitions: int = 0
    problems: int = 0


def recover_all(paths: Sequence[str], topics: Sequence[str], *, dry_run: bool, from_start: bool) -> None:
    """Recover, a line for each partition."""
    for path in paths:
        recover(
            path,
            topics or None,
            dry_run=dry_run,
            from_start=from_start,
            on_partition=lambda one: click.echo(recovery_line(one, dry_run=dry_run)),
        )


def recovery_line(one: PartitionRecovery, *, dry_run: bool) -> str:
    """One partition's recovery in a line."""
    plan, name = one.recovery, one.partition.path.name
    ends = f"offsets {plan.log_start_offset} to {plan.log_end_offset}"
    read = f"{len(plan.recovered)} segment{'s' * (len(plan.recovered) != 1)} checked"
    if not one.cuts:
        return f"{name}: whole, {ends}; {read}"
    where = f" at {plan.damaged_path}, position {plan.damaged_position}" if plan.damaged_path else ""
    verb = "would be cut" if dry_run else "cut"
    removed = sum(segment.size_bytes for segment in plan.removed)
    lost = f"{plan.truncated_bytes} bytes and {len(plan.removed)} later segments ({removed} bytes)"
    return f"{name}: {verb}{where}: {plan.reason}; {lost} {'would go' if dry_run else 'gone'}; {ends}; {read}"


def reindex_all(paths: Sequence[str], topics: Sequence[str], index_interval_bytes: int) -> None:
    """Make the indexes of all segments anew, a line for each partition."""
    config = LogConfig(index_interval_bytes=index_interval_bytes)
    for path in paths:
        for partition, segments in reindex(path, topics or None, config=config):
            click.echo(f"{partition.path.name}: {segments} segment{'s' * (segments != 1)} indexed")


def verify_all(log_dir: LogDir, topics: Iterable[str]) -> Totals:
    """Check everything that can be checked without a broker; a line for each problem."""
    named, totals = set(topics), Totals()
    for topic in sorted(named - log_dir.topics().keys()):
        log_dir.partition(topic, 0)  # raises, saying what is there
    for one in log_dir.partitions():
        if named and one.topic not in named:
            continue
        totals.partitions += 1
        try:
            problems = list(verify_log(log_dir.partition(one.topic, one.partition)))
        except (KafkaLogError, OSError) as error:
            problems = [Problem(str(one.path), None, None, str(error))]
        for problem in problems:
            click.echo(str(problem))
        totals.problems += len(problems)
    click.echo(
        f"{totals.partitions} partition{'s' * (totals.partitions != 1)} checked, "
        f"{totals.problems or 'no'} problem{'s' * (totals.problems != 1)}"
    )
    return totals
