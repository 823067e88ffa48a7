"""What a page consists of: sections with tables and charts, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["bytes", "number"]

MARK = "<!-- kafkalog report -->"
"""The second line of each page. It distinguishes a report from other files."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        caption: what it shows.
        head: the titles of its columns.
        rows: the cells of each row.
        numbers: the indexes of columns with numbers, which are aligned to the right.
        note: what is left out; empty if nothing is.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """The values of one color in a chart of bars."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars, one for each label. The values of several series follow each other in a bar."""

    title: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]
    unit: Unit


@dataclass(frozen=True, slots=True)
class Histogram:
    """Vertical bars: the number of things in each class."""

    title: str
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    axis: str


@dataclass(frozen=True, slots=True)
class TimeHistogram:
    """Vertical bars over time.

    Attributes:
        starts_ms: the beginning of each bar, in epoch ms.
        width_ms: how long each bar lasts.
        sizes: bytes in each bar.
    """

    title: str
    starts_ms: tuple[int, ...]
    width_ms: int
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SizeRanges:
    """A line from the least to the greatest size for each label, with a mark at the median. Logarithmic."""

    title: str
    labels: tuple[str, ...]
    ranges: tuple[tuple[int, float, int], ...]


@dataclass(frozen=True, slots=True)
class TimeRanges:
    """A bar from the first to the last time for each label, in epoch ms."""

    title: str
    labels: tuple[str, ...]
    ranges: tuple[tuple[int, int], ...]


Chart = Bars | Histogram | TimeHistogram | SizeRanges | TimeRanges


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the page.

    Attributes:
        id: its anchor.
        paragraphs: the text below its title.
        parts: its charts and tables, in order.
    """

    id: str
    title: str
    paragraphs: tuple[str, ...]
    parts: tuple[Table | Chart, ...] = ()
