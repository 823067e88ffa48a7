"""Describe log directories: who uses them, and what a broker has set aside in them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from native_log.checkpoints.names import PartitionKind, parse_partition_name
from native_log.reporting.figures import DirectoryFigures

if TYPE_CHECKING:
    from native_log.logdir import DirectoryState


def describe_directory(state: DirectoryState) -> DirectoryFigures:
    """Return the figures of a log directory."""
    properties = state.meta_properties
    return DirectoryFigures(
        str(state.path),
        None if properties is None else properties.cluster_id,
        None if properties is None else properties.node_id,
        state.clean_shutdown,
        state.lock_holder,
        state.has_interrupted_write,
        _set_aside(str(state.path)),
    )


def _set_aside(log_dir: str) -> dict[str, tuple[int, int]]:
    """Return number and size of the directories that are not read, by kind."""
    set_aside: dict[str, tuple[int, int]] = {}
    try:
        with os.scandir(log_dir) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return set_aside
    for name in names:
        partition = parse_partition_name(name)
        if partition is not None and partition.kind is not PartitionKind.NORMAL:
            number, size_bytes = set_aside.get(partition.kind, (0, 0))
            set_aside[partition.kind.value] = number + 1, size_bytes + _size_bytes(f"{log_dir}/{name}")
    return set_aside


def _size_bytes(directory: str) -> int:
    """Return the size of the files in a directory, as far as it can be listed."""
    try:
        with os.scandir(directory) as entries:
            return sum(entry.stat(follow_symlinks=False).st_size for entry in entries if entry.is_file())
    except OSError:  # a broker may remove it meanwhile
        return 0
