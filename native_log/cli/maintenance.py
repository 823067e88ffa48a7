"""`kafkalog verify`, `recover` and `reindex`: call the package and print a line for each result."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from native_log.cli.changes import confirm, require_terminal
from native_log.cli.progress import report_progress
from native_log.cli.runner import print_error
from native_log.logdir.recovery import controller_partitions, recover
from native_log.logdir.recovery_report import PartitionRecovery, recovery_row
from native_log.logdir.reindexing import PartitionReindexing, reindex
from native_log.logdir.selected_partitions import select_partitions
from native_log.logdir.selection import PartitionSelection
from native_log.logdir.verification import problem_row, verify_log_dirs
from native_log.sizes import format_count

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from native_log.log.recovery.log_recovery import LogRecovery
    from native_log.logdir import LogDir


def verify_all(
    log_dir: LogDir, topics: Collection[str], exclude_topics: Collection[str] = (), *, as_json: bool = False
) -> int:
    """Check all copies of partitions. Print a line for each problem. Return the number of problems."""
    partitions = select_partitions(
        log_dir, PartitionSelection.of(topics or None, exclude_topics), required=True
    )
    copies = log_dir.all_copies(partitions)
    count = 0
    with report_progress("verifying") as report:
        for partition, problems in verify_log_dirs(log_dir, copies, report):
            for problem in problems:
                click.echo(_json(problem_row(partition, problem)) if as_json else str(problem))
            count += len(problems)
    if not as_json:
        summary = format_count(count, "problem") if count else "no problems"
        checked = format_count(len(partitions), "partition")
        if len(copies) > len(partitions):
            checked = f"{format_count(len(copies), 'directory', 'directories')} of {checked}"
        click.echo(f"{checked} checked, {summary}")
    return count


def recover_all(
    paths: Sequence[str],
    topics: Sequence[str],
    exclude_topics: Sequence[str],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    from_start: bool,
    save_to: str | None,
    config: Mapping[str, str],
) -> int:
    """Print a line for each partition. If data would be lost, first show it and ask for confirmation.

    Returns:
        The number of damaged partitions: those that cannot be recovered, those that keep damage, and in a dry
        run those that would lose data.
    """

    if as_json and not (dry_run or yes):
        require_terminal(can_ask=False)
    run = partial(
        _recover,
        paths,
        as_json=as_json,
        topics=topics or None,
        exclude_topics=exclude_topics,
        from_start=from_start,
        save_to=save_to,
        config=config,
    )
    if dry_run or not yes:
        planned = run(dry_run=True)
        if dry_run:
            return sum(_is_damaged(result) or _loses_data(result) for result in planned)
        if any(_loses_data(result) for result in planned):
            require_terminal()
            confirm()
    return sum(_is_damaged(result) for result in run(dry_run=False))


def _recover(
    paths: Sequence[str], *, dry_run: bool, as_json: bool, topics: Sequence[str] | None, **options: Any
) -> list[PartitionRecovery]:
    results: list[PartitionRecovery] = []

    def report(result: PartitionRecovery) -> None:
        results.append(result)
        if as_json:
            click.echo(_json(recovery_row(result, dry_run=dry_run)))
        elif result.recovery is not None:
            text = _describe_recovery(result.recovery, result.lost_records, dry_run)
            click.echo(f"{result.partition.path.name}: {text}")
        if result.error is not None:
            print_error(result.error)

    recover(paths, topics, dry_run=dry_run, on_partition=report, **options)
    if topics is None and not as_json:
        for path in paths:
            for name in controller_partitions(path):
                click.echo(f"{name}: skipped; the controller recovers it at each start")
    return results


def _loses_data(result: PartitionRecovery) -> bool:
    return result.recovery is not None and result.recovery.loses_data


def _is_damaged(result: PartitionRecovery) -> bool:
    return result.recovery is None or bool(result.recovery.out_of_order)


def _json(row: dict[str, object]) -> str:
    return json.dumps(row, ensure_ascii=False)


def _describe_recovery(done: LogRecovery, lost_records: int, dry_run: bool) -> str:
    would_be, are = ("would be ", "would be") if dry_run else ("", "are")
    parts = ["undamaged"]
    if done.truncated:
        parts = [
            f"{would_be}truncated at {end.segment.path}, position {end.valid_bytes}, offset {end.next_offset}"
            + (f": {end.damage.message}" if end.damage else "")
            for end in done.truncated
        ]
    elif done.removed:
        parts = [f"{would_be}emptied: {done.reason}"]
    if done.loses_data:
        segments = f" including {format_count(len(done.removed), 'later segment')}" if done.removed else ""
        records = f"with {format_count(lost_records, 'readable record')}"
        parts.append(f"{done.lost_bytes} bytes{segments}, {records}, {are} lost")
    for segment, kept in done.out_of_order:
        where = f"{segment.path}, position {kept.position}, offset {kept.offset}"
        parts.append(f"damaged at {where}, which a broker's recovery does not repair, either: {kept.message}")
    if done.left_behind:
        parts.append(
            f"{format_count(len(done.left_behind), 'leftover file')} of a crash {would_be}removed or renamed"
        )
    parts.append(f"offsets {done.log_start_offset} to {done.log_end_offset}")
    parts.append(f"{format_count(len(done.checked), 'segment')} checked")
    return "; ".join(parts)


def reindex_all(
    paths: Sequence[str],
    topics: Sequence[str],
    exclude_topics: Sequence[str],
    *,
    dry_run: bool,
    index_interval_bytes: int | None,
) -> int:
    """Print a line for each partition. Return the number of damaged partitions."""

    def report(result: PartitionReindexing) -> None:
        changes = "would change" if dry_run else "changed"
        click.echo(
            f"{result.partition.path.name}: {format_count(result.segments, 'segment')}"
            f"{'' if dry_run else ' indexed'}, the indexes of {result.changed} {changes}"
        )
        if result.error is not None:
            print_error(result.error)

    results = reindex(
        paths,
        topics or None,
        dry_run=dry_run,
        exclude_topics=exclude_topics,
        config=None if index_interval_bytes is None else {"index.interval.bytes": index_interval_bytes},
        on_partition=report,
    )
    return sum(status == "failed" for status in results["status"].to_pylist())
