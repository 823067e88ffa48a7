"""Delete old segments of Kafka logs: spark-submit retain.py LOGDIR [--topic TOPIC] [--conf NAME=VALUE]
[--dry-run]"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import kafkalog_spark
from kafkalog_spark.jobs.command_line import run

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN_COLUMNS = (
    "topic",
    "partition",
    "baseOffset",
    "endOffset",
    "sizeInBytes",
    "decision",
    "rule",
    "reason",
    "settings",
)


def summarize(rows: pa.Table, dry_run: bool) -> str:
    from native_log.outcomes import is_outcome
    from native_log.retention.plan import list_kept_topics

    columns = ["topic", "partition", "sizeInBytes", "decision"]
    deleted = [row for row in rows.select(columns).to_pylist() if is_outcome(row["decision"], "deleted")]
    partitions = len({(row["topic"], row["partition"]) for row in deleted})
    summary = (
        f"{len(deleted)} segments of {partitions} partitions {'would be ' if dry_run else ''}deleted, "
        f"{sum(row['sizeInBytes'] for row in deleted)} bytes"
    )
    kept = list_kept_topics(rows)
    return summary + (f"; kept: {kept}" if kept else "")


if __name__ == "__main__":
    sys.exit(
        run(
            # A lambda, so that Spark is imported only after the arguments were checked.
            lambda *arguments, **options: kafkalog_spark.retain(*arguments, **options),
            "retain",
            "Delete old segments of logs as a Kafka broker does: by log start offset, size and time. "
            "Settings that are not given are taken from the cluster metadata. Segments of compacted topics "
            "are kept, unless --topic names the topic and --conf cleanup.policy=delete is given. No broker "
            "may be running on the directories.",
            sys.argv[1:],
            shown_columns=SHOWN_COLUMNS,
            summarize=summarize,
            outcome_column="decision",
        )
    )
