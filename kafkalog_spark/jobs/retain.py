"""Deletes old segments of Kafka logs: spark-submit retain.py LOGDIR [--topic TOPIC] [--conf NAME=VALUE]
[--dry-run]"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import kafkalog_spark
from kafkalog_spark.jobs.command_line import run

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = ("topic", "partition", "baseOffset", "endOffset", "sizeInBytes", "decision", "rule", "reason")


def summary(told: pa.Table, dry_run: bool) -> str:
    from native_log.retention.plan import kept_whole

    gone = [row for row in told.select(SHOWN).to_pylist() if row["decision"] == "deleted"]
    partitions = len({(row["topic"], row["partition"]) for row in gone})
    words = (
        f"{len(gone)} segments of {partitions} partitions {'would be ' if dry_run else ''}deleted, "
        f"{sum(row['sizeInBytes'] for row in gone)} bytes"
    )
    kept = kept_whole(told)
    return words + (f"; kept: {kept}" if kept else "")


if __name__ == "__main__":
    sys.exit(
        run(
            # Imported once the arguments are right.
            lambda *arguments, **more: kafkalog_spark.retain(*arguments, **more),
            "retain",
            "Delete old segments of logs as a Kafka broker does: by log start offset, size and time. "
            "Settings that are not given are those stored in the cluster's metadata. Topics that are "
            "compacted are kept, unless --topic names them and --conf cleanup.policy=delete is given. No "
            "broker may run on them meanwhile.",
            sys.argv[1:],
            shown=SHOWN,
            summary=summary,
            outcome="decision",
        )
    )
