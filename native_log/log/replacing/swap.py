"""New segments put in the place of old ones, so that a crash at any point leaves either (Kafka:
LocalLog.replaceSegments, LogLoader). Hold the log directory's lock.

`.cleaned` -> `.swap` makes the new segment the truth; `.deleted`, final names and removal follow from it.
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


def move_to_cleaned(directory: Path, staging: Path, base_offset: int) -> None:
    """Takes the finished files of a segment out of a staging directory."""
    for kind in OUTPUT_KINDS:
        staged = staging / file_name(base_offset, kind, CLEANED)
        if staged.exists():
            staged.rename(directory / staged.name)


def swap_in(directory: Path, *groups: Sequence[int]) -> None:
    """Puts new segments in the place of groups of old ones.

    The old ones go at once: a log is often cleaned because there is little room left.

    Args:
        groups: base offsets of the old segments, all ascending: whoever finds `.cleaned` files beside `.swap`
            files believes only what is before them. The new segment is the `.cleaned` files of the first.
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
