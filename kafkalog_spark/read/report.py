"""Log what a query reads, because Spark's plans show nothing about a Python data source."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from native_log.sizes import format_count

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkalog_spark.options.offset_json import TopicPartition
    from kafkalog_spark.read.tasks import AnyRange

logger = logging.getLogger("kafkalog.plan")

_MAX_NAMES = 5


def log_plan(
    paths: Sequence[str],
    splits: Sequence[Collection[AnyRange]],
    left: Mapping[TopicPartition, int] | None = None,
) -> None:
    """Log one line at INFO level.

    If logging is not configured, the line goes to stderr. This is the usual case, because Spark plans in a
    separate Python process.

    Args:
        left: how many offsets of each partition a micro-batch leaves to later ones; None: it is a batch read.
    """
    if not logger.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s kafkalog: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    line = describe_plan(paths, splits)
    logger.info("%s", line if left is None else f"{line}; {describe_backlog(left)} behind")


def describe_plan(paths: Sequence[str], splits: Sequence[Collection[AnyRange]]) -> str:
    """Return, for example, "2 topics (orders, payments), 12 partitions, 4,096 bytes, 3 tasks, of /logs"."""
    ranges = [r for split in splits for r in split]
    topics = sorted({r.topic for r in ranges})
    partitions = {(r.topic, r.partition) for r in ranges}
    names = ", ".join(topics[:_MAX_NAMES]) + (", ..." if len(topics) > _MAX_NAMES else "")
    return (
        f"{format_count(len(topics), 'topic')}{f' ({names})' if names else ''}, "
        f"{format_count(len(partitions), 'partition')}, {sum(r.size_bytes for r in ranges):,} bytes, "
        f"{format_count(len(splits), 'task')}, of {', '.join(paths)}"
    )


def describe_backlog(left: Mapping[TopicPartition, int]) -> str:
    """Return, for example, "12,000 offsets in 3 partitions"."""
    offsets = format_count(sum(left.values()), "offset")
    return f"{offsets} in {format_count(len(left), 'partition')}" if left else offsets
