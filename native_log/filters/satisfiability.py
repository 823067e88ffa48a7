"""Ask what values of columns a filter can select.

Arrow's datasets know which of their files can have rows that a filter selects, from what is known about each
file. No file is needed for the question, so it is asked here of files that do not exist.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.filters.expressions import integer_literals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


MOST_VALUES = 50
"""Arrow knows no more than that of a set with more values (is_in)."""


class Satisfiability:
    """What values a filter can select. Answers err on one side only: "yes" may be wrong, "no" is right.

    Args:
        expression: the filter.
        schema: the columns that it may use.

    Raises pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError for a filter that does not fit the columns.
    """

    def __init__(self, expression: pc.Expression, schema: pa.Schema) -> None:
        self._expression = expression
        self._schema = schema
        self._of([pc.scalar(True)])

    def of(self, known: Sequence[pc.Expression]) -> list[bool]:
        """Return for each condition whether the filter can select rows that meet it."""
        try:
            return self._of(known)
        except pa.ArrowInvalid:
            # The filter compares a column of integers with a float, which cannot hold an integer in `known`.
            return [True] * len(known)

    def _of(self, known: Sequence[pc.Expression]) -> list[bool]:
        import pyarrow.dataset as ds  # takes a while
        from pyarrow.fs import LocalFileSystem

        paths = [str(index) for index in range(len(known))]
        dataset = ds.FileSystemDataset.from_paths(
            paths,
            schema=self._schema,
            format=ds.IpcFileFormat(),
            filesystem=LocalFileSystem(),
            partitions=list(known),
        )
        possible = {fragment.path for fragment in dataset.get_fragments(filter=self._expression)}
        return [path in possible for path in paths]

    def has(self, known: pc.Expression) -> bool:
        """Return whether the filter can select rows that meet a condition."""
        return self.of([known])[0]

    def bounds(self, column: str) -> tuple[int | None, int | None]:
        """Return the least and the greatest integer in a column that can be selected; None: no bound.

        The column must have integers, or times, which count in the units of their type. If nothing can be
        selected, the bounds mean nothing.
        """
        kind = self._schema.field(column).type
        field = pc.field(column)

        def scalar(value: int) -> pa.Scalar:
            return pa.scalar(value, pa.int64()).cast(kind) if kind != pa.int32() else pa.scalar(value, kind)

        low, high = (-(2**31), 2**31 - 1) if kind == pa.int32() else (-(2**63), 2**63 - 1)

        def likely(sign: int) -> Iterator[int]:
            # A bound is usually a number in the expression or the next one. The number after it shows that it
            # is the bound.
            for number in self._numbers:
                yield from range(sign * number, sign * number + 3)

        least = _greatest(lambda value: not self.has(field <= scalar(value - 1)), low, high, likely(1))
        most = -_greatest(lambda value: not self.has(field >= scalar(1 - value)), -high, -low, likely(-1))
        return (None if least == low else least), (None if most == high else most)

    @cached_property
    def _numbers(self) -> set[int]:
        return integer_literals(self._expression)

    def keys(self, candidates: Sequence[bytes], column: str = "key") -> tuple[bytes | None, ...] | None:
        """Return the values of a binary column that can be selected. None: there may be others.

        Args:
            candidates: the values to try.
        """
        ordered = sorted(set(candidates))
        if not ordered:
            return None
        field = pc.field(column)
        gaps = [field < ordered[0], field > ordered[-1]]
        gaps += [(field > a) & (field < b) for a, b in pairwise(ordered)]
        if any(self.of(gaps)):
            return None
        is_possible = self.of([*(field == key for key in ordered), field.is_null()])
        return tuple(key for key, possible in zip([*ordered, None], is_possible, strict=True) if possible)


def _greatest(is_low: Callable[[int], bool], low: int, high: int, likely: Iterable[int]) -> int:
    """Return the greatest number from `low` to `high` for which `is_low` is true, as it is for lower ones.

    `is_low` is not called with `low`. A few calls are enough if `likely` has the result and the next number.
    `likely` is not read if `low` is the result.
    """
    if low == high or not is_low(low + 1):
        return low
    candidates = sorted({low + 1, high, *(number for number in likely if low < number < high)})
    index = bisect_left(candidates, True, lo=1, key=lambda number: not is_low(number))
    low = candidates[index - 1]
    high = candidates[index] if index < len(candidates) else low + 1
    while high - low > 1:
        middle = (low + high) // 2
        if is_low(middle):
            low = middle
        else:
            high = middle
    return low
