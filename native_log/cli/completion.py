"""Shell completion of paths, topics and partitions.

To be fast, it lists directories only: it opens no file and does not import Arrow.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from native_log.checkpoints.names import PartitionKind, parse_partition_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click


def complete_directory(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete a directory."""
    return [CompletionItem(incomplete, type="dir")]


def complete_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete a file or directory."""
    return [CompletionItem(incomplete, type="file")]


def complete_topic(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete a topic of the directories that precede it on the command line."""
    topics = {topic for topic, _ in _partitions(ctx)}
    return sorted(topic for topic in topics if topic.startswith(incomplete))


def complete_partitions(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the last number of a list such as 0-3,7 with a partition of the named or of all topics."""
    before, comma, last = incomplete.rpartition(",")
    topics = ctx.params.get("topics")
    numbers = {partition for topic, partition in _partitions(ctx) if not topics or topic in topics}
    return [f"{before}{comma}{number}" for number in sorted(numbers) if str(number).startswith(last)]


def _partitions(ctx: click.Context) -> Iterator[tuple[str, int]]:
    # click does not assign the arguments while the value of an option is still missing.
    for path in (*(ctx.params.get("paths") or ()), *ctx.args):
        directory = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
        names = [os.path.basename(directory)]  # noqa: PTH119
        with suppress(OSError):
            names += os.listdir(directory)  # noqa: PTH208
        for name in names:
            partition = parse_partition_name(name)
            if partition is not None and partition.kind is PartitionKind.NORMAL:
                yield partition.topic, partition.partition
