"""The dry runs of a report: what retention would delete."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from native_log.checkpoints.names import PartitionKind
from native_log.reporting.figures import Failure, RetentionFigures
from native_log.retention import retain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from native_log.logdir import LogDir, PartitionDir


def try_retention(
    log_dir: LogDir,
    partitions: Sequence[PartitionDir],
    now_ms: int,
    on_progress: Callable[[int, int], None],
) -> tuple[RetentionFigures, ...]:
    """Make a dry run of retention with the stored settings, and return its result by topic.

    As in `kafkalog retain`, internal topics are left out.
    """
    if not has_normal_partitions(log_dir):
        return ()
    result = retain(
        log_dir.paths,
        None,
        None,
        now_ms,
        dry_run=True,
        exclude_topics=other_topics(log_dir, partitions),
        on_progress=on_progress,
    )
    return retention_figures(result)


def retention_figures(segments: pa.Table) -> tuple[RetentionFigures, ...]:
    """Return the segments (RETENTION_SCHEMA) summed by topic."""
    groups = segments.group_by(["topic", "partition", "decision", "rule"]).aggregate(
        [("sizeInBytes", "sum"), ("baseOffset", "count"), ("reason", "min")]
    )
    topics: dict[str, RetentionFigures] = {}
    deleted: set[tuple[str, int]] = set()
    for row in groups.to_pylist():
        topic, rule = row["topic"], row["rule"]
        figures = topics.get(topic, RetentionFigures(topic))
        if row["decision"] == "failed":
            failure = Failure(f"{topic}-{row['partition']}", row["reason_min"])
            figures = replace(figures, failed=(*figures.failed, failure))
        elif row["decision"] == "kept":
            figures = replace(figures, kept_by=figures.kept_by or rule)
        else:
            is_first = (topic, row["partition"]) not in deleted
            deleted.add((topic, row["partition"]))
            figures = replace(
                figures,
                partitions=figures.partitions + is_first,
                segments=figures.segments + row["baseOffset_count"],
                size_bytes=figures.size_bytes + row["sizeInBytes_sum"],
                rules=figures.rules | {rule},
            )
        topics[topic] = figures
    return tuple(topics.values())


def has_normal_partitions(log_dir: LogDir) -> bool:
    """Return whether there are partitions that maintenance may change: not only deleted or stray ones."""
    return any(directory.kind is PartitionKind.NORMAL for directory in log_dir.partitions())


def other_topics(log_dir: LogDir, partitions: Sequence[PartitionDir]) -> list[str]:
    """Return the topics that are not among `partitions`."""
    wanted = {directory.topic for directory in partitions}
    existing = {one.topic for one in log_dir.partitions() if one.kind is PartitionKind.NORMAL}
    return sorted(existing - wanted)
