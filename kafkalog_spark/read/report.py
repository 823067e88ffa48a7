"""Log what a query reads, because Spark's plans show nothing about a Python data source."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from native_log.log import LogRange

logger = logging.getLogger("kafkalog.plan")

_MAX_NAMES = 5


def log_plan(paths: Sequence[str], splits: Sequence[Collection[LogRange]]) -> None:
    """Log one line at INFO level.

    If logging is not configured, the line goes to stderr. This is the usual case, because Spark plans in a
    separate Python process.
    """
    if not logger.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s kafkalog: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    logger.info("%s", describe_plan(paths, splits))


def describe_plan(paths: Sequence[str], splits: Sequence[Collection[LogRange]]) -> str:
    """Return, for example, "2 topics (orders, payments), 12 partitions, 4,096 bytes, 3 tasks, of /logs"."""
    ranges = [r for split in splits for r in split]
    topics = sorted({r.topic for r in ranges})
    partitions = {(r.topic, r.partition) for r in ranges}
    names = ", ".join(topics[:_MAX_NAMES]) + (", ..." if len(topics) > _MAX_NAMES else "")
    return (
        f"{_count(len(topics), 'topic')}{f' ({names})' if names else ''}, "
        f"{_count(len(partitions), 'partition')}, {sum(r.size_bytes for r in ranges):,} bytes, "
        f"{_count(len(splits), 'task')}, of {', '.join(paths)}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
