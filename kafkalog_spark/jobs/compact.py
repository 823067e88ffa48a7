"""Compacts Kafka logs: spark-submit compact.py LOGDIR [--topic TOPIC] [--conf NAME=VALUE] [--dry-run]"""

from __future__ import annotations

import sys

from kafkalog_spark.compaction import compact
from kafkalog_spark.jobs.command_line import run

if __name__ == "__main__":
    sys.exit(
        run(
            compact,
            "compact",
            "Compact logs as a Kafka broker does: of each key only the newest record is left. No broker may "
            "run on them meanwhile.",
            sys.argv[1:],
        )
    )
