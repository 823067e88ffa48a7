"""Show the first of a list of ranked items, in a table or a chart, and say how many are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from native_log.reporting.layout import Table
from native_log.reporting.sections.limits import LABEL_LENGTH, MAX_BARS, MAX_ROWS
from native_log.reporting.summaries import split_top
from native_log.reporting.text import count, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

Item = TypeVar("Item")


def top_table(
    caption: str,
    head: tuple[str, ...],
    items: Sequence[Item],
    row: Callable[[Item], tuple[str, ...]],
    *,
    numbers: Collection[int],
    noun: str,
) -> Table:
    """Return a table of the first items. Its note says how many more there are.

    Args:
        caption, head, numbers: see Table.
        items: all items, ranked.
        row: returns the cells of an item.
        noun: what an item is, in the singular.
    """
    shown, others = split_top(items, MAX_ROWS)
    note = f"{count(len(others), f'more {noun}')} not shown." if others else ""
    return Table(caption, head, tuple(map(row, shown)), frozenset(numbers), note)


def top_bars(items: Sequence[Item], name: Callable[[Item], str]) -> tuple[Sequence[Item], tuple[str, ...]]:
    """Return the first items of a chart, and their labels.

    Args:
        items: all items, ranked.
        name: returns the name of an item.
    """
    shown, _ = split_top(items, MAX_BARS)
    return shown, tuple(shortened(name(item), LABEL_LENGTH) for item in shown)
