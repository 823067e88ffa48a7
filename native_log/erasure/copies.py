"""Where else in log directories records of a topic may lie."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from native_log.logdir.discovery import find_partitions
from native_log.segment.files import parse_file_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from native_log.logdir import LogDir, PartitionDir


def leftovers(directory: Path) -> list[str]:
    """Files of segments that left the log, or were to replace others: `.deleted`, `.cleaned`, `.swap`."""
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    files = ((name, parse_file_name(name)) for name in names)
    return sorted(str(directory / name) for name, file in files if file is not None and file.state)


def copies(log_dir: LogDir, chosen: Sequence[PartitionDir]) -> Iterator[tuple[PartitionDir, Path, str]]:
    """(partition, path, what it is) of directories that were not chosen though they are of chosen topics."""
    paths, topics = {one.path for one in chosen}, {one.topic for one in chosen}
    for directory in log_dir.directories:
        for one in find_partitions(directory.path).partitions:
            if one.topic in topics and one.path not in paths:
                yield one, one.path, f"a {one.kind} directory: erase there by its own path, or remove it"
    for one in chosen:
        with os.scandir(one.path) as entries:
            inner = sorted(entry.path for entry in entries if entry.is_dir())
        for path in inner:
            yield one, one.path / path, "a directory within a partition's: what an unfinished write staged"
