"""Filters on records: one representation, a pyarrow expression, and what it says about where records are."""

from __future__ import annotations

from native_log.filters.errors import FilterError
from native_log.filters.forms import to_filter
from native_log.filters.record_filter import RecordFilter

__all__ = ["FilterError", "RecordFilter", "to_filter"]
