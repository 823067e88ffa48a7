"""The log line that says what a query reads, since Spark's plans show nothing of a Python data source."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from native_log.log import LogRange

logger = logging.getLogger("kafkalog.plan")

_MOST_NAMES = 5


def report(paths: Sequence[str], tasks: Sequence[Collection[LogRange]]) -> None:
    """Log one line at INFO, on stderr where logging is not set up: Spark plans in a process of its own."""
    if not logger.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s kafkalog: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    logger.info("%s", described(paths, tasks))


def described(paths: Sequence[str], tasks: Sequence[Collection[LogRange]]) -> str:
    """What the tasks read: "2 topics (orders, payments), 12 partitions, 4,096 bytes, 3 tasks, of /logs"."""
    ranges = [one for task in tasks for one in task]
    topics = sorted({one.topic for one in ranges})
    partitions = {(one.topic, one.partition) for one in ranges}
    names = ", ".join(topics[:_MOST_NAMES]) + (", ..." if len(topics) > _MOST_NAMES else "")
    return (
        f"{_count(len(topics), 'topic')}{f' ({names})' if names else ''}, "
        f"{_count(len(partitions), 'partition')}, {sum(one.size_bytes for one in ranges):,} bytes, "
        f"{_count(len(tasks), 'task')}, of {', '.join(paths)}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
