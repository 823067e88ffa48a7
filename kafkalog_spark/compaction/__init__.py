"""Compaction as a Spark job, parallel within a partition, with the local cleaner's results.

| module | runs in | takes | gives |
|---|---|---|---|
| looking | tasks | partitions | what is to be done; small ones are cleaned at once |
| planning | tasks | parts of large partitions, their headers | rounds, cut into splits, bundles and groups |
| keys | tasks | splits, then bundles | keys and offsets, packed; then the offsets that survive |
| groups | tasks | survivors, by group of segments | new segments in a staging directory |
| publishing | the driver | staged segments | logs changed, checkpoints saved |
| job | the driver | | `compact` |

The driver holds what grows with segments, never keys, offsets or records: keys go packed through Spark's
shuffle, the offsets that survive straight on to the tasks that rewrite. It alone changes logs, once all of a
partition's new segments are there.
"""

from __future__ import annotations

from kafkalog_spark.compaction.job import compact

__all__ = ["compact"]
