"""Draw charts as SVG with Matplotlib. They need no JavaScript, and print as they are."""

from __future__ import annotations

import io
import math
import re
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import matplotlib
import matplotlib.dates
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from native_log.reporting.layout import Bars, Histogram, SizeRanges, TimeHistogram, TimeRanges
from native_log.sizes import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.reporting.layout import Chart, Unit

COLORS = ("#1f5f99", "#d1780f", "#3d8a5f", "#8a4f9e", "#7a7a7a")
"""They differ in lightness, too. The contrast with white is at least 3:1."""
_GRID = "#d5dae1"
_TEXT = "#1b2733"
_WIDTH_INCHES = 8.0
_BAR_INCHES = 0.27
_MS_IN_DAY = 86_400_000
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be selected, searched and read aloud
    "svg.hashsalt": "kafkalog",  # equal figures give equal pages
    "text.usetex": False,
    "text.parse_math": False,  # names may contain dollar signs
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _TEXT,
    "text.color": _TEXT,
    "xtick.color": _TEXT,
    "ytick.color": _TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "timezone": "UTC",
}
_TICK_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def draw(chart: Chart) -> str:
    """Return a chart as an `<svg>` element. Text in it is escaped."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH_INCHES, _height(chart)), layout="constrained")
        FigureCanvasSVG(figure)
        _draw(chart, figure.add_subplot())
        output = io.StringIO()
        figure.savefig(output, format="svg", metadata=_NO_METADATA, transparent=True)
    return _inline(output.getvalue())


def _height(chart: Chart) -> float:
    if isinstance(chart, Histogram | TimeHistogram):
        return 2.6
    return 0.75 + _BAR_INCHES * len(chart.labels) + 0.3 * (isinstance(chart, Bars) and len(chart.series) > 1)


def _inline(svg: str) -> str:
    """Return the element for a page: without a document type and without ids that other charts have, too."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r'<g id="[^"]*">', "<g>", element)
    element = re.sub(r' xmlns(:xlink)?="[^"]*"', "", element)
    head, end, body = element.partition(">")
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    return f'{head} aria-hidden="true" focusable="false"{end}{body}'.strip()


@singledispatch
def _draw(chart: Any, _: Axes) -> None:
    raise TypeError(f"expected a chart, found {chart!r}")


@_draw.register
def _(chart: Bars, axes: Axes) -> None:
    starts = [0.0] * len(chart.labels)
    for index, series in enumerate(chart.series):
        color = COLORS[index % len(COLORS)]
        axes.barh(
            range(len(chart.labels)), series.values, left=starts, color=color, label=series.name, height=0.7
        )
        starts = [start + value for start, value in zip(starts, series.values, strict=True)]
    _label_rows(axes, chart.labels)
    axes.xaxis.set_major_locator(
        FixedLocator(byte_ticks(max(starts))) if chart.unit == "bytes" else MaxNLocator(nbins=6, integer=True)
    )
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _format(value, chart.unit)))
    if len(chart.series) > 1:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(chart.series), frameon=False)
    else:
        for row, value in enumerate(chart.series[0].values):
            axes.annotate(
                _format(value, chart.unit), (value, row), (4, 0), textcoords="offset points", va="center"
            )
        axes.margins(x=0.12)


@_draw.register
def _(chart: Histogram, axes: Axes) -> None:
    bars = axes.bar(range(len(chart.labels)), chart.counts, color=COLORS[0], width=0.9)
    axes.bar_label(bars, [f"{count:,}" if count else "" for count in chart.counts], padding=2)
    axes.set_xticks(range(len(chart.labels)), chart.labels, rotation=30 if len(chart.labels) > 8 else 0)
    axes.set_ylabel(chart.axis)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(axis="y", color=_GRID)
    axes.margins(y=0.15)


@_draw.register
def _(chart: TimeHistogram, axes: Axes) -> None:
    days = [start / _MS_IN_DAY for start in chart.starts_ms]
    width = chart.width_ms / _MS_IN_DAY
    axes.bar(days, chart.sizes, color=COLORS[0], width=width * 0.92, align="edge")
    _date_axis(axes)
    axes.yaxis.set_major_locator(FixedLocator(byte_ticks(max(chart.sizes))))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _format(value, "bytes")))
    axes.grid(axis="y", color=_GRID)


@_draw.register
def _(chart: SizeRanges, axes: Axes) -> None:
    rows = range(len(chart.labels))
    low, middle, high = ([max(1, size) for size in sizes] for sizes in zip(*chart.ranges, strict=True))
    axes.hlines(rows, low, high, color=COLORS[0], linewidth=5, alpha=0.45)
    axes.plot(middle, rows, "o", color=COLORS[0])
    axes.plot(high, rows, "|", color=COLORS[1], markersize=12, markeredgewidth=3)
    axes.set_xscale("log", base=2)
    axes.set_xlim(2.0 ** math.floor(math.log2(min(low)) - 0.2), 2.0 ** math.ceil(math.log2(max(high)) + 0.2))
    _label_rows(axes, chart.labels)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=8))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _format(value, "bytes")))


@_draw.register
def _(chart: TimeRanges, axes: Axes) -> None:
    first = [start / _MS_IN_DAY for start, _ in chart.ranges]
    widths = [(end - start) / _MS_IN_DAY for start, end in chart.ranges]
    axes.barh(range(len(chart.labels)), widths, left=first, color=COLORS[0], height=0.6)
    # Otherwise a bar of a short time is not visible.
    axes.plot(first, range(len(first)), "|", color=COLORS[0], markersize=10, markeredgewidth=2.5)
    axes.margins(x=0.03)
    _label_rows(axes, chart.labels)
    _date_axis(axes)


def _label_rows(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(axis="x", color=_GRID)
    axes.spines["left"].set_visible(False)


def _date_axis(axes: Axes) -> None:
    dates: Any = matplotlib.dates  # not typed
    locator = dates.AutoDateLocator(minticks=3, maxticks=8)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


def byte_ticks(largest: float) -> list[float]:
    """Return the ticks of an axis up to `largest` bytes: at most seven round sizes, as people read them."""
    step = 1.0
    while largest / step > 6:
        unit = 1024.0 ** int(math.log(step, 1024))
        digits = step / unit
        step = next((factor * unit for factor in _TICK_STEPS if factor > digits), 1024 * unit)
    return [index * step for index in range(int(largest / step) + 1)]


def _format(value: float, unit: Unit) -> str:
    return format_size(round(value)) if unit == "bytes" else f"{value:,.0f}"
