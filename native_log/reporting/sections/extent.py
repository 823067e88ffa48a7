"""What was examined, and what was not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.reporting.layout import Section, Table

if TYPE_CHECKING:
    from native_log.reporting.figures import ReportFigures


def extent_section(figures: ReportFigures) -> Section:
    extent = figures.extent
    yes, no = "yes", "no"
    rows = [
        ("File names, sizes and checkpoints", yes, "all partitions"),
        (
            "Batch headers",
            yes if extent.batches else "in part",
            "all batches"
            if extent.batches
            else "the first and last batches of partitions, and samples of topics; all with --batches",
        ),
        ("Internal topics", *_coordinators(figures)),
        (
            "Checksums, records, indexes, snapshots",
            yes if extent.verification else no,
            "all partitions" if extent.verification else "with --verify",
        ),
        (
            "Dry run of compaction, tombstones",
            yes if extent.compaction else no,
            "compacted topics, without internal ones" if extent.compaction else "with --compaction",
        ),
        (
            "Dry run of retention",
            yes if extent.retention else no,
            "all topics, without internal ones" if extent.retention else "with --retention",
        ),
        ("Tiered storage", no, "only local segments are read"),
    ]
    return Section(
        "extent",
        "What was examined",
        ("--full examines all but tiered storage. No file was changed. This page contains no records.",),
        (Table("What was examined", ("What", "Examined", "How much"), tuple(rows)),),
    )


def _coordinators(figures: ReportFigures) -> tuple[str, str]:
    unread = figures.coordinators.unread
    read = (figures.coordinators.groups, figures.coordinators.transactional_ids)
    if not unread:
        return "yes", "groups, committed offsets and transactional ids"
    known = sum(part is not None for part in read)
    return "in part" if known else "no", " ".join(unread.values())
