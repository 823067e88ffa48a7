"""Where else in log directories records of a topic may lie."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from native_log.logdir.discovery import find_partitions
from native_log.logdir.names import PartitionKind
from native_log.segment.files import LOG, parse_file_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from native_log.logdir import LogDir, PartitionDir


def leftovers(directory: Path) -> list[str]:
    """Files of segments that left the log, or were to replace others: `.deleted`, `.cleaned`, `.swap`."""
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    files = ((name, parse_file_name(name)) for name in names)
    return sorted(str(directory / name) for name, file in files if file is not None and file.state)


def copies(log_dir: LogDir, chosen: Sequence[PartitionDir]) -> Iterator[tuple[PartitionDir, Path, str]]:
    """(partition, path, what it is) of directories that were not chosen though they are of chosen topics, and
    of partitions whose log begins before what is there."""
    paths, topics = {one.path for one in chosen}, {one.topic for one in chosen}
    keys = {one.key for one in chosen}
    for directory in log_dir.directories:
        for one in find_partitions(directory.path).partitions:
            if one.topic not in topics or one.path in paths:
                continue
            if one.kind is not PartitionKind.NORMAL:
                yield one, one.path, f"a {one.kind} directory: erase there by its own path, or remove it"
            elif one.key in keys:
                yield one, one.path, "another directory of the partition: erase there by its own path"
    for one in chosen:
        with os.scandir(one.path) as entries:
            names = {entry.name: entry.is_dir() for entry in entries}
        for name in sorted(name for name, is_directory in names.items() if is_directory):
            yield one, one.path / name, "a directory within a partition's: what an unfinished write staged"
        start, first = log_dir.checkpoints(one).log_start_offset, _first_offset(names)
        if start is not None and first is not None and start < first:
            what = f"its log starts at offset {start}, the files at {first}: is the rest in tiered storage?"
            yield one, one.path, what


def _first_offset(names: Iterable[str]) -> int | None:
    files = (parse_file_name(name) for name in names)
    return min((f.offset for f in files if f is not None and f.kind == LOG and not f.state), default=None)
