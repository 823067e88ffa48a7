"""How much a page shows of long lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.reporting.text import count

if TYPE_CHECKING:
    from collections.abc import Sized

MAX_ROWS = 20
"""The most rows of a table, without the row of the others."""
MAX_BARS = 12
"""The most bars of a chart, without the bar of the others."""
LABEL_LENGTH = 32
"""The most characters of a label in a chart."""


def left_out(others: Sized, noun: str) -> str:
    """Return the note of a table that leaves out others; empty if there are none."""
    return f"{count(len(others), f'more {noun}')} not shown." if others else ""
