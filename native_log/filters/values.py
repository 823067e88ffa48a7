"""Filters of keys and times that are given as values, not as text.

pyarrow.compute.scalar imports pandas, which takes long, so no module here calls it when it is imported.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.filters.errors import FilterError
from native_log.filters.record_filter import ROWS, RecordFilter
from native_log.filters.satisfiability import MOST_VALUES

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_MS = (2**63 - 1) // 1000


def keys_filter(keys: Sequence[bytes], prefixes: Sequence[bytes] = ()) -> RecordFilter | None:
    """Return the filter of records that have one of the keys or prefixes. None: there are none of both.

    Raises FilterError for an empty prefix.
    """
    if b"" in prefixes:
        raise FilterError("expected a key prefix, found an empty one, which every key has")
    conditions = [pc.starts_with(pc.field("key"), prefix) for prefix in prefixes]
    if keys:
        conditions.append(is_in(ROWS.field("key"), [pa.scalar(key, pa.binary()) for key in keys]))
    return RecordFilter(reduce(operator.or_, conditions)) if conditions else None


def times_filter(from_ms: int | None, until_ms: int | None) -> RecordFilter | None:
    """Return the filter of records with timestamps from `from_ms` to before `until_ms`. None: no bound."""
    field, kind = pc.field("timestamp"), ROWS.field("timestamp").type
    conditions = []
    for time_ms, compare in ((from_ms, operator.ge), (until_ms, operator.lt)):
        if time_ms is not None:
            micros = max(-_MAX_MS, min(time_ms, _MAX_MS)) * 1000
            conditions.append(compare(field, pa.scalar(micros, pa.int64()).cast(kind)))
    return RecordFilter(reduce(operator.and_, conditions)) if conditions else None


def is_in(field: pa.Field, values: Sequence[pa.Scalar]) -> pc.Expression:
    """Return whether a column has one of some values; null counts as false."""
    found = pc.scalar(False)
    if field.type == pa.int32():
        values = [value for value in values if -(2**31) <= value.as_py() < 2**31]
    for start in range(0, len(values), MOST_VALUES):
        some = pa.array(values[start : start + MOST_VALUES]).cast(field.type)
        part = pc.field(field.name).isin(some)
        found = part if start == 0 else found | part
    return found
