"""What recovery cuts off of a log: how much of it could still be read, and a copy of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.records import DecodeOptions, decode
from native_log.segment.files import LOG, file_name
from native_log.segment.lookup import SegmentLookup
from native_log.storage import Window
from native_log.storage.writing import AppendFile, fsync_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from native_log.log.recovery.log_recovery import LogRecovery
    from native_log.segment.segment import LogSegment


def cut_records(recovery: LogRecovery) -> int:
    """How many records lie in what goes, in batches that are whole and right."""
    return sum(_records(segment, position) for segment, position, _ in _cut_off(recovery))


def save_cut(recovery: LogRecovery, directory: Path) -> None:
    """Copy what goes to `directory`, as a partition directory: the cut segment's rest, which begins with the
    damage, under the offset where the log was cut.

    It is on the disk before this returns, and so before anything of the log goes. Raises FileExistsError if
    one of the files is there; OSError.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for segment, position, base_offset in _cut_off(recovery):
        path = directory / file_name(base_offset, LOG)
        copy = AppendFile(str(path), exclusive=True)
        try:
            copy.append_from(str(segment.path), position, segment.size_bytes - position)
            copy.flush()
        finally:
            copy.close()
    fsync_directory(directory)
    fsync_directory(directory.parent)


def _cut_off(recovery: LogRecovery) -> Iterator[tuple[LogSegment, int, int]]:
    """(segment, from which position on, offset that begins there)"""
    for one in recovery.truncated:
        yield one.segment, one.valid_bytes, one.next_offset
    for segment in recovery.removed:
        yield segment, 0, segment.base_offset


def _records(segment: LogSegment, position: int) -> int:
    found = 0
    with SegmentLookup(segment, segment.size_bytes, Window()) as lookup:
        for scanned in lookup.batches(position, lambda _: None, only_valid=True):
            for count, at, size in zip(
                *(
                    scanned.batches.column(name).to_pylist()
                    for name in ("recordCount", "position", "sizeInBytes")
                ),
                strict=True,
            ):
                if count is None:  # in a compressed v0/v1 wrapper
                    batch = lookup.file.read(at, size)
                    count = decode(batch, ["offset"], DecodeOptions(check_crcs=False)).batch.num_rows
                found += count
    return found
