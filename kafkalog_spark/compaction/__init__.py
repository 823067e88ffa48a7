"""Compaction as a Spark job. The result is the same as that of `native_log.compact`, byte for byte.

Small partitions are compacted by one task each (`inspection`). For large partitions the data takes this path:

1. `key_collection`: a task reads one split of a log, and packs its keys and offsets into buckets.
2. `exchange`: the packs travel through files in the partition's staging directory.
3. `resolution`: a task merges one bundle of buckets into the offsets that survive. Another task plans the
   round from the headers that the first step has read.
4. `rewrite`: a task rewrites one group of segments into one segment, in the staging directory.
5. `install`: the driver puts the new segments in place and saves checkpoints.

| module | runs in | what it contains |
|---|---|---|
| job | driver | `compact`: selects partitions and runs the steps. |
| large | driver | The Spark jobs for large partitions. |
| splits | driver | Decides how the work on large partitions is divided. |
| inspection | tasks | Inspects partitions, and compacts small ones. |
| key_collection, resolution, rewrite | tasks | The steps above. |
| exchange | tasks | Writes and reads packs. |
| install | driver | Changes the logs. |
| messages | | The values that the driver and the tasks exchange. |

The driver's memory grows with the number of segments, never with the number of keys, offsets or records. Keys
go through files from task to task. Surviving offsets go through Spark's shuffle. Only the driver changes
logs, and only when all new segments of a partition are complete.
"""

from __future__ import annotations

from kafkalog_spark.compaction.job import compact

__all__ = ["compact"]
