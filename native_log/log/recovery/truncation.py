"""Count and copy the records that a recovery removes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from native_log.records import DecodeOptions, decode
from native_log.segment.files import LOG, file_name
from native_log.segment.rebuild import ValidBatches, read_all_batches
from native_log.segment.scan import int32s, int64s
from native_log.storage.ownership import create_directories
from native_log.storage.writing import AppendFile, fsync_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from native_log.log.recovery.log_recovery import LogRecovery
    from native_log.segment.segment import LogSegment
    from native_log.storage import DataFile

_COUNT_OPTIONS = DecodeOptions(check_crcs=False)


def count_removed_records(recovery: LogRecovery) -> int:
    """Return the number of records that are removed although their batches are valid."""
    return sum(_count_records(segment, position) for segment, position, _ in _removed_ranges(recovery))


def save_removed(recovery: LogRecovery, directory: Path) -> None:
    """Copy the data that is removed to `directory`, as a partition directory.

    The rest of a truncated segment begins with the damage. Its file is named after the offset at which the
    log was truncated. The copy is flushed to disk before this function returns. Raises FileExistsError if one
    of the files exists; OSError.
    """
    create_directories(directory)
    for segment, position, base_offset in _removed_ranges(recovery):
        path = directory / file_name(base_offset, LOG)
        copy = AppendFile(str(path), exclusive=True)
        try:
            copy.append_from(str(segment.path), position, segment.size_bytes - position)
            copy.flush()
        finally:
            copy.close()
    fsync_directory(directory)
    fsync_directory(directory.parent)


def _removed_ranges(recovery: LogRecovery) -> Iterator[tuple[LogSegment, int, int]]:
    """Yield (segment, start position, offset at that position) of the data that is removed."""
    for checked in recovery.truncated:
        yield checked.segment, checked.valid_bytes, checked.next_offset
    for segment in recovery.removed:
        yield segment, 0, segment.base_offset


def _count_records(segment: LogSegment, position: int) -> int:
    records = 0
    with segment.open() as file:
        for part in read_all_batches(segment, position, check_records=False):
            if isinstance(part, ValidBatches):
                counts = part.batches.column("recordCount")
                records += pc.sum(counts).as_py() or 0
                if counts.null_count:
                    wrappers = part.batches.filter(pc.is_null(counts))
                    records += sum(_count_wrapped(file, wrappers))
    return records


def _count_wrapped(file: DataFile, wrappers: pa.RecordBatch) -> Iterator[int]:
    """Yield how many messages are in each compressed message of magic 0 or 1."""
    for position, size in zip(int64s(wrappers, "position"), int32s(wrappers, "sizeInBytes"), strict=True):
        yield decode(file.read(position, size), [], _COUNT_OPTIONS).batch.num_rows
