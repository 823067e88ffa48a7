"""Delete the records before an offset (Kafka: DeleteRecords)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.arguments import check_partition_keys, integer
from native_log.checkpoints.offset_checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    update_partition_checkpoints,
)
from native_log.errors import OffsetOutOfRangeError
from native_log.logdir.maintenance import check_changeable, open_for_maintenance
from native_log.outcomes import as_planned
from native_log.retention.execution import truncate_epochs

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from native_log.log import PartitionLog
    from native_log.storage import StorageOptionsLike

DELETION_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "logStartOffsetBefore": pa.int64(),
        "logStartOffset": pa.int64(),
        "highWatermark": pa.int64(),
        "status": pa.string(),
    }
)
"""One row for each partition. The offsets say where the log starts before and after the deletion. `status` is
"deleted" (in a dry run: "would be deleted"), or "unchanged" if the log starts there already."""


def delete_records(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    offsets: Mapping[tuple[str, int], int],
    dry_run: bool = False,
    *,
    storage_options: StorageOptionsLike = None,
) -> pa.Table:
    """Delete the records below an offset of each partition by moving its log start offset there.

    The new log start offset may lie inside a batch or a segment. No data file is changed. The next `retain`
    deletes the segments that are completely below the log start offset.

    Args:
        path: log directories, or single partition directories. No broker may be running on them.
        offsets: by (topic, partition), the first offset to keep; -1: the high watermark. A log that already
            starts there, or later, is not changed.
        dry_run: change nothing, and report what would be done.
        storage_options: credentials and other settings for paths that are URLs, where only a dry run is
            possible: see LogDir.

    Returns:
        One row for each partition (DELETION_SCHEMA).

    Raises:
        ValueError: a key of `offsets` is not a pair (topic, partition).
        TypeError: an offset is not an integer.
        InvalidTopicError: the log of the cluster's metadata (__cluster_metadata).
        OffsetOutOfRangeError: an offset is above the high watermark. Nothing is changed.
        LogDirInUseError: a broker or another writer is using the directory.
        FileNotFoundError, NotALogDirError, EmptyLogDirError, UnknownTopicOrPartitionError: as for LogDir.
    """
    check_partition_keys("offsets", offsets)
    requested = {key: integer(f"offset of {key}", offset) for key, offset in offsets.items()}
    check_changeable(topic for topic, _ in requested)
    rows: list[tuple[object, ...]] = []
    new_starts: dict[Path, tuple[str, int, int]] = {}
    with open_for_maintenance(path, dry_run, storage_options=storage_options) as log_dir:
        for (topic, partition), offset in sorted(requested.items()):
            log = log_dir.partition(topic, partition)
            start = max(log.log_start_offset, _resolve_offset(log, offset))
            if start > log.log_start_offset:
                new_starts[log.path] = topic, partition, start
            status = "deleted" if start > log.log_start_offset else "unchanged"
            rows.append((topic, partition, log.log_start_offset, start, log.high_watermark, status))
        if not dry_run:
            update_partition_checkpoints(LOG_START_OFFSET_CHECKPOINT, new_starts)
            for directory, (_, _, start) in new_starts.items():
                truncate_epochs(directory, start)
    names = DELETION_SCHEMA.names
    report = pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=DELETION_SCHEMA
    )
    return as_planned(report, "status", ("deleted",)) if dry_run else report


def _resolve_offset(log: PartitionLog, offset: int) -> int:
    """Return the first offset to keep. Raises OffsetOutOfRangeError."""
    if not -1 <= offset <= log.high_watermark:
        raise OffsetOutOfRangeError(
            f"{log.topic}-{log.partition}: expected an offset up to the high watermark {log.high_watermark}, "
            f"or -1 for the high watermark, found {offset}",
            path=log.path,
            offset=offset,
        )
    return log.high_watermark if offset == -1 else offset
