"""Select among the partitions that a LogDir reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.logdir.selection import ALL_KINDS, PartitionSelection, filter_partitions

if TYPE_CHECKING:
    from collections.abc import Collection

    from native_log.checkpoints.names import PartitionKind
    from native_log.logdir.discovery import PartitionDir
    from native_log.logdir.logdir import LogDir


def select_partitions(
    log_dir: LogDir,
    selection: PartitionSelection,
    *,
    kinds: Collection[PartitionKind] = ALL_KINDS,
    required: bool = False,
) -> list[PartitionDir]:
    """Return the selected ones of the partitions that a LogDir reads: see `filter_partitions`."""
    return filter_partitions(
        log_dir.partitions(),
        selection,
        kinds=kinds,
        ignored=log_dir.ignored,
        paths=log_dir.paths,
        required=required,
    )
