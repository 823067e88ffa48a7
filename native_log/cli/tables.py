"""Tables as text, legible at any width."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GAP = "  "
_INDENT = "    "
_NARROWEST = 40
"""Columns of text that a detail gets at least."""


def lines(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    details: Sequence[str | None] = (),
    width: int | None = None,
) -> Iterator[str]:
    """The lines of a table: numbers to the right, no cell is ever folded.

    Args:
        details: for each row a text that belongs to it, or None. With a `width` it is wrapped on lines of its
            own below the row, else it ends the row's line.
        width: at most so many characters a line, where that is possible; None: one line for each row. If the
            cells of a row need more, the first one has a line of its own.
    """
    cells = [[_cell(cell) for cell in row] for row in rows]
    is_number = [any(isinstance(row[index], int | float) for row in rows) for index in range(len(head))]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]

    def line(columns: Sequence[str], first: int = 0) -> str:
        every = zip(columns, widths, is_number, strict=True)
        return _GAP.join(
            cell.rjust(size) if right else cell.ljust(size) for cell, size, right in list(every)[first:]
        )

    below = [None, *(details or [None] * len(cells))]
    for columns, detail in zip([list(head), *cells], below, strict=True):
        if width is None:
            yield f"{line(columns)}{_GAP}{detail or ''}".rstrip()
            continue
        if sum(widths) + len(_GAP) * (len(widths) - 1) <= width:
            yield line(columns).rstrip()
        else:
            yield columns[0]
            yield (_GAP + line(columns, first=1)).rstrip()
        yield from textwrap.wrap(
            detail or "",
            max(width, _NARROWEST),
            initial_indent=_INDENT,
            subsequent_indent=_INDENT,
            break_on_hyphens=False,
        )


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is; None if it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)
