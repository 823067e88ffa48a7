"""How much a page shows of long lists."""

from __future__ import annotations

MAX_ROWS = 20
"""The most rows of a table, without the row of the others."""
MAX_BARS = 12
"""The most bars of a chart, without the bar of the others."""
LABEL_LENGTH = 32
"""The most characters of a label in a chart."""
