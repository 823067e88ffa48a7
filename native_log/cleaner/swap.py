"""New segments put in the place of old ones, so that a crash at any point leaves either (Kafka:
LocalLog.replaceSegments, LogLoader). Hold the log directory's lock.

`.cleaned` -> `.swap` makes the new segment the truth; `.deleted`, final names and removal follow from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.cleaner.segment_output import OUTPUT_KINDS
from native_log.log.interrupted import STAGING_DIRECTORY as STAGING_DIRECTORY
from native_log.log.interrupted import finish_interrupted as finish_interrupted
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


def swap_in(directory: Path, base_offsets: Sequence[int]) -> None:
    """Puts the `.cleaned` files of the first of these base offsets in the place of the segments of all.

    These go at once: a log is often cleaned because there is little room left.
    """
    base = base_offsets[0]
    new = [k for k in OUTPUT_KINDS if (directory / file_name(base, k, CLEANED)).exists()]
    for kind in new:
        (directory / file_name(base, kind, CLEANED)).rename(directory / file_name(base, kind, SWAP))
    fsync_directory(directory)
    deleted = []
    for replaced in base_offsets:
        for kind in OUTPUT_KINDS if replaced == base else (*OUTPUT_KINDS, SNAPSHOT):
            old = directory / file_name(replaced, kind)
            if old.exists():
                deleted.append(old.rename(directory / f"{old.name}.{DELETED}"))
    for kind in new:
        (directory / file_name(base, kind, SWAP)).rename(directory / file_name(base, kind))
    fsync_directory(directory)
    for old in deleted:
        old.unlink()
