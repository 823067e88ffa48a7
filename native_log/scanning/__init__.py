"""Scan and search the records of many partitions with all cores."""

from __future__ import annotations

from native_log.scanning.scans import scan, scan_polars
from native_log.scanning.searches import search

__all__ = ["scan", "scan_polars", "search"]
