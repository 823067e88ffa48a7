"""`kafkalog verify`, `recover` and `reindex`: what they do, and the lines they say."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from native_log.cli.changes import check_is_asked, confirm
from native_log.cli.progress import reporting
from native_log.cli.runner import note_error
from native_log.cli.topics import select_partitions
from native_log.logdir.recovery import PartitionRecovery, controller_partitions, recover, recovery_row
from native_log.logdir.reindexing import PartitionReindexing, reindex
from native_log.logdir.verification import check_partition, problem_row
from native_log.progress import Progress
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from native_log.log.problems import Problem
    from native_log.log.recovery.log_recovery import LogRecovery
    from native_log.logdir import LogDir, PartitionDir


def verify_all(
    log_dir: LogDir, topics: Collection[str], exclude_topics: Collection[str] = (), *, as_json: bool = False
) -> int:
    """Print a line for each problem; return how many there are."""
    chosen = select_partitions(log_dir, topics, exclude_topics)
    count = 0
    with reporting("verifying") as report:
        progress = Progress(report, len(chosen))
        pool = ThreadPoolExecutor(available_cores(), "log-verification")
        try:
            found = pool.map(partial(_problems, log_dir, progress), chosen)
            for one, problems in zip(chosen, found, strict=True):
                for problem in problems:
                    click.echo(_json(problem_row(one, problem)) if as_json else str(problem))
                count += len(problems)
        finally:
            progress.stop()  # where it was interrupted
            pool.shutdown(cancel_futures=True)
    if not as_json:
        problems_found = _many(count, "problem") if count else "no problems"
        click.echo(f"{_many(len(chosen), 'partition')} checked, {problems_found}")
    return count


def _problems(log_dir: LogDir, progress: Progress, one: PartitionDir) -> list[Problem]:
    mine = progress.partition()
    try:
        return check_partition(log_dir, one, mine.begin, mine.add)
    finally:
        mine.end()


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
) -> int:
    """Print a line for each partition. Where data would go, show it first and ask.

    Returns:
        how many partitions are damaged: those that could not be recovered, those that keep damage, and in a
        dry run those that would be cut.
    """

    if as_json and not (dry_run or yes):
        check_is_asked(can_ask=False)
    run = partial(
        _recovered,
        paths,
        as_json=as_json,
        topics=topics or None,
        exclude_topics=exclude_topics,
        from_start=from_start,
        save_to=save_to,
    )
    if dry_run or not yes:
        found = run(dry_run=True)
        if dry_run:
            return sum(_is_damaged(one) or _cuts(one) for one in found)
        if any(_cuts(one) for one in found):
            check_is_asked()
            confirm()
    return sum(_is_damaged(one) for one in run(dry_run=False))


def _recovered(
    paths: Sequence[str], *, dry_run: bool, as_json: bool, topics: Sequence[str] | None, **how: Any
) -> list[PartitionRecovery]:
    found: list[PartitionRecovery] = []

    def report(one: PartitionRecovery) -> None:
        found.append(one)
        if as_json:
            click.echo(_json(recovery_row(one)))
        elif one.recovery is not None:
            click.echo(f"{one.partition.path.name}: {_told(one.recovery, one.lost_records, dry_run)}")
        if one.error is not None:
            note_error(one.error)

    recover(paths, topics, dry_run=dry_run, on_partition=report, **how)
    if topics is None and not as_json:
        for path in paths:
            for name in controller_partitions(path):
                click.echo(f"{name}: left to the controller, which recovers it whenever it starts")
    return found


def _cuts(one: PartitionRecovery) -> bool:
    return one.recovery is not None and one.recovery.loses_data


def _is_damaged(one: PartitionRecovery) -> bool:
    return one.recovery is None or bool(one.recovery.out_of_order)


def _json(row: dict[str, object]) -> str:
    return json.dumps(row, ensure_ascii=False)


def _told(done: LogRecovery, lost_records: int, dry_run: bool) -> str:
    would, are = ("would be ", "would be") if dry_run else ("", "are")
    parts = ["whole"]
    if done.truncated:
        parts = [
            f"{would}cut at {one.segment.path}, position {one.valid_bytes}, offset {one.next_offset}"
            + (f": {one.damage.message}" if one.damage else "")
            for one in done.truncated
        ]
    elif done.removed:
        parts = [f"{would}begun anew: {done.reason}"]
    if done.loses_data:
        segments = f", {_many(len(done.removed), 'later segment')} among them" if done.removed else ""
        records = f"with {_many(lost_records, 'record')} that can still be read"
        parts.append(f"{done.lost_bytes} bytes{segments}, {records}, {are} gone")
    for segment, kept in done.out_of_order:
        where = f"{segment.path}, position {kept.position}, offset {kept.offset}"
        parts.append(f"damaged at {where}, and kept as by a broker's recovery: {kept.message}")
    if done.left_behind:
        parts.append(f"{_many(len(done.left_behind), 'file')} that a crash left {would}sorted out")
    parts.append(f"offsets {done.log_start_offset} to {done.log_end_offset}")
    parts.append(f"{_many(len(done.checked), 'segment')} checked")
    return "; ".join(parts)


def reindex_all(
    paths: Sequence[str],
    topics: Sequence[str],
    exclude_topics: Sequence[str],
    *,
    dry_run: bool,
    index_interval_bytes: int,
) -> int:
    """Print a line for each partition; return how many are damaged."""

    def say(one: PartitionReindexing) -> None:
        changes = "would change" if dry_run else "changed"
        click.echo(
            f"{one.partition.path.name}: {_many(one.segments, 'segment')}"
            f"{'' if dry_run else ' indexed'}, the indexes of {one.changed} {changes}"
        )

        if one.error is not None:
            note_error(one.error)

    found = reindex(
        paths,
        topics or None,
        dry_run=dry_run,
        exclude_topics=exclude_topics,
        config={"index.interval.bytes": index_interval_bytes},
        on_partition=say,
    )
    return sum(status == "failed" for status in found["status"].to_pylist())


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
