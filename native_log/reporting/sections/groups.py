"""How far groups are behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.checkpoints.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from native_log.reporting.layout import Bars, Section, Series
from native_log.reporting.sections.top_items import top_bars, top_table
from native_log.reporting.text import count, number, time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from native_log.reporting.figures import GroupFigures, ReportFigures
    from native_log.reporting.layout import Table


def group_section(figures: ReportFigures) -> Section:
    groups, unread = figures.coordinators.groups, figures.coordinators.unread
    if not groups:
        reason = unread.get(OFFSETS_TOPIC, "There are no groups in __consumer_offsets.")
        return Section("groups", "Consumer lag", (reason,))
    ranked = sorted(groups, key=lambda group: (-group.lag, group.name))
    behind = [group for group in ranked if group.lag]
    parts = (*([_chart(behind)] if behind else ()), _table(ranked))
    return Section("groups", "Consumer lag", tuple(_paragraphs(groups, unread)), parts)


def _paragraphs(groups: Sequence[GroupFigures], unread: Mapping[str, str]) -> list[str]:
    """Say what the lag is, and for which groups and partitions it is unknown."""
    paragraphs = [
        (
            "Lag is the high watermark of a partition minus the committed offset, summed over the "
            "partitions in these directories. The high watermark is the one that the broker checkpointed "
            "last, or the end of the log if there is none. A single broker has only some of the groups and "
            "partitions: for all of them, make a report over the directories of all brokers."
        )
    ]
    elsewhere = sum(group.partitions - group.known for group in groups)
    if elsewhere:
        paragraphs.append(
            f"{count(elsewhere, 'offset of a group is', 'offsets of groups are')} for partitions that are "
            "not in these directories, so their lag is unknown."
        )
    expired = sum(group.expired for group in groups)
    if expired:
        paragraphs.append(
            f"{count(expired, 'committed offset has', 'committed offsets have')} expired, if "
            "offsets.retention.minutes has its default (7 days). The figures include them."
        )
    if any(group.type == "share" for group in groups):
        paragraphs.append(
            "A share group has no committed offsets. Its lag counts the records from its start offset on, "
            "without those that were acknowledged or archived."
        )
        if SHARE_STATE_TOPIC in unread:
            paragraphs.append(f"The lag of share groups is unknown. {unread[SHARE_STATE_TOPIC]}")
    if OFFSETS_TOPIC in unread:
        paragraphs.append(f"Only share groups are known. {unread[OFFSETS_TOPIC]}")
    return paragraphs


def _chart(groups: Sequence[GroupFigures]) -> Bars:
    shown, labels = top_bars(groups, lambda group: group.name)
    title = "Lag by group, in offsets"
    if len(shown) < len(groups):
        title += f" (the {len(shown)} of {count(len(groups), 'group')} with the greatest lag)"
    return Bars(title, labels, (Series("lag", tuple(group.lag for group in shown)),), "number")


def _table(groups: Sequence[GroupFigures]) -> Table:
    return top_table(
        f"{count(len(groups), 'group')}, the greatest lag first",
        ("Group", "Type", "State", "Members", "Partitions", "Lag", "Largest lag", "Last commit"),
        groups,
        lambda group: (
            group.name,
            group.type or "–",
            group.state or "–",
            number(group.members),
            number(group.partitions),
            number(group.lag) if group.known else "unknown",
            "–" if group.largest_lag is None else "{:,} ({})".format(*group.largest_lag),
            time(group.last_commit_ms),
        ),
        numbers={3, 4, 5},
        noun="group",
    )
