"""One partition's log (Kafka: UnifiedLog).

| module | what |
|---|---|
| load, listing, tail | which files make up the log, and where it ends |
| leader_epochs, partition_metadata, checkpoints | what other files say of it |
| local_log | these together: a log as it was when it was opened |
| pieces | the bytes of a range of offsets |
| reading | ranges: found, cut, decoded; lookups by time; the newest record of each key |
| producers | producers' state, transactions, the last stable offset |
| recovery | what a crash left, mended |
| writing | records and batches appended |
| partition_log | all that a user does with a log |
"""

from __future__ import annotations

from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
from native_log.log.partition_log import PartitionLog
from native_log.log.reading.log_range import LogRange
from native_log.log.reading.log_scan import LogScan
from native_log.log.segment_slices import SegmentSlice

__all__ = ["LogRange", "LogScan", "PartitionCheckpoints", "PartitionLog", "SegmentSlice"]
