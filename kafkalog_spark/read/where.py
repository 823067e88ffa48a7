"""The filter of a read: the option `where`, and what Spark pushes down."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog_spark.errors import OptionError
from kafkalog_spark.schema import RECORDS
from kafkalog_spark.views import VIEWS
from kafkalog_spark.views.internal import INTERNAL_VIEWS

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from kafkalog_spark.options.read import ReadOptions
    from native_log.filters import RecordFilter


@dataclass(frozen=True, slots=True)
class Where:
    """The filter of a read. It is sent to tasks as text, because only they know the session's time zone.

    Attributes:
        text: the option `where`; None: there is none.
        view: the view whose columns it uses.
        now: current_timestamp() in the text.
        pushed: what Spark pushed down, in addition; None: nothing.
    """

    text: str | None
    view: str
    now: datetime
    pushed: pc.Expression | None = None

    @classmethod
    def of(cls, options: ReadOptions) -> Where:
        """Return the filter that the options describe. Raises OptionError for one that is invalid."""
        where = cls(options.where, options.view, datetime.now(UTC))
        where.plan()
        return where

    def plan(self) -> RecordFilter | None:
        """Return the filter for the planning of a read, in which times mean nothing; None: all rows."""
        return self._filter("UTC")

    def in_task(self) -> RecordFilter | None:
        """Return the filter in a task, with times in the session's time zone; None: all rows."""
        if self.text is None:
            return self._filter("UTC")
        from pyspark import TaskContext

        from kafkalog_spark.write.time_zone import session_time_zone

        return self._filter(session_time_zone(TaskContext.get()))

    @property
    def schema(self) -> pa.Schema:
        """The columns that the filter may use."""
        view = VIEWS.get(self.view) or INTERNAL_VIEWS.get(self.view)
        return RECORDS if view is None else view.schema

    def _filter(self, time_zone: str) -> RecordFilter | None:
        if self.text is None and self.pushed is None:
            return None
        from native_log.filters import FilterError, RecordFilter  # takes long to import
        from native_log.filters.sql import parse_filter

        parts: list[RecordFilter] = []
        if self.text is not None:
            try:
                parts.append(parse_filter(self.text, time_zone=time_zone, schema=self.schema, now=self.now))
            except FilterError as error:
                raise OptionError(f"where: {error}") from None
        if self.pushed is not None:
            parts.append(RecordFilter(self.pushed, self.schema))
        return reduce(RecordFilter.combined_with, parts)


def translate_pushed(filter: object) -> pc.Expression | None:
    """Return a filter that Spark pushes down as an expression; None: it has no translation.

    Spark has resolved types and time zones: a value has its column's type.
    """
    import pyarrow.compute as pc
    from pyspark.sql import datasource as spark

    if isinstance(filter, spark.Not):
        inner = translate_pushed(filter.child)
        return None if inner is None else ~inner
    path: tuple[str, ...] = getattr(filter, "attribute", ())
    if len(path) != 1 or path[0] not in RECORDS.names or path[0] == "headers":
        return None
    kind, column = RECORDS.field(path[0]).type, pc.field(path[0])
    if isinstance(filter, spark.IsNull):
        return column.is_null()
    if isinstance(filter, spark.IsNotNull):
        return column.is_valid()
    value = getattr(filter, "value", None)
    try:
        if isinstance(filter, spark.In):
            values = pa.array([each for each in filter.value if each is not None], kind)
            # Null must stay null, because NOT may be applied to it.
            return reduce(operator.or_, (column == each for each in values), pc.scalar(False))
        scalar = pa.scalar(value, pa.int64() if pa.types.is_integer(kind) else kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
    if value is None:
        return None
    comparisons = {
        spark.EqualTo: operator.eq,
        spark.GreaterThan: operator.gt,
        spark.GreaterThanOrEqual: operator.ge,
        spark.LessThan: operator.lt,
        spark.LessThanOrEqual: operator.le,
    }
    for known, compare in comparisons.items():
        if isinstance(filter, known):
            return compare(column, scalar)
    if isinstance(filter, spark.EqualNullSafe):
        return column.is_valid() & (column == scalar)
    if isinstance(filter, spark.StringStartsWith):
        return pc.starts_with(column, value)
    return None
