"""Figures that tests change in one or two fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from native_log.reporting.figures import (
    CodecSamples,
    CoordinatorFigures,
    DirectoryFigures,
    Extent,
    PartitionFigures,
    ReportFigures,
)

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

DIRECTORY = DirectoryFigures("/logs", "cluster-a", 1, True, None, False, {})


def partition(topic: str = "orders", number: int = 0, **changes: Any) -> PartitionFigures:
    """Return a partition with one segment of 1000 bytes, written until an hour ago."""
    figures = PartitionFigures(
        topic=topic,
        partition=number,
        log_dir="/logs",
        log_start_offset=0,
        local_log_start_offset=0,
        log_end_offset=100,
        high_watermark=100,
        lag_end_offset=100,
        size_bytes=1000,
        first_timestamp_ms=NOW_MS - DAY_MS,
        last_timestamp_ms=NOW_MS - HOUR_MS,
        segment_sizes=(1000,),
        segment_times_ms=(NOW_MS - HOUR_MS,),
        policy="delete",
        open_transactions=(),
    )
    return replace(figures, **changes)


def report(*partitions: PartitionFigures, **changes: Any) -> ReportFigures:
    """Return the figures of a directory without problems."""
    figures = ReportFigures(
        created_ms=NOW_MS,
        extent=Extent(),
        directories=(DIRECTORY,),
        partitions=partitions or (partition(),),
        failures=(),
        coordinators=CoordinatorFigures((), ()),
        samples=CodecSamples({}, 0, 0),
    )
    return replace(figures, **changes)
