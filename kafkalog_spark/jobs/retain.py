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
    gone = [row for row in told.select(SHOWN).to_pylist() if row["decision"] == "deleted"]
    partitions = len({(row["topic"], row["partition"]) for row in gone})
    return (
        f"{len(gone)} segments of {partitions} partitions {'would be ' if dry_run else ''}deleted, "
        f"{sum(row['sizeInBytes'] for row in gone)} bytes"
    )


if __name__ == "__main__":
    sys.exit(
        run(
            # Imported once the arguments are right.
            lambda *arguments, **more: kafkalog_spark.retain(*arguments, **more),
            "retain",
            "Delete old segments of logs as a Kafka broker does: by log start offset, size and time. No "
            "broker may run on them meanwhile.",
            sys.argv[1:],
            shown=SHOWN,
            summary=summary,
            outcome="decision",
        )
    )
