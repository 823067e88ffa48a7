"""Replace old segments by new ones (Kafka: LocalLog.replaceSegments, LogLoader).

A crash leaves either the old segments or the new ones. A new segment is complete when its files are renamed
from `.cleaned` to `.swap`. Then the old files are renamed to `.deleted`, the new files to their final names,
and the old files are removed. After a crash a broker or `finish_interrupted` does these last steps.

Hold the lock of the log directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.log.replacing.cleaned_segment import OUTPUT_KINDS
from native_log.segment.files import (
    CLEANED,
    DELETED,
    SNAPSHOT,
    SWAP,
    file_name,
)
from native_log.storage.writing import fsync_directory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def move_from_staging(directory: Path, staging: Path, base_offset: int) -> None:
    """Move the finished files of a segment from a staging directory to the directory of the partition."""
    for kind in OUTPUT_KINDS:
        staged = staging / file_name(base_offset, kind, CLEANED)
        if staged.exists():
            staged.rename(directory / staged.name)


def replace_segments(directory: Path, *groups: Sequence[int]) -> None:
    """Replace groups of old segments by one new segment each.

    The old files are removed at once: logs are often compacted because the disk is almost full.

    Args:
        groups: for each group the base offsets of the old segments, all in ascending order. The new segment
            has the `.cleaned` files of the group's first base offset. If a crash leaves `.cleaned` and
            `.swap` files, loading the log keeps only the `.swap` files below the lowest `.cleaned` file.
    """
    new = [
        (base_offsets[0], kind)
        for base_offsets in groups
        for kind in OUTPUT_KINDS
        if (directory / file_name(base_offsets[0], kind, CLEANED)).exists()
    ]
    for base, kind in new:
        (directory / file_name(base, kind, CLEANED)).rename(directory / file_name(base, kind, SWAP))
    fsync_directory(directory)
    deleted = []
    for base, *others in groups:
        names = [file_name(base, kind) for kind in OUTPUT_KINDS]
        names += [file_name(other, kind) for other in others for kind in (*OUTPUT_KINDS, SNAPSHOT)]
        for old in map(directory.joinpath, names):
            if old.exists():
                deleted.append(old.rename(directory / f"{old.name}.{DELETED}"))
    for base, kind in new:
        (directory / file_name(base, kind, SWAP)).rename(directory / file_name(base, kind))
    fsync_directory(directory)
    for old in deleted:
        old.unlink()
