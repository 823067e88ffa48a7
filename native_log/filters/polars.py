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
from native_log.filters.values import is_in

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


def _condition(node: Mapping[str, Any], *, negated: bool = False) -> pc.Expression:
    """Return a condition, or its negation. Raises one of _UNKNOWN if it has no translation.

    Negations move inwards, because IsIn is null for a null in Polars and false in Arrow.
    """
    (kind, content), *_ = node.items()
    if kind == "BinaryExpr" and content["op"] in ("And", "LogicalAnd", "Or", "LogicalOr"):
        left, right = (_condition(content[side], negated=negated) for side in ("left", "right"))
        return left & right if content["op"].endswith("And") != negated else left | right
    if kind == "Function":
        (family, name), *_ = content["function"].items()
        if (family, name) == ("Boolean", "Not"):
            return _condition(content["input"][0], negated=not negated)
        if family == "Boolean" and isinstance(name, dict) and name.get("IsIn") == {"nulls_equal": False}:
            return _is_in(*content["input"], negated=negated)
        condition = _function(family, name, content["input"])
    elif kind == "BinaryExpr":
        condition = _comparison(content["op"], content["left"], content["right"])
    elif kind == "Column" and _type_of(content) == pa.bool_():
        condition = pc.field(content)
    else:
        raise _UnknownError(kind)
    return ~condition if negated else condition


def _comparison(name: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> pc.Expression:
    if "Column" not in left:
        left, right, name = right, left, _SWAPPED.get(name, name)
    return _COMPARISONS[name](pc.field(left["Column"]), _literal(right, left["Column"]))


def _function(family: str, name: Any, arguments: list[Mapping[str, Any]]) -> pc.Expression:
    if family == "Boolean":
        if name in ("IsNull", "IsNotNull"):
            field = pc.field(arguments[0]["Column"])
            return field.is_null() if name == "IsNull" else field.is_valid()
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


def _is_in(column: Mapping[str, Any], values: Mapping[str, Any], *, negated: bool) -> pc.Expression:
    """Return whether a column has one of some values, which Polars sends as an Arrow stream of one list."""
    field = ROWS.field(column["Column"])
    with pa.ipc.open_stream(bytes(values["Literal"]["Scalar"]["List"])) as stream:
        found = stream.read_all().column(0).combine_chunks()
    while pa.types.is_list(found.type) or pa.types.is_large_list(found.type):
        found = found.flatten()
    condition = is_in(field, list(found.cast(field.type).drop_null()))  # Polars has views
    return pc.field(field.name).is_valid() & ~condition if negated else condition


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
