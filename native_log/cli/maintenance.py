"""`kafkalog verify`, `recover` and `reindex`: what they do, and the lines they say."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import click

from native_log.cleaner.progress import Progress
from native_log.cli.changes import check_is_asked, confirm
from native_log.cli.progress import reporting
from native_log.cli.runner import note_error
from native_log.cli.topics import chosen_partitions
from native_log.errors import KafkaLogError
from native_log.logdir.recovery import PartitionRecovery, recover
from native_log.logdir.reindexing import PartitionReindexing, reindex
from native_log.logdir.verification import Problem, verify_log

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from native_log.log.recovery.recover import LogRecovery
    from native_log.logdir import LogDir, PartitionDir


def verify_all(log_dir: LogDir, topics: Collection[str], exclude_topics: Collection[str] = ()) -> int:
    """Print a line for each problem; return how many there are."""
    chosen = chosen_partitions(log_dir, topics, exclude_topics)
    count = 0
    with reporting("verifying") as report:
        progress = Progress(report, len(chosen))
        pool = ThreadPoolExecutor(os.cpu_count(), "log-verification")
        try:
            for problems in pool.map(partial(_problems, log_dir, progress), chosen):
                for problem in problems:
                    click.echo(str(problem))
                count += len(problems)
        finally:
            progress.stop()  # where it was interrupted
            pool.shutdown(cancel_futures=True)
    click.echo(
        f"{_many(len(chosen), 'partition')} checked, {_many(count, 'problem') if count else 'no problems'}"
    )
    return count


def _problems(log_dir: LogDir, progress: Progress, one: PartitionDir) -> list[Problem]:
    mine = progress.partition()
    try:
        log = log_dir.partition(one.topic, one.partition)
        mine.begin(log.size_bytes)
        return list(verify_log(log, mine.add))
    except KafkaLogError as error:
        return [Problem(error.path or str(one.path), error.position, error.offset, error.message)]
    except OSError as error:
        return [Problem(error.filename or str(one.path), None, None, error.strerror or str(error))]
    finally:
        mine.end()


def recover_all(
    paths: Sequence[str],
    topics: Sequence[str],
    exclude_topics: Sequence[str],
    *,
    dry_run: bool,
    yes: bool,
    from_start: bool,
    save_to: str | None,
) -> int:
    """A line for each partition; how many could not be recovered.

    Where data would go it is shown first, and asked for.
    """

    def run(dry_run: bool) -> list[PartitionRecovery]:
        return [
            one
            for path in paths
            for one in recover(
                path,
                topics or None,
                dry_run=dry_run,
                exclude_topics=exclude_topics,
                from_start=from_start,
                save_to=save_to,
                on_partition=lambda one: _say(one, dry_run),
            )
        ]

    if dry_run or not yes:
        found = run(dry_run=True)
        if dry_run:
            return _failed(found)
        if any(one.recovery is not None and one.recovery.cuts for one in found):
            check_is_asked()
            confirm()
    return _failed(run(dry_run=False))


def _failed(found: list[PartitionRecovery]) -> int:
    return sum(one.error is not None for one in found)


def _say(one: PartitionRecovery, dry_run: bool) -> None:
    if one.error is not None:
        note_error(one.error)
    elif one.recovery is not None:
        click.echo(f"{one.partition.path.name}: {_told(one.recovery, one.lost_records, dry_run)}")


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
    if done.cuts:
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
