"""Write a segment that will replace others, under names that end in `.cleaned`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from native_log.config import LogConfig
from native_log.segment.files import CLEANED, INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX, file_name
from native_log.segment.writer import SegmentWriter
from native_log.storage.writing import flush_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from native_log.segment.transaction_index import AbortedTxn

OUTPUT_KINDS = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)
"""The files of a segment, in the order in which they are renamed."""


def create_cleaned_segment(directory: Path, base_offset: int, index_interval_bytes: int) -> SegmentWriter:
    """Create an empty `<base offset>.log.cleaned` and its indexes.

    The segment is not complete before `finish_cleaned_segment`.
    """
    config = replace(LogConfig(), index_interval_bytes=index_interval_bytes)
    return SegmentWriter.create(directory, base_offset, config, state=CLEANED)


def finish_cleaned_segment(writer: SegmentWriter, aborted: Sequence[AbortedTxn], mtime_ms: int) -> None:
    """Write the last index entries, and close the files.

    Nothing is flushed to disk: see `flush_cleaned_segment`.

    Args:
        aborted: the aborted transactions whose markers are in the segment.
        mtime_ms: the modification time to set, that of the replaced segment: retention depends on it.
    """
    paths = writer.paths
    writer.append_aborted(aborted)
    writer.close(flush=False)
    for path in paths:
        os.utime(path, ns=(mtime_ms * 1_000_000,) * 2, follow_symlinks=False)


def flush_cleaned_segment(directory: Path, base_offset: int) -> None:
    """Flush the files of a finished segment to disk."""
    for kind in OUTPUT_KINDS:
        path = directory / file_name(base_offset, kind, CLEANED)
        if path.exists():
            flush_file(path)
