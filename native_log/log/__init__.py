"""One partition's log (Kafka: UnifiedLog).

| module | contents |
|---|---|
| offset_span | arithmetic with ranges of offsets |
| log_files, listing, tail | the files that make up a log, and the offset at which it ends |
| slices, sliced_range | the byte ranges of segments that hold a range of offsets |
| log_state | the state of a log when it was opened, and the protocol of where logs come from |
| sources | where logs come from: one directory, or several places joined |
| largest_timestamp | the largest timestamp in a segment |
| readable_log | a log to read from |
| unbounded_range | the records of a whole log whose end has not been looked up yet |
| reading | split and decode ranges; look up timestamps; find the newest record of each key |
| live | keep logs up to date while they are written to, and follow them |
| producers | producer state, transactions and the last stable offset |
| writing | append records and batches; roll segments |
| replacing | replace segments by cleaned ones, and finish a replacement after a crash |
| recovery | recover a log after an unclean shutdown |
| verification, segment_check, epoch_check, problems | check a log without changing it |
| replicas | several copies of one log, read as one log |
| partition_log | PartitionLog, the public API of one partition: read, append and follow |
"""

from __future__ import annotations

from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
from native_log.log.live.log_follower import LogFollower
from native_log.log.partition_log import PartitionLog
from native_log.log.reading.log_range import LogRange
from native_log.log.reading.log_scan import LogScan
from native_log.log.slices import SegmentSlice

__all__ = ["LogFollower", "LogRange", "LogScan", "PartitionCheckpoints", "PartitionLog", "SegmentSlice"]
