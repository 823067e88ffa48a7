"""Finish or undo the replacement of segments after a crash, as a broker does when it loads the log."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError
from native_log.log.listing import end_of_swap, list_log
from native_log.log.log_files import loadable_files, swap_logs
from native_log.segment.files import (
    CLEANED,
    DELETED,
    INDEX,
    LOG,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    FileName,
    parse_file_name,
)
from native_log.storage import is_file
from native_log.storage.writing import fsync_directory, removal_name, remove_folder

if TYPE_CHECKING:
    from pathlib import Path

STAGING_DIRECTORY = ".kafkalog-cleaning"
"""The folder in which a compaction by several processes stages its files. It is in the directory of the
partition, where brokers ignore names that they do not know."""

_UNFINISHED = ".tmp"


def leftover_files(directory: Path) -> tuple[str, ...]:
    """Return the names of files and folders that `finish_interrupted` would rename or remove."""
    names = _names(directory)
    files = [file for file in map(parse_file_name, names) if file is not None]
    leftover = [*(file.name for file in files if file.state), *_orphans(names, files)]
    staging = directory / STAGING_DIRECTORY
    leftover += [folder.name for folder in (staging, removal_name(staging)) if folder.exists()]
    return tuple(sorted(leftover))


def finish_interrupted(directory: Path, max_batch_bytes: int) -> None:
    """Finish or undo an interrupted replacement of segments.

    Also remove `.deleted` files, indexes without a .log file, `.tmp` files and the staging directory. Hold
    the lock of the log directory.
    """
    remove_folder(directory / STAGING_DIRECTORY)
    names = _names(directory)
    files = [file for file in map(parse_file_name, names) if file is not None]
    is_changed = any(file.state for file in files)
    if is_changed:
        _finish_replacement(directory, files, max_batch_bytes)
        names = _names(directory)
    orphans = _orphans(names, [file for file in map(parse_file_name, names) if file is not None])
    for name in orphans:
        (directory / name).unlink()
    if is_changed or orphans:
        fsync_directory(directory)


def _finish_replacement(directory: Path, files: list[FileName], max_batch_bytes: int) -> None:
    valid = loadable_files(file.name for file in files)
    replaced: set[str] = set()
    if swap_logs(valid):
        listing = list_log(str(directory), max_batch_bytes)
        new = [segment for segment in listing.segments if segment.log.endswith(f".{SWAP}")]
        low = min(segment.base_offset for segment in new)
        high = max(end_of_swap(segment, max_batch_bytes) for segment in new)
        replaced = {file.name for file in valid if not file.state and low <= file.offset < high}
    for file in files:
        is_obsolete = file.state in (CLEANED, DELETED) or (file.state == SWAP and file not in valid)
        if is_obsolete or file.name in replaced:
            (directory / file.name).unlink()
    for kind in (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT):
        for file in valid:
            if file.state == SWAP and file.kind == kind:
                (directory / file.name).rename(directory / file.name.removesuffix(f".{SWAP}"))


def try_finish_interrupted(directory: Path, max_batch_bytes: int) -> None:
    """Call `finish_interrupted` after an error, and ignore its errors: they may have the same cause."""
    with contextlib.suppress(KafkaLogError, OSError):
        finish_interrupted(directory, max_batch_bytes)


def _names(directory: Path) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries if is_file(entry)]


def _orphans(names: list[str], files: list[FileName]) -> list[str]:
    """Return the names of indexes without a .log or .log.swap file, and of `.tmp` files.

    An interrupted removal of a segment leaves such indexes. `.tmp` files are left by `replace_file`.
    """
    logs = {file.offset for file in files if file.kind == LOG and file.state in ("", SWAP)}
    kinds = (INDEX, TIME_INDEX, TRANSACTION_INDEX)
    indexes = [
        file.name for file in files if not file.state and file.kind in kinds and file.offset not in logs
    ]
    unfinished = (name for name in names if name.endswith(_UNFINISHED))
    return indexes + [
        name for name in unfinished if parse_file_name(name.removesuffix(_UNFINISHED)) is not None
    ]
