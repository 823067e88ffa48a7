"""What verification found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.reporting.layout import Section, Table
from native_log.reporting.text import count, number

if TYPE_CHECKING:
    from native_log.reporting.figures import ReportFigures


def verification_section(figures: ReportFigures) -> Section:
    title = "Verification"
    problems = figures.problems
    if problems is None:
        return Section(
            "verification",
            title,
            (
                (
                    "Not examined. Checksums, records, indexes and snapshots were not checked, so this page "
                    "does not show damage within logs. Use --verify or --full, which read every byte."
                ),
            ),
        )
    if not problems:
        checked = count(len(figures.partitions), "partition")
        return Section(
            "verification",
            title,
            (f"No problems were found in the batches, records, indexes and snapshots of {checked}.",),
        )
    total = sum(kind.count for kind in problems)
    return Section(
        "verification",
        title,
        (f"{count(total, 'problem')}. kafkalog verify prints all of them, with advice.",),
        (
            Table(
                "Problems by kind",
                ("Kind", "Number", "First example"),
                tuple(
                    (kind.kind, number(kind.count), kind.examples[0])
                    for kind in sorted(problems, key=lambda kind: (-kind.count, kind.kind))
                ),
                frozenset({1}),
            ),
        ),
    )
