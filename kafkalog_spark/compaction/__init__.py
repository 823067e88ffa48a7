"""Compaction as a Spark job, parallel within a partition, with the local cleaner's results.

| module | runs in | takes | gives |
|---|---|---|---|
| looking | tasks | partitions | what is to be done; small ones are cleaned at once |
| cutting | the driver | rounds over large partitions | splits, bundles of keys, groups of segments |
| gathering | tasks | splits | keys and offsets, packed; what the headers tell |
| exchange | | packed keys | files beside the log, and where in them which bundle lies |
| deciding | tasks | | what the next two do |
| merging | | bundles | the offsets that survive |
| planning | | what the headers tell | the round |
| groups | tasks | survivors and round, by group of segments | new segments in a staging directory |
| publishing | the driver | staged segments | logs changed, checkpoints saved |
| large, job | the driver | | `compact` |

The driver holds what grows with segments, never keys, offsets or records: keys go by files from the tasks
that gather to those that merge, the offsets that survive through Spark's shuffle on to those that rewrite. It
alone changes logs, once all of a partition's new segments are there.
"""

from __future__ import annotations

from kafkalog_spark.compaction.job import compact

__all__ = ["compact"]
