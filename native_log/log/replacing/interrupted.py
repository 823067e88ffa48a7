"""What a crash left of segments being replaced, sorted out as a broker does when it loads the log."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError
from native_log.log.listing import list_log, next_offset
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
"""Where a cleaning by several processes keeps what is not finished. In the partition's directory, where
brokers pass over what they do not know."""

_UNFINISHED = ".tmp"


def left_behind(directory: Path) -> tuple[str, ...]:
    """Names of what `finish_interrupted` would rename or remove."""
    names = _names(directory)
    files = [file for file in map(parse_file_name, names) if file is not None]
    found = [*(file.name for file in files if file.state), *_orphans(names, files)]
    staging = directory / STAGING_DIRECTORY
    found += [folder.name for folder in (staging, removal_name(staging)) if folder.exists()]
    return tuple(sorted(found))


def finish_interrupted(directory: Path, max_batch_bytes: int) -> None:
    """Undo or carry through a replacing of segments that was interrupted, and remove `.deleted` files,
    indexes without a log, `.tmp` files, and what was staged.

    Hold the log directory's lock.
    """
    remove_folder(directory / STAGING_DIRECTORY)
    names = _names(directory)
    files = [file for file in map(parse_file_name, names) if file is not None]
    is_changed = any(file.state for file in files)
    if is_changed:
        _finish_replacing(directory, files, max_batch_bytes)
        names = _names(directory)
    orphans = _orphans(names, [file for file in map(parse_file_name, names) if file is not None])
    for name in orphans:
        (directory / name).unlink()
    if is_changed or orphans:
        fsync_directory(directory)


def _finish_replacing(directory: Path, files: list[FileName], max_batch_bytes: int) -> None:
    valid = loadable_files(file.name for file in files)
    replaced: set[str] = set()
    if swap_logs(valid):
        listing = list_log(str(directory), max_batch_bytes)
        new = [segment for segment in listing.segments if segment.log.endswith(f".{SWAP}")]
        low = min(segment.base_offset for segment in new)
        high = max(next_offset(segment, max_batch_bytes) for segment in new)
        replaced = {file.name for file in valid if not file.state and low <= file.offset < high}
    for file in files:
        void = file.state in (CLEANED, DELETED) or (file.state == SWAP and file not in valid)
        if void or file.name in replaced:
            (directory / file.name).unlink()
    for kind in (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT):
        for file in valid:
            if file.state == SWAP and file.kind == kind:
                (directory / file.name).rename(directory / file.name.removesuffix(f".{SWAP}"))


def tidy_up(directory: Path, max_batch_bytes: int) -> None:
    """`finish_interrupted` after a failure, which may be what stops this, too."""
    with contextlib.suppress(KafkaLogError, OSError):
        finish_interrupted(directory, max_batch_bytes)


def _names(directory: Path) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries if is_file(entry)]


def _orphans(names: list[str], files: list[FileName]) -> list[str]:
    """Indexes without a .log, be it a .swap: a segment's removal that was interrupted. Files that were to
    replace others (see storage.writing.replace_file)."""
    logs = {file.offset for file in files if file.kind == LOG and file.state in ("", SWAP)}
    kinds = (INDEX, TIME_INDEX, TRANSACTION_INDEX)
    indexes = [
        file.name for file in files if not file.state and file.kind in kinds and file.offset not in logs
    ]
    unfinished = (name for name in names if name.endswith(_UNFINISHED))
    return indexes + [
        name for name in unfinished if parse_file_name(name.removesuffix(_UNFINISHED)) is not None
    ]
