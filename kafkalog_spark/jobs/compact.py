"""Compacts Kafka logs: spark-submit compact.py LOGDIR [--topic TOPIC] [--conf NAME=VALUE] [--dry-run]"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import kafkalog_spark
from kafkalog_spark.jobs.command_line import run

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = (
    *("topic", "partition", "status", "dirtyRatio", "segmentsBefore", "segmentsAfter"),
    *("recordsBefore", "recordsAfter", "bytesBefore", "bytesAfter", "segmentsDeleted", "bytesDeleted"),
    "reason",
)


def summary(told: pa.Table, dry_run: bool) -> str:
    done = [row for row in told.select(SHOWN).to_pylist() if row["status"] == "cleaned"]
    records = sum(row["recordsBefore"] - row["recordsAfter"] for row in done)
    won = sum(row["bytesBefore"] - row["bytesAfter"] for row in done)
    would_be = "would be " if dry_run else ""
    words = f"{len(done)} partitions {would_be}cleaned: {records} records less, {won} bytes won"
    deleted, size_bytes = (sum(told.column(name).to_pylist()) for name in ("segmentsDeleted", "bytesDeleted"))
    without_key = sum(told.column("nullKeys").to_pylist())
    words += f"; {without_key} of them without a key" if without_key else ""
    words += f"; {deleted} old segments {would_be}deleted, {size_bytes} bytes" if deleted else ""
    skipped = told.column("status").to_pylist().count("skipped")
    return words + (f"; {skipped} partitions skipped" if skipped else "")


if __name__ == "__main__":
    sys.exit(
        run(
            # Imported once the arguments are right.
            lambda *arguments, **more: kafkalog_spark.compact(*arguments, **more),
            "compact",
            "Compact logs as a Kafka broker does: of each key only the newest record is left. Topics that "
            "are not named are compacted if their stored policy contains compact, or a cleaner has compacted "
            "them. No broker may run on them meanwhile.",
            sys.argv[1:],
            shown=SHOWN,
            summary=summary,
            outcome="status",
        )
    )
