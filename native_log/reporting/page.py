"""Render a report as one HTML page, which loads nothing and runs no script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from native_log.reporting.charts import draw
from native_log.reporting.findings import decide_findings
from native_log.reporting.layout import MARK, Table
from native_log.reporting.sections import sections
from native_log.reporting.summaries import time_range
from native_log.reporting.text import count, number, rounded, shortened, time
from native_log.sizes import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.reporting.figures import ReportFigures
    from native_log.reporting.findings import Finding
    from native_log.reporting.layout import Chart

_MAX_PATHS = 5
_MAX_TEXT = 1000
"""The most characters of a text. A group id may have 32,767."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A summary figure."""

    label: str
    value: str
    detail: str = ""


def render_page(figures: ReportFigures, version: str) -> str:
    """Return the page.

    All text from the data is escaped twice by the template engine: control characters, then markup.

    Args:
        figures: what the page shows.
        version: the version of kafkalog.
    """
    environment = Environment(
        loader=PackageLoader("native_log.reporting"),
        autoescape=True,
        finalize=_displayed,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["table"] = lambda part: isinstance(part, Table)
    findings = decide_findings(figures)
    paths = [directory.path for directory in figures.directories]
    page: str = environment.get_template("report.html").render(
        mark=MARK,
        version=version,
        created=time(figures.created_ms),
        paths=paths[:_MAX_PATHS],
        more_paths=len(paths) - len(paths[:_MAX_PATHS]),
        tiles=tiles(figures, findings),
        findings=findings,
        is_verified=figures.problems is not None,
        sections=sections(figures),
        draw=_draw,
    )
    return page


def _displayed(value: object) -> object:
    return shortened(value, _MAX_TEXT) if type(value) is str else value


def _draw(chart: Chart) -> Markup:
    return Markup(draw(chart))  # noqa: S704  Matplotlib escapes the text in it


def tiles(figures: ReportFigures, findings: Sequence[Finding]) -> list[Tile]:
    """Return the figures at the top of the page."""
    partitions = figures.partitions
    topics = {partition.topic for partition in partitions}
    first, last = time_range(partitions)
    segments = sum(len(partition.segment_sizes) for partition in partitions)
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = sum(finding.severity == "warning" for finding in findings)
    return [
        Tile("Topics", number(len(topics))),
        Tile("Partitions", number(len(partitions)), count(segments, "segment")),
        Tile("Size", format_size(sum(partition.size_bytes for partition in partitions)), ".log files"),
        Tile(
            "Offsets",
            rounded(sum(partition.offsets for partition in partitions)),
            "there may be fewer records",
        ),
        Tile("First record", time(first)[:10], time(first)[11:] and f"{time(first)[11:]} UTC"),
        Tile("Last record", time(last)[:10], time(last)[11:] and f"{time(last)[11:]} UTC"),
        Tile(
            "Problems",
            number(errors + warnings),
            f"{count(errors, 'error')}, {count(warnings, 'warning')}"
            + ("" if figures.problems is not None else "; not verified"),
        ),
    ]
