"""The files of partitions, and what Kafka's own tool says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from benchmarks.broker import Broker

DERIVED = ("index", ".snapshot", "leader-epoch-checkpoint")


def contents(partition: Path) -> dict[str, bytes]:
    """The files of a partition by name."""
    return {path.name: path.read_bytes() for path in sorted(partition.iterdir()) if path.is_file()}


def remove_derived(partitions: Iterable[Path]) -> None:
    """Leave nothing but batches and the topic's id."""
    for partition in partitions:
        for path in partition.iterdir():
            if path.name.endswith(DERIVED):
                path.unlink()


def dump_log(broker: Broker, partitions: Iterable[Path]) -> tuple[str, str]:
    """What kafka-dump-log prints of all files of the partitions, each record included, and its complaints."""
    files = [
        str(path)
        for partition in partitions
        for path in sorted(partition.iterdir())
        if path.name.endswith((".log", "index", ".snapshot"))
    ]
    return broker.run_tool("kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(files))
