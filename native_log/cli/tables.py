"""Format tables as text that fits the terminal."""

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
"""The minimum width of a wrapped detail, in characters."""


def format_table(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    details: Sequence[str | None] = (),
    width: int | None = None,
) -> Iterator[str]:
    """Yield the lines of a table. Numbers are aligned to the right. Cells are never wrapped.

    Args:
        details: for each row a text, or None. If `width` is given, the text is wrapped on separate lines
            below the row, otherwise it ends the line of the row.
        width: the maximum length of a line, where possible; None: one line for each row. If the cells of a
            row are wider, the first cell gets a separate line.
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


def columns_that_fit(
    head: Sequence[str], rows: Sequence[Sequence[object]], width: int, droppable: Sequence[str]
) -> list[int]:
    """Return the indexes of the columns to show, so that a line is not longer than `width`, where possible.

    Args:
        droppable: the columns that may be left out, in the order in which they are.
    """
    widths = [max(len(_cell(row[index])) for row in [head, *rows]) for index in range(len(head))]
    shown = list(range(len(head)))
    for name in droppable:
        if sum(widths[index] + len(_GAP) for index in shown) - len(_GAP) <= width:
            break
        shown.remove(head.index(name))
    return shown


def wrap(text: str, width: int | None) -> list[str]:
    """Return the lines of a text that fit a width, all but the first one indented; None: one line."""
    if width is None:
        return [text]
    return textwrap.wrap(text, max(width, _NARROWEST), subsequent_indent=_INDENT, break_on_hyphens=False)


def terminal_width() -> int | None:
    """Return the width of the terminal in characters; None if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)
