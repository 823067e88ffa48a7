"""A filter of rows, and what follows from it for the records that must be read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from native_log.filters.errors import FilterError
from native_log.filters.expressions import binary_literals, names_in
from native_log.filters.satisfiability import Satisfiability
from native_log.records import (
    CORRUPT_RECORD,
    RECORD_SCHEMA,
    Pattern,
    RecordConditions,
    partition_of_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Partition = TypeVar("Partition", bound=tuple[str, int])

ROWS = pa.schema([*RECORD_SCHEMA, pa.field(CORRUPT_RECORD, pa.string())])
"""The columns that a filter of records may use."""

MOST_KEYS = 1000
"""So many keys are compared in the decoder. Filters with more of them are applied to decoded rows."""


class RecordFilter:
    """Selects the rows for which an expression is true, as WHERE does: not those for which it is null.

    A filter can be pickled. What follows from it is found when it is first needed.

    Attributes:
        expression: of columns of `schema`; None: all rows.
        schema: the columns that there are.
        patterns: bytes that records must contain, in addition to the expression. Only decoders apply them.
    """

    def __init__(
        self,
        expression: pc.Expression | None,
        schema: pa.Schema = ROWS,
        *,
        patterns: Sequence[Pattern] = (),
    ) -> None:
        """Raise FilterError if the expression is none of `schema`."""
        self.expression = expression
        self.schema = schema
        self.patterns = tuple(patterns)
        self.columns = () if expression is None else _columns_of(expression, schema)

    def __repr__(self) -> str:
        parts = [] if self.expression is None else [str(self.expression)]
        return f"RecordFilter({' and '.join([*parts, *map(repr, self.patterns)])})"

    def combined_with(self, other: RecordFilter) -> RecordFilter:
        """Return the filter that selects what both select."""
        expressions = [each.expression for each in (self, other) if each.expression is not None]
        patterns = (*self.patterns, *other.patterns)
        return RecordFilter(_all(expressions) if expressions else None, self.schema, patterns=patterns)

    @property
    def is_empty(self) -> bool:
        """Whether all rows are selected."""
        return self.expression is None and not self.patterns

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the expression is true. `batch` must have the columns `columns`.

        `patterns` are not applied.
        """
        if self.expression is None:
            return batch
        # RecordBatch.filter of pyarrow 19 and 20 raises IndexError if no row is left.
        rows = pa.Table.from_batches([batch]).filter(self.expression).combine_chunks()
        return rows.to_batches()[0] if rows.num_rows else batch.slice(0, 0)

    @cached_property
    def is_possible(self) -> bool:
        """Whether any row can be selected."""
        bounds = (self.offsets, self._times)
        return self._is_satisfiable and not any(
            least is not None and most is not None and least > most for least, most in bounds
        )

    @cached_property
    def offsets(self) -> tuple[int | None, int | None]:
        """The least and the greatest offset that can be selected, both inclusive; None: no bound."""
        return self._bounds("offset")

    @cached_property
    def _times(self) -> tuple[int | None, int | None]:
        """The same for timestamps, in epoch microseconds."""
        return self._bounds("timestamp")

    @cached_property
    def conditions(self) -> RecordConditions:
        """Conditions that each selected record meets. They do not include the offsets."""
        lowest, highest = self._times
        first, last = self._bounds("producerId")
        return RecordConditions(
            min_timestamp_ms=None if lowest is None else -(-lowest // 1000),
            max_timestamp_ms=None if highest is None else highest // 1000,
            producer_ids=None if first != last or first is None else (first,),
            keys=self._keys(),
            patterns=self.patterns,
        )

    @cached_property
    def is_exact(self) -> bool:
        """Whether a record is selected if it meets `conditions` and its offset is within `offsets`."""
        if self.expression is None:
            return True
        conditions = self.conditions
        known: list[pc.Expression] = []
        for column, (least, most), scale in (
            ("offset", self.offsets, 1),
            ("timestamp", (conditions.min_timestamp_ms, conditions.max_timestamp_ms), 1000),
        ):
            kind = self.schema.field(column).type
            if least is not None:
                known.append(pc.field(column) >= _int64(least * scale).cast(kind))
            if most is not None:
                known.append(pc.field(column) <= _int64(most * scale).cast(kind))
        if conditions.producer_ids is not None:
            known.append(pc.field("producerId") == conditions.producer_ids[0])
        keys = [pc.scalar(True)]
        if conditions.keys is not None:
            keys = [_equals("key", key) for key in conditions.keys]
        facts = [_all([*known, key]) for key in keys]
        is_rejected = Satisfiability(~self.expression, self.schema).of(facts)
        return not any(is_rejected) and all(self._satisfiability.of(facts))

    def possible_partitions(
        self, partitions: Sequence[Partition], key_partitions: int | Mapping[str, int] | None = None
    ) -> list[Partition]:
        """Return the partitions that can have selected rows. The arguments are those of `selects`."""
        is_possible = self.selects(partitions, key_partitions)
        return [key for key, possible in zip(partitions, is_possible, strict=True) if possible]

    def selects(
        self,
        partitions: Sequence[tuple[str, int]],
        key_partitions: int | Mapping[str, int] | None = None,
    ) -> list[bool]:
        """Return for each partition, a topic and a number, whether it can have selected rows.

        Args:
            partitions: the partitions.
            key_partitions: how many partitions the topics have whose records have the partition that Kafka's
                default partitioner chooses for their key; one number, or one by topic.
        """
        if self.expression is None or not partitions:
            return [True] * len(partitions)
        chosen = _partitions_of_keys(self.conditions.keys, {topic for topic, _ in partitions}, key_partitions)
        has_keys = [topic not in chosen or number in chosen[topic] for topic, number in partitions]
        if not {"topic", "partition"} & set(self.columns):
            return has_keys
        topics, numbers = pc.field("topic"), pc.field("partition")
        possible = self._satisfiability.of([(topics == topic) & (numbers == n) for topic, n in partitions])
        return [a and b for a, b in zip(possible, has_keys, strict=True)]

    @cached_property
    def _is_satisfiable(self) -> bool:
        return self.expression is None or self._satisfiability.has(pc.scalar(True))

    @cached_property
    def _satisfiability(self) -> Satisfiability:
        assert self.expression is not None
        return Satisfiability(self.expression, self.schema)

    def _bounds(self, column: str) -> tuple[int | None, int | None]:
        if column not in self.columns or not self._is_satisfiable:
            return None, None
        return self._satisfiability.bounds(column)

    def _keys(self) -> tuple[bytes | None, ...] | None:
        if "key" not in self.columns or not self._is_satisfiable:
            return None
        assert self.expression is not None
        candidates = binary_literals(self.expression)
        return self._satisfiability.keys(sorted(candidates)) if len(candidates) <= MOST_KEYS else None

    def __getstate__(self) -> dict[str, Any]:
        # A Satisfiability has nothing to send: it only asks.
        return {name: value for name, value in self.__dict__.items() if name != "_satisfiability"}


def _partitions_of_keys(
    keys: Sequence[bytes | None] | None,
    topics: Iterable[str],
    key_partitions: int | Mapping[str, int] | None,
) -> dict[str, set[int]]:
    """Return the partitions of keys by topic, for topics whose partitions are known."""
    if keys is None or None in keys or key_partitions is None:
        return {}  # the null key may be in any partition
    counts = key_partitions if isinstance(key_partitions, Mapping) else dict.fromkeys(topics, key_partitions)
    return {
        topic: {partition_of_key(key, count) for key in keys if key is not None}
        for topic, count in counts.items()
    }


def _int64(number: int) -> pa.Scalar:
    """Return a number as int64. One that does not fit becomes the closest that does."""
    return pa.scalar(min(max(number, -(2**63)), 2**63 - 1), pa.int64())


def _columns_of(expression: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns that an expression uses. Raises FilterError."""
    rows = schema.empty_table()
    try:
        rows.filter(expression)
        candidates = names_in(expression, schema.names)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError) as error:
        raise FilterError(
            f"expected a filter of the columns {', '.join(schema.names)}, found {expression}: {error}"
        ) from None
    used = []
    for name in candidates:
        try:
            rows.drop_columns(name).filter(expression)
        except pa.ArrowInvalid:
            used.append(name)
    return tuple(used)


def _equals(column: str, value: bytes | None) -> pc.Expression:
    field = pc.field(column)
    return field.is_null() if value is None else field == value


def _all(conditions: Sequence[pc.Expression]) -> pc.Expression:
    combined = conditions[0]
    for condition in conditions[1:]:
        combined = combined & condition
    return combined
