"""What an expression consists of. pyarrow shows it only in the form in which it pickles expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow.compute as pc


def binary_literals(expression: pc.Expression) -> set[bytes]:
    """Return the binary literals of an expression, and the values in its binary lists."""
    return {
        value
        for array in _literals(expression)
        if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)
        for value in array.to_pylist()
        if value is not None
    }


def integer_literals(expression: pc.Expression) -> set[int]:
    """Return the integers of an expression, and its times as epoch microseconds; also those in its lists."""
    found: set[int] = set()
    for array in _literals(expression):
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.int64())
        if pa.types.is_integer(array.type):
            found.update(array.drop_null().to_pylist())
    return found


def names_in(expression: pc.Expression, names: Iterable[str]) -> list[str]:
    """Return those of `names` that occur in an expression: its columns, and maybe words in its literals.

    Raises pyarrow.ArrowNotImplementedError if it has columns without names, such as pc.field(0).
    """
    serialized = _serialize(expression).to_pybytes()
    return [name for name in names if name.encode() in serialized]


def _serialize(expression: pc.Expression) -> pa.Buffer:
    """Return the expression as an Arrow file. Its metadata has the names, its columns are the literals."""
    return expression.__reduce__()[1][0]


def _literals(expression: pc.Expression) -> Iterator[pa.Array]:
    with pa.ipc.open_file(_serialize(expression)) as file:
        columns = file.get_batch(0).columns
    for column in columns:
        yield from _leaves(column)


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    kind = array.type
    if pa.types.is_struct(kind):
        for child in array.flatten():
            yield from _leaves(child)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(array.flatten())
    else:
        yield array
