"""Compaction: keep only the newest record of each key, as a broker's log cleaner does (Kafka: LogCleaner).

| module | what it contains |
|---|---|
| compactor | `compact`, in this process. `kafkalog_spark.compact` does the same with Spark. |
| eligibility | Decisions: which offsets can be compacted, whether it pays, which segments form a group. |
| rounds | The plan of one compaction of one log (a round), as plain values. |
| survey | A pass over a log's batch headers that collects producers and transactions. |
| verdicts | Decisions: what a round does with each batch, from its header alone. |
| survivors | The offsets that a round keeps, found within a memory limit. |
| rewrite | Reads keys from a log and rewrites groups of segments. |
| delete_policy | Deletes old segments of a compacted log, as retention does. |
| statistics | The result: one row for each partition. |
"""

from __future__ import annotations

from native_log.compaction.compactor import compact
from native_log.compaction.statistics import STATISTICS_SCHEMA, PartitionStatistics

__all__ = ["STATISTICS_SCHEMA", "PartitionStatistics", "compact"]
