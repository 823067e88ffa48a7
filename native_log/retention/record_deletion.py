"""Records deleted before an offset (Kafka: DeleteRecords)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.arguments import integer
from native_log.checkpoints.offset_checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    update_partition_checkpoints,
)
from native_log.errors import OffsetOutOfRangeError
from native_log.logdir.maintenance import check_changeable, open_for_maintenance
from native_log.retention.execution import truncate_epochs

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from native_log.log import PartitionLog

DELETION_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "logStartOffsetBefore": pa.int64(),
        "logStartOffset": pa.int64(),
        "highWatermark": pa.int64(),
    }
)
"""One row a partition whose records were deleted."""


def delete_records(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    offsets: Mapping[tuple[str, int], int],
    dry_run: bool = False,
) -> pa.Table:
    """Deletes the records below an offset: the log start moves there, in the middle of a batch or segment if
    need be. No data file changes; segments that lie wholly below go with the next `retain`.

    Args:
        path: log directories, or single partition directories. No broker may run on them.
        offsets: by (topic, partition), the first offset that stays; -1: the high watermark. A start that is
            there already, or lies beyond, stays.
        dry_run: change nothing, only say what would be.

    Returns:
        One row a partition, as DELETION_SCHEMA.

    Raises:
        OffsetOutOfRangeError: an offset above the high watermark; nothing is changed.
        LogDirInUseError, FileNotFoundError, NotALogDirError, EmptyLogDirError, UnknownTopicOrPartitionError.
    """
    for key in offsets:
        if not (isinstance(key, tuple) and len(key) == 2):
            raise ValueError(
                f'expected offsets as {{("orders", 0): 5}}, by topic and partition, found {key!r}'
            )
    wanted = {key: integer(f"offset of {key}", offset) for key, offset in offsets.items()}
    check_changeable(topic for topic, _ in wanted)
    rows: list[tuple[object, ...]] = []
    moved: dict[Path, tuple[str, int, int]] = {}
    with ExitStack() as locks:
        log_dir = open_for_maintenance(path, dry_run, locks)
        for (topic, partition), offset in sorted(wanted.items()):
            log = log_dir.partition(topic, partition)
            start = max(log.log_start_offset, _checked_offset(log, offset))
            if start > log.log_start_offset:
                moved[log.path] = topic, partition, start
            rows.append((topic, partition, log.log_start_offset, start, log.high_watermark))
        if not dry_run:
            update_partition_checkpoints(LOG_START_OFFSET_CHECKPOINT, moved)
            for directory, (_, _, start) in moved.items():
                truncate_epochs(directory, start)
    names = DELETION_SCHEMA.names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=DELETION_SCHEMA)


def _checked_offset(log: PartitionLog, offset: int) -> int:
    if not -1 <= offset <= log.high_watermark:
        raise OffsetOutOfRangeError(
            f"{log.topic}-{log.partition}: expected an offset up to the high watermark {log.high_watermark}, "
            f"or -1 for that, found {offset}",
            path=log.path,
            offset=offset,
        )
    return log.high_watermark if offset == -1 else offset
