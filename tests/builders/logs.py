"""Write the directories of partitions from batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.segment.files import file_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def write_log(directory: Path, segments: Mapping[int, Sequence[bytes]]) -> Path:
    """Write a partition directory with segments by base offset, and an empty offset index for each."""
    directory.mkdir(parents=True, exist_ok=True)
    for base_offset, batches in segments.items():
        (directory / file_name(base_offset, "log")).write_bytes(b"".join(batches))
        (directory / file_name(base_offset, "index")).touch()
    return directory
