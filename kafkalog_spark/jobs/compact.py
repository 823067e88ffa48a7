"""Compact Kafka logs: spark-submit compact.py LOGDIR [--topic TOPIC] [--conf NAME=VALUE] [--dry-run]"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import kafkalog_spark
from kafkalog_spark.jobs.command_line import run

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN_COLUMNS = (
    *("topic", "partition", "status", "dirtyRatio", "segmentsBefore", "segmentsAfter"),
    *("recordsBefore", "recordsAfter", "bytesBefore", "bytesAfter", "segmentsDeleted", "bytesDeleted"),
    *("reason", "settings"),
)


def summarize(rows: pa.Table, dry_run: bool) -> str:
    from native_log.outcomes import is_outcome

    columns = ["status", "recordsBefore", "recordsAfter", "bytesBefore", "bytesAfter"]
    compacted = [row for row in rows.select(columns).to_pylist() if is_outcome(row["status"], "cleaned")]
    records = sum(row["recordsBefore"] - row["recordsAfter"] for row in compacted)
    size_bytes = sum(row["bytesBefore"] - row["bytesAfter"] for row in compacted)
    would_be = "would be " if dry_run else ""
    summary = (
        f"{len(compacted)} partitions {would_be}compacted: {records} records and {size_bytes} bytes removed"
    )
    null_keys = sum(rows.column("nullKeys").to_pylist())
    if null_keys:
        summary += f"; {null_keys} of the records had no key"
    segments, deleted_bytes = (
        sum(rows.column(name).to_pylist()) for name in ("segmentsDeleted", "bytesDeleted")
    )
    if segments:
        summary += f"; {segments} old segments {would_be}deleted, {deleted_bytes} bytes"
    skipped = rows.column("status").to_pylist().count("skipped")
    return summary + (f"; {skipped} partitions skipped" if skipped else "")


if __name__ == "__main__":
    sys.exit(
        run(
            # A lambda, so that Spark is imported only after the arguments were checked.
            lambda *arguments, **options: kafkalog_spark.compact(*arguments, **options),
            "compact",
            "Compact logs as a Kafka broker does: keep only the newest record of each key. Topics that are "
            "not named are compacted if their stored policy contains compact, or if a broker has compacted "
            "them before. No broker may be running on the directories.",
            sys.argv[1:],
            shown_columns=SHOWN_COLUMNS,
            summarize=summarize,
            outcome_column="status",
        )
    )
