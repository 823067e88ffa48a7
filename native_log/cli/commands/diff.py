"""`kafkalog diff`."""

from __future__ import annotations

import json
from typing import Any

import click

from native_log.cli.options import paths_argument, storage_option, topics_options
from native_log.cli.runner import DATA_ERROR
from native_log.sizes import format_count


@click.command(short_help="Compare copies of partitions.")
@paths_argument
@storage_option
@topics_options("all topics")
@click.option("--include-deleted", is_flag=True, help="Include -delete and -stray directories.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines, one object for each difference.")
def diff(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    include_deleted: bool,
    storage_options: dict[str, str],
    as_json: bool,
) -> None:
    """Compare the copies of partitions in log directories of several brokers, or in snapshots.

    Each copy is compared with the leading one, which has the highest leader epoch, or is the longest among
    several. Print a line for each difference: missing partitions, offsets, leader epochs that diverge,
    damaged bytes, ranges of offsets with different batches or records. No file is changed.

    The exit code is 1 if there are differences.
    """
    if len(paths) < 2:
        raise click.UsageError(f"expected at least two directories to compare, found {paths[0]}")
    from native_log.logdir.comparison import diff as compare

    differences = 0
    for batch in compare(
        paths,
        topics=topics or None,
        exclude_topics=exclude_topics,
        include_deleted=include_deleted,
        storage_options=storage_options,
    ):
        for row in batch.to_pylist():
            click.echo(json.dumps(row, ensure_ascii=False) if as_json else _line(row))
        differences += batch.num_rows
    if not as_json:
        click.echo(format_count(differences, "difference") if differences else "no differences")
    if differences:
        raise SystemExit(DATA_ERROR)


def _line(row: dict[str, Any]) -> str:
    line = f"{row['topic']}-{row['partition']}: {row['kind']}: {row['path']}"
    if row["position"] is not None:
        line += f", position {row['position']}"
    first, last = row["firstOffset"], row["lastOffset"]
    if first is not None:
        line += f", offsets {first} to {'the end' if last is None else last}"
    other = "" if row["otherPath"] is None else f" ({row['otherPath']})"
    return f"{line}: {row['difference']}{other}"
