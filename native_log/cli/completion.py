"""Shell completion of paths, topics and partitions. Only names of directories are read: no file, no Arrow."""

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
    """Leave it to the shell, which completes directories."""
    return [CompletionItem(incomplete, type="dir")]


def complete_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave it to the shell, which completes files and directories."""
    return [CompletionItem(incomplete, type="file")]


def complete_topic(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Topics of the directories that stand before on the command line."""
    topics = {topic for topic, _ in _partitions(ctx)}
    return sorted(topic for topic in topics if topic.startswith(incomplete))


def complete_partitions(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Partitions of the topics named before, or of all; of a list such as 0-3,7 the last number."""
    before, comma, last = incomplete.rpartition(",")
    topics = ctx.params.get("topics")
    numbers = {partition for topic, partition in _partitions(ctx) if not topics or topic in topics}
    return [f"{before}{comma}{number}" for number in sorted(numbers) if str(number).startswith(last)]


def _partitions(ctx: click.Context) -> Iterator[tuple[str, int]]:
    # An option that still waits for its value keeps click from assigning the arguments.
    for path in (*(ctx.params.get("paths") or ()), *ctx.args):
        directory = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
        names = [os.path.basename(directory)]  # noqa: PTH119
        with suppress(OSError):
            names += os.listdir(directory)  # noqa: PTH208
        for name in names:
            found = parse_partition_name(name)
            if found is not None and found.kind is PartitionKind.NORMAL:
                yield found.topic, found.partition
