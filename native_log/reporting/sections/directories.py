"""The log directories of the report."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from native_log.reporting.layout import Section
from native_log.reporting.sections.top_items import top_table
from native_log.reporting.text import number
from native_log.sizes import format_size

if TYPE_CHECKING:
    from native_log.reporting.figures import DirectoryFigures, ReportFigures


def directory_section(figures: ReportFigures) -> Section:
    partitions = Counter(partition.log_dir for partition in figures.partitions)
    sizes: Counter[str] = Counter()
    for partition in figures.partitions:
        sizes[partition.log_dir] += partition.size_bytes
    table = top_table(
        "Log directories",
        ("Path", "Cluster", "Node", "State", "Partitions", "Size"),
        figures.directories,
        lambda directory: (
            directory.path,
            directory.cluster_id or "–",
            "–" if directory.node_id is None else str(directory.node_id),
            _state(directory),
            number(partitions[directory.path]),
            format_size(sizes[directory.path]),
        ),
        numbers={2, 4, 5},
        noun="directory",
    )
    return Section("directories", "Log directories", (), (table,))


def _state(directory: DirectoryFigures) -> str:
    if directory.lock_holder is not None:
        return f"in use by process {directory.lock_holder}" if directory.lock_holder else "in use"
    if directory.clean_shutdown:
        return "cleanly shut down"
    return "not cleanly shut down" if directory.node_id is not None else "no meta.properties"
