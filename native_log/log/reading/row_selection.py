"""Select the rows of a read: in the decoder as far as it can, the rest in its result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from native_log.records import Conditions, RecordConditions
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from native_log.filters import RecordFilter
    from native_log.log.reading.options import ReadOptions
    from native_log.log.slices import SegmentSlice

_SEEK_BYTES = 32 << 20
"""Less than this is read, rather than looked up in a time index."""


@dataclass(frozen=True, slots=True)
class RowSelection:
    """How a read selects rows.

    Attributes:
        columns: the columns to decode, each once: those of the result, and those that `filter` needs.
        result: the indexes in `columns` of the result's columns; None: they are the same.
        filter: is applied to decoded rows; None: all of them are selected.
        conditions: are applied by the decoder; None: there are none.
        min_offset, max_offset, min_timestamp_ms: rows with others are not selected; all are inclusive.
        is_empty: whether no row is selected.
    """

    columns: tuple[str, ...]
    result: tuple[int, ...] | None = None
    filter: RecordFilter | None = None
    conditions: Conditions | None = None
    min_offset: int | None = None
    max_offset: int | None = None
    min_timestamp_ms: int | None = None
    is_empty: bool = False

    @classmethod
    def of(cls, columns: Sequence[str], options: ReadOptions, partition: tuple[str, int]) -> RowSelection:
        """Return how to select the rows of a partition (topic, number) in a read with these columns."""
        filter = options.filter
        if filter is None or filter.is_empty:
            return cls(tuple(columns))
        if options.mode == "permissive":
            # Damaged bytes have rows, too, and are found only where everything is read.
            selection = cls._decoded_and_filtered(columns, filter)
            patterns = RecordConditions(patterns=filter.patterns)
            return selection if patterns.is_empty else replace(selection, conditions=Conditions(patterns))
        conditions = filter.conditions
        selection = cls(tuple(columns)) if filter.is_exact else cls._decoded_and_filtered(columns, filter)
        return cls(
            selection.columns,
            selection.result,
            selection.filter,
            None if conditions.is_empty else Conditions(conditions),
            *filter.offsets,
            conditions.min_timestamp_ms,
            not (filter.is_possible and all(filter.selects([partition]))),
        )

    @classmethod
    def _decoded_and_filtered(cls, columns: Sequence[str], filter: RecordFilter) -> RowSelection:
        needed = tuple(dict.fromkeys([*columns, *filter.columns]))
        return cls(needed, tuple(map(needed.index, columns)), filter)

    def start_offset(self, part: SegmentSlice) -> int | None:
        """Return the first offset of a slice that can be selected; None: no bound."""
        if self.min_offset is None or part.min_offset is None:
            return part.min_offset if self.min_offset is None else self.min_offset
        return max(self.min_offset, part.min_offset)

    def end_offset(self, part: SegmentSlice) -> int | None:
        """Return the offset from which on nothing of a slice is selected; None: no bound."""
        if self.max_offset is None or self.max_offset == 2**63 - 1:
            return part.max_offset
        end = self.max_offset + 1
        return end if part.max_offset is None else min(end, part.max_offset)

    def rest_of(self, part: SegmentSlice, max_batch_bytes: int) -> SegmentSlice:
        """Return the part of a slice before which all rows are too old. Raises as SegmentSlice.lookup."""
        if self.min_timestamp_ms is None or part.size_bytes < _SEEK_BYTES:
            return part
        from native_log.log.reading.timestamps import rest_from_time

        # The index may have entries after the slice, which a lookup in the slice would not find.
        whole = replace(part, start_position=0, end_position=max(part.end_position, part.segment.size_bytes))
        with whole.lookup(Window(), max_batch_bytes) as lookup:
            return rest_from_time(part, self.min_timestamp_ms, lookup)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the selected rows of decoded ones, with the columns of the result."""
        if self.filter is None:
            return batch
        selected = self.filter.apply(batch)
        return selected if self.result is None else selected.select(self.result)
