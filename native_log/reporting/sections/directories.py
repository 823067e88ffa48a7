"""The log directories of the report."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from native_log.checkpoints.lock import describe_holder
from native_log.reporting.layout import Section
from native_log.reporting.sections.top_items import top_table
from native_log.reporting.text import number
from native_log.sizes import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.reporting.figures import CopyFigures, DirectoryFigures, ReportFigures
    from native_log.reporting.layout import Table

_COPIES = (
    "Several directories contain the same partitions. The other figures on this page are from the longest "
    "copy of each partition. Best is the leading copy: the one with the highest leader epoch, or the longest "
    "of several. kafkalog diff compares copies."
)


def directory_section(figures: ReportFigures) -> Section:
    partitions: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    unread = [copy for copy in figures.copies if not copy.is_read]
    read = [(partition.log_dir, partition.size_bytes) for partition in figures.partitions]
    for log_dir, size_bytes in [*read, *((copy.log_dir, copy.size_bytes) for copy in unread)]:
        partitions[log_dir] += 1
        sizes[log_dir] += size_bytes
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
    if not figures.copies:
        return Section("directories", "Log directories", (), (table,))
    return Section("directories", "Log directories", (_COPIES,), (table, _copy_table(figures.copies)))


def _copy_table(copies: Sequence[CopyFigures]) -> Table:
    return top_table(
        "Copies of partitions",
        ("Partition", "Directory", "Best", "End offset", "High watermark", "Epoch", "Size", "Problems"),
        copies,
        lambda copy: (
            copy.name,
            copy.log_dir,
            "*" if copy.is_leading else "",
            number(copy.log_end_offset),
            "–" if copy.high_watermark is None else number(copy.high_watermark),
            "–" if copy.leader_epoch < 0 else str(copy.leader_epoch),
            format_size(copy.size_bytes),
            "–" if copy.problems is None else number(copy.problems),
        ),
        numbers={3, 4, 5, 6, 7},
        noun="copy",
    )


def _state(directory: DirectoryFigures) -> str:
    if directory.lock_holder is not None:
        return describe_holder(directory.lock_holder)
    if directory.clean_shutdown:
        return "cleanly shut down"
    return "not cleanly shut down" if directory.node_id is not None else "no meta.properties"
