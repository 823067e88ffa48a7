"""Translate Polars' predicates as far as they can be translated.

What cannot be is left out, so that a translated predicate selects at least the rows of the original. Polars
applies the original to them.
"""

from __future__ import annotations

import json
import operator
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from native_log.filters.record_filter import ROWS, RecordFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtEq": operator.le,
    "Gt": operator.gt,
    "GtEq": operator.ge,
}
_SWAPPED = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}
_MICROSECONDS = {"Nanoseconds": 0.001, "Microseconds": 1, "Milliseconds": 1000}


class _UnknownError(Exception):
    """A part of a predicate has no translation."""


_UNKNOWN = (_UnknownError, pa.ArrowException, AttributeError, KeyError, TypeError, ValueError, OverflowError)
"""What parts without a translation raise. FilterError is a ValueError."""


class Translated(NamedTuple):
    """A filter that selects at least the rows of a predicate; exactly those if it is complete."""

    filter: RecordFilter
    is_complete: bool


def translate_predicate(predicate: pl.Expr) -> Translated:
    """Return the parts of a Polars expression that a filter can express."""
    parts, is_complete = [], True
    for part in _conjuncts(json.loads(predicate.meta.serialize(format="json"))):
        try:
            parts.append(RecordFilter(_condition(part)).expression)
        except _UNKNOWN:
            is_complete = False
    return Translated(RecordFilter(reduce(operator.and_, parts) if parts else None), is_complete)


def _conjuncts(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    binary = node.get("BinaryExpr")
    if binary is not None and binary["op"] in ("And", "LogicalAnd"):
        return [*_conjuncts(binary["left"]), *_conjuncts(binary["right"])]
    return [node]


def _condition(node: Mapping[str, Any]) -> pc.Expression:
    """Return a condition. Raises one of _UNKNOWN if it has no translation."""
    (kind, content), *_ = node.items()
    if kind == "BinaryExpr":
        name = content["op"]
        if name in ("And", "LogicalAnd", "Or", "LogicalOr"):
            left, right = _condition(content["left"]), _condition(content["right"])
            return left & right if name.endswith("And") else left | right
        if name in _COMPARISONS:
            left, right = content["left"], content["right"]
            if "Column" not in left:
                left, right, name = right, left, _SWAPPED.get(name, name)
            return _COMPARISONS[name](pc.field(left["Column"]), _literal(right, left["Column"]))
    elif kind == "Column" and _type_of(content) == pa.bool_():
        return pc.field(content)
    elif kind == "Function":
        return _function(content["function"], content["input"])
    raise _UnknownError(kind)


def _function(function: Mapping[str, Any], arguments: list[Mapping[str, Any]]) -> pc.Expression:
    (family, name), *_ = function.items()
    if family == "Boolean":
        if name == "Not":
            return ~_condition(arguments[0])
        if name in ("IsNull", "IsNotNull"):
            field = pc.field(arguments[0]["Column"])
            return field.is_null() if name == "IsNull" else field.is_valid()
        if isinstance(name, dict) and name.get("IsIn") == {"nulls_equal": False}:
            return _is_in(*arguments)
        if isinstance(name, dict) and "IsBetween" in name:
            return _is_between(name["IsBetween"]["closed"], *arguments)
    if (family, name) in (("BinaryExpr", "StartsWith"), ("StringExpr", "StartsWith")):
        column = arguments[0]["Column"]
        return pc.starts_with(pc.field(column), _literal(arguments[1], column).as_py())
    raise _UnknownError(name)


def _is_between(
    closed: str, column: Mapping[str, Any], low: Mapping[str, Any], high: Mapping[str, Any]
) -> pc.Expression:
    field = pc.field(column["Column"])
    least, most = _literal(low, column["Column"]), _literal(high, column["Column"])
    above = field >= least if closed in ("Both", "Left") else field > least
    return above & (field <= most if closed in ("Both", "Right") else field < most)


def _is_in(column: Mapping[str, Any], values: Mapping[str, Any]) -> pc.Expression:
    """Return whether a column has one of some values, which Polars sends as an Arrow stream of one list."""
    kind = _type_of(column["Column"])
    with pa.ipc.open_stream(bytes(values["Literal"]["Scalar"]["List"])) as stream:
        found = stream.read_all().column(0).combine_chunks()
    while pa.types.is_list(found.type) or pa.types.is_large_list(found.type):
        found = found.flatten()
    known = found.cast(kind).drop_null()  # Polars has views
    if not len(known):
        return pc.scalar(False)
    field = pc.field(column["Column"])
    return reduce(operator.or_, (field.isin(known[at : at + 50]) for at in range(0, len(known), 50)))


def _literal(node: Mapping[str, Any], column: str) -> pa.Scalar:
    """Return a literal as a value of the column's type."""
    content, kind = node["Literal"], _type_of(column)
    (form, value), *_ = (content.get("Scalar") or content.get("Dyn")).items()
    if form == "Binary" and kind == pa.binary():
        return pa.scalar(bytes(value), kind)
    if form in ("String", "Str") and kind == pa.string():
        return pa.scalar(value, kind)
    if form.startswith(("Int", "UInt")) and pa.types.is_integer(kind):
        return pa.scalar(int(value), pa.int64())
    if form == "Boolean" and kind == pa.bool_():
        return pa.scalar(value, kind)
    if form == "Datetime" and pa.types.is_timestamp(kind):
        number, unit, zone = value
        scale = _MICROSECONDS[unit]
        if zone is None or number % (1 / scale):
            raise _UnknownError(form)
        return pa.scalar(int(number * scale), pa.int64()).cast(kind)
    raise _UnknownError(form)


def _type_of(column: str) -> pa.DataType:
    return ROWS.field(column).type
