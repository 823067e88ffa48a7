"""Describe the settings in a report: where they come from, and which stored ones they override."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.effective_config import AppliedSetting
from native_log.logdir.discovery import join_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    Row = dict[str, Any]


def describe_settings(rows: Iterable[Row]) -> list[str]:
    """Return a line for each group of topics with the same settings.

    Args:
        rows: the rows of a report with the columns `topic` and `settings`.
    """
    topics: dict[str, dict[str, None]] = {}
    for row in rows:
        if row["settings"]:
            text = ", ".join(str(AppliedSetting(**setting)) for setting in row["settings"])
            topics.setdefault(text, {})[row["topic"]] = None
    return [f"settings of {join_names(names)}: {text}" for text, names in topics.items()]


def describe_overrides(rows: Iterable[Row]) -> str | None:
    """Return which stored settings are overridden, and for which topics; None if there are none.

    Args:
        rows: the rows of a report. Those without the column `settings` are left out.
    """
    topics: dict[str, dict[str, None]] = {}
    for row in rows:
        for setting in row.get("settings") or ():
            if setting["overrides"] is not None:
                stored = f"{setting['name']}={setting['overrides']}"
                topics.setdefault(stored, {})[row["topic"]] = None
    overridden = "; ".join(f"{stored} of {join_names(names)}" for stored, names in topics.items())
    return f"This overrides stored settings: {overridden}." if overridden else None
