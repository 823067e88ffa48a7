"""The report of a recovery: one row for each partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.errors import error_message
from native_log.outcomes import planned

if TYPE_CHECKING:
    from native_log.errors import KafkaLogError
    from native_log.log.recovery.log_recovery import LogRecovery
    from native_log.logdir.discovery import PartitionDir

_DAMAGE = pa.list_(
    pa.struct({"path": pa.string(), "position": pa.int64(), "offset": pa.int64(), "reason": pa.string()})
)
RECOVERY_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "path": pa.string(),
        "status": pa.string(),
        "reason": pa.string(),
        "logStartOffset": pa.int64(),
        "logEndOffset": pa.int64(),
        "segmentsChecked": pa.int64(),
        "segmentsRemoved": pa.int64(),
        "bytesLost": pa.int64(),
        "recordsLost": pa.int64(),
        "filesLeftBehind": pa.int64(),
        "cut": _DAMAGE,
        "damageKept": _DAMAGE,
    }
)
"""One row for each partition. In a dry run, the columns say what would be done.

- `path`: the partition directory;
- `status`: "whole", "cut" (data is removed; in a dry run: "would be cut"), or "failed" (then all columns
  after `reason` are null);
- `reason`: why data is removed, or why the recovery failed;
- `logStartOffset`, `logEndOffset`: the offsets of the log after the recovery, end exclusive;
- `segmentsChecked`, `segmentsRemoved`: numbers of segments;
- `bytesLost`, `recordsLost`: the bytes that are removed, and the number of records in them that can be read;
- `filesLeftBehind`: the number of files that no longer belong to the log;
- `cut`: where segments are truncated, and why;
- `damageKept`: damage that a broker's recovery does not detect, and that is kept.
"""


@dataclass(frozen=True, slots=True)
class PartitionRecovery:
    """The result of recovering a partition.

    Attributes:
        partition: the partition directory.
        recovery: the recovery; None if it failed.
        lost_records: the number of records that are removed although they can be read, because they follow
            damage.
        error: why the recovery failed. The log may be changed in part; recovering it again is safe.
    """

    partition: PartitionDir
    recovery: LogRecovery | None
    lost_records: int = 0
    error: KafkaLogError | OSError | None = None


def recovery_row(result: PartitionRecovery, *, dry_run: bool) -> dict[str, object]:
    """Return a partition's row of RECOVERY_SCHEMA."""
    row: dict[str, object] = {
        "topic": result.partition.topic,
        "partition": result.partition.partition,
        "path": str(result.partition.path),
    }
    recovery = result.recovery
    if recovery is None:
        return row | {
            "status": "failed",
            "reason": None if result.error is None else error_message(result.error),
        }
    cut = [
        {
            "path": str(segment.segment.path),
            "position": segment.valid_bytes,
            "offset": segment.next_offset,
            "reason": None if segment.damage is None else segment.damage.message,
        }
        for segment in recovery.truncated
    ]
    kept = [
        {
            "path": str(segment.path),
            "position": damage.position,
            "offset": damage.offset,
            "reason": damage.message,
        }
        for segment, damage in recovery.out_of_order
    ]
    outcome = planned("cut") if dry_run else "cut"
    return row | {
        "status": outcome if recovery.loses_data else "whole",
        "reason": recovery.reason,
        "logStartOffset": recovery.log_start_offset,
        "logEndOffset": recovery.log_end_offset,
        "segmentsChecked": len(recovery.checked),
        "segmentsRemoved": len(recovery.removed),
        "bytesLost": recovery.lost_bytes,
        "recordsLost": result.lost_records,
        "filesLeftBehind": len(recovery.left_behind),
        "cut": cut,
        "damageKept": kept,
    }
