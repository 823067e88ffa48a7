"""Read, remove and dump the files of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from benchmarks.broker import Broker

DERIVED = ("index", ".snapshot", "leader-epoch-checkpoint")


def contents(partition: Path) -> dict[str, bytes]:
    """Return the contents of a partition's files by name."""
    return {path.name: path.read_bytes() for path in sorted(partition.iterdir()) if path.is_file()}


def remove_derived(partitions: Iterable[Path]) -> None:
    """Remove all files that can be rebuilt, so that batches and the topic id remain."""
    for partition in partitions:
        for path in partition.iterdir():
            if path.name.endswith(DERIVED):
                path.unlink()


def replace_log(partition: Path, by: Path) -> None:
    """Replace an empty log by another, and keep partition.metadata, which has the topic id of the broker."""
    for path in partition.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in by.iterdir():
        if path.name != "partition.metadata":
            path.rename(partition / path.name)


def dump_log(broker: Broker, partitions: Iterable[Path]) -> tuple[str, str]:
    """Return the output of kafka-dump-log, with every record, and its error output."""
    files = [
        str(path)
        for partition in partitions
        for path in sorted(partition.iterdir())
        if path.name.endswith((".log", "index", ".snapshot"))
    ]
    return broker.run_tool("kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(files))
