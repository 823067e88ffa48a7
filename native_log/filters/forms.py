"""The forms in which users give filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pyarrow.compute as pc

from native_log.filters.errors import FilterError
from native_log.filters.record_filter import RecordFilter

if TYPE_CHECKING:
    import polars as pl

    FilterLike: TypeAlias = RecordFilter | pc.Expression | pl.Expr | str | None


def to_filter(filter: FilterLike) -> RecordFilter | None:
    """Return a filter given as SQL text, as an expression of pyarrow or Polars, or as it is.

    Times in SQL text are in UTC unless they name a zone. See sql.parse_filter.

    Raises:
        FilterError: the filter is invalid, or cannot be expressed.
        TypeError: it is none of these.
    """
    if filter is None or isinstance(filter, RecordFilter):
        return filter
    if isinstance(filter, str):
        from native_log.filters.sql import parse_filter

        return parse_filter(filter)
    if isinstance(filter, pc.Expression):
        return RecordFilter(filter)
    if type(filter).__module__.startswith("polars."):
        from native_log.filters.polars import translate_predicate

        translated = translate_predicate(filter)
        if not translated.is_complete:
            raise FilterError(
                f"cannot express {filter} in a filter; scan_polars(...).filter(...) accepts every expression"
            )
        return translated.filter
    raise TypeError(
        f"filter: expected SQL text or an expression of pyarrow or Polars, found {type(filter).__name__}"
    )
