"""Filters as SQL text: what follows WHERE, as in Spark SQL.

Names are not case-sensitive. A comparison with null is null, and such rows are not selected. A string that is
compared with a key or a value means its UTF-8 bytes; one that is compared with a timestamp is a time, in the
given time zone unless it names one. What cannot be expressed is a FilterError.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from native_log.filters.errors import FilterError
from native_log.filters.record_filter import ROWS, RecordFilter
from native_log.filters.times import parse_time, parse_zone
from native_log.filters.values import is_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo

    from sqlglot import expressions as exp

EXAMPLE = "timestamp >= '2026-11-01' AND key = 'k1'"


def parse_filter(
    text: str, *, time_zone: str = "UTC", schema: pa.Schema = ROWS, now: datetime | None = None
) -> RecordFilter:
    """Return the filter that SQL text describes.

    Supported are AND, OR, NOT; =, <>, <, <=, >, >=, <=> of a column and a literal; BETWEEN, IN, IS NULL, LIKE
    with %, startswith, endswith and contains; CAST of a key or value to STRING or BINARY; timestamps as
    strings, TIMESTAMP '...', DATE '...', current_timestamp() and intervals added to them.

    Args:
        text: such as "timestamp >= '2026-11-01' AND key = 'k1'".
        time_zone: in which times without a zone are read, such as "Europe/Rome".
        schema: the columns that there are.
        now: the value of current_timestamp(); by default the present time.

    Raises:
        FilterError: the text is no SQL, or says what a filter cannot express.
    """
    try:
        import sqlglot
        from sqlglot.errors import SqlglotError
    except ImportError as error:
        raise FilterError(
            "filters in SQL need sqlglot, which is not installed: pip install 'sqlglot>=27'"
        ) from error
    translator = _Translator(parse_zone(time_zone), schema, now)
    try:
        trees = sqlglot.parse(text, read="spark")
        if len(trees) != 1 or trees[0] is None:
            raise FilterError(f"expected one condition such as {EXAMPLE!r}, found {text!r}")
        for node in trees[0].walk():
            unknown = {name for name, value in node.args.items() if value} - _UNDERSTOOD
            if unknown:
                raise _rejected(node, f"its part {min(unknown)!r} is not known")
        return RecordFilter(translator.condition(trees[0], negated=False), schema)
    except SqlglotError as error:
        message = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split("\n", 1)[0]
        raise FilterError(f"expected SQL such as {EXAMPLE!r}, found {text!r}: {message}") from None
    except RecursionError:
        raise FilterError(
            "expected a condition with fewer levels, found one that is nested too deeply"
        ) from None


_UNDERSTOOD = {
    *("this", "expression", "expressions", "low", "high", "negate"),
    *("to", "safe", "unit", "is_string", "quoted"),
}
"""The parts of expressions that are translated. Another part, also one of a newer sqlglot, is an error, since
the condition would mean something else without it."""

_OPERATORS: dict[str, Callable[[Any, Any], pc.Expression]] = {
    "EQ": lambda a, b: a == b,
    "NEQ": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LTE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GTE": lambda a, b: a >= b,
}
_SWAPPED = {"EQ": "EQ", "NEQ": "NEQ", "LT": "GT", "LTE": "GTE", "GT": "LT", "GTE": "LTE"}
_NEGATED = {"EQ": "NEQ", "NEQ": "EQ", "LT": "GTE", "LTE": "GT", "GT": "LTE", "GTE": "LT"}
_TEXT_FUNCTIONS = {
    "StartsWith": pc.starts_with,
    "EndsWith": pc.ends_with,
    "Contains": pc.match_substring,
}


class _Translator:
    """Translates one text. NOT is moved down to the comparisons, so that null need not be told from false."""

    def __init__(self, zone: tzinfo, schema: pa.Schema, now: datetime | None) -> None:
        self._zone = zone
        self._fields = {field.name.lower(): field for field in schema}
        self._now = datetime.now(zone) if now is None else now.astimezone(zone)

    def condition(self, node: exp.Expr, *, negated: bool) -> pc.Expression:
        """Return what is true where `node` is true, or where it is false if `negated`."""
        kind = type(node).__name__
        if node.args.get("negate"):  # NOT LIKE, since sqlglot 30
            negated = not negated
        if kind == "Paren":
            return self.condition(node.this, negated=negated)
        if kind == "Not":
            return self.condition(node.this, negated=not negated)
        if kind in ("And", "Or"):
            left, right = (
                self.condition(side, negated=negated) for side in (node.this, node.args["expression"])
            )
            return left & right if (kind == "And") != negated else left | right
        if kind in _OPERATORS:
            operator = _NEGATED[kind] if negated else kind
            return self._comparison(operator, node.this, node.args["expression"], node)
        tests: dict[str, Callable[..., pc.Expression]] = {
            "Between": self._between,
            "In": self._in,
            "Is": self._is,
            "Like": self._like,
            "NullSafeEQ": self._null_safe,
            "Boolean": self._boolean,
            "Column": self._column,
            **dict.fromkeys(_TEXT_FUNCTIONS, self._text_test),
        }
        if kind not in tests:
            raise _rejected(node)
        return tests[kind](node, negated=negated)

    def _comparison(self, operator: str, left: exp.Expr, right: exp.Expr, node: exp.Expr) -> pc.Expression:
        field = self._field(left)
        if field is None:
            operator, left, right, field = _SWAPPED[operator], right, left, self._field(right)
        if field is None:
            raise _rejected(node)
        value = self._literal(right, field)
        return pc.scalar(False) if value is None else _OPERATORS[operator](pc.field(field.name), value)

    def _between(self, node: exp.Expr, *, negated: bool) -> pc.Expression:
        low, high = node.args["low"], node.args["high"]
        compare = partial(self._comparison, left=node.this, node=node)
        if negated:
            return compare("LT", right=low) | compare("GT", right=high)
        return compare("GTE", right=low) & compare("LTE", right=high)

    def _in(self, node: exp.Expr, *, negated: bool) -> pc.Expression:
        field = self._known_field(node.this)
        options = node.args.get("expressions")
        if not options:
            raise _rejected(node)
        values = [self._literal(option, field) for option in options]
        known = [value for value in values if value is not None]
        if negated:
            # NOT IN a list with null is never true.
            is_other = pc.field(field.name).is_valid() & ~is_in(field, known)
            return pc.scalar(False) if len(known) < len(values) else is_other
        return is_in(field, known)

    def _is(self, node: exp.Expr, *, negated: bool) -> pc.Expression:
        wanted = node.args["expression"]
        if type(wanted).__name__ == "Boolean":
            field = pc.field(self._known_field(node.this, pa.bool_()).name)
            same = field.is_valid() & (field == wanted.this)
            return ~same if negated else same
        if type(wanted).__name__ != "Null":
            raise _rejected(node)
        column = pc.field(self._known_field(node.this).name)
        return column.is_valid() if negated else column.is_null()

    def _null_safe(self, node: exp.Expr, *, negated: bool) -> pc.Expression:
        left, right = node.this, node.args["expression"]
        field = self._field(left)
        if field is None:
            left, right = right, left
            field = self._known_field(left)
        column, value = pc.field(field.name), self._literal(right, field)
        if value is None:
            return column.is_valid() if negated else column.is_null()
        return column.is_null() | (column != value) if negated else column == value

    def _boolean(self, node: exp.Expr, *, negated: bool) -> pc.Expression:
        return pc.scalar(bool(node.this) != negated)

    def _column(self, node: exp.Expr, *, negated: bool) -> pc.Expression:
        return pc.field(self._known_field(node, pa.bool_()).name) == (not negated)

    def _like(self, node: exp.Expr, *, negated: bool) -> pc.Expression:
        pattern = node.args["expression"]
        if not _is_text(pattern) or re.search(r"[_\\]", pattern.this):
            raise _rejected(node, "a filter has LIKE with % only, neither _ nor escapes")
        return self._matches(self._known_field(node.this, pa.binary(), pa.string()), pattern.this, negated)

    def _matches(self, field: pa.Field, pattern: str, negated: bool) -> pc.Expression:
        """Return a LIKE with % only."""
        first, *middle, last = pattern.split("%") if "%" in pattern else (pattern, pattern)
        column, encode = pc.field(field.name), partial(_encoded, field=field)
        if "%" not in pattern:
            found = column == encode(pattern)
        elif not any(middle) and not (first and last):
            found = column.is_valid()
            found = pc.starts_with(column, encode(first)) if first else found
            found = pc.ends_with(column, encode(last)) if last else found
        else:
            regex = r"(?s)\A" + ".*".join(_quoted(part, field) for part in pattern.split("%")) + r"\z"
            found = pc.match_substring_regex(column, regex)
        return column.is_valid() & ~found if negated else found

    def _text_test(self, node: exp.Expr, *, negated: bool) -> pc.Expression:
        field = self._known_field(node.this, pa.binary(), pa.string())
        value = self._literal(node.args["expression"], field)
        if value is None:
            return pc.scalar(False)
        column = pc.field(field.name)
        found = _TEXT_FUNCTIONS[type(node).__name__](column, value.as_py())
        return column.is_valid() & ~found if negated else found

    def _field(self, node: exp.Expr) -> pa.Field | None:
        """Return the column that a node names, None if it is not a column."""
        kind = type(node).__name__
        if kind == "Paren":
            return self._field(node.this)
        if kind in ("Cast", "TryCast"):
            field = self._field(node.this)
            is_text = field is not None and field.type in (pa.binary(), pa.string())
            return field if is_text and _target(node) in ("STRING", "BINARY") else None
        if kind != "Column" or node.args.get("table") is not None:
            return None
        field = self._fields.get(node.this.this.lower())
        if field is None:
            names = ", ".join(each.name for each in self._fields.values())
            raise FilterError(f"expected a filter of the columns {names}, found {node.this.this!r}")
        return field

    def _known_field(self, node: exp.Expr, *kinds: pa.DataType) -> pa.Field:
        field = self._field(node)
        if field is None or (kinds and field.type not in kinds):
            raise _rejected(node)
        return field

    def _literal(self, node: exp.Expr, field: pa.Field) -> pa.Scalar | None:
        """Return a literal as a value of the column's type, None for null."""
        kind = type(node).__name__
        if kind == "Paren":
            return self._literal(node.this, field)
        if kind == "Null":
            return None
        if pa.types.is_timestamp(field.type):
            try:
                return pa.scalar(self._time(node), field.type)
            except OverflowError:
                raise _rejected(node, "expected a time in the years 1 to 9999") from None
        if pa.types.is_integer(field.type):
            return self._integer(node)
        if field.type in (pa.binary(), pa.string()):
            if _is_text(node):
                return pa.scalar(_encoded(node.this, field), field.type)
            if kind == "HexString" and field.type == pa.binary():
                digits = node.this.zfill(len(node.this) + len(node.this) % 2)
                return pa.scalar(bytes.fromhex(digits), pa.binary())
        if field.type == pa.bool_() and kind == "Boolean":
            return pa.scalar(bool(node.this))
        raise _rejected(node, f"expected a literal of type {field.type} for column {field.name}")

    def _integer(self, node: exp.Expr) -> pa.Scalar:
        kind, sign = type(node).__name__, 1
        if kind == "Neg":
            node, sign = node.this, -1
            kind = type(node).__name__
        if kind == "Literal" and re.fullmatch(r"\s*[+-]?\d{1,19}\s*", str(node.this)):
            number = sign * int(node.this)
            if -(2**63) <= number < 2**63:
                return pa.scalar(number, pa.int64())
        raise _rejected(node, "expected an integer of 64 bits")

    def _time(self, node: exp.Expr) -> datetime:
        kind = type(node).__name__
        if kind == "Paren":
            return self._time(node.this)
        if _is_text(node):
            return parse_time(node.this, self._zone)
        if kind in ("Cast", "TryCast") and _target(node) in ("TIMESTAMP", "DATE"):
            return self._date(node.this) if _target(node) == "DATE" else self._time(node.this)
        if kind in ("CurrentTimestamp", "CurrentDate"):
            return self._now if kind == "CurrentTimestamp" else _midnight(self._now)
        if kind in ("Add", "Sub") and type(node.args["expression"]).__name__ == "Interval":
            span = self._interval(node.args["expression"])
            return _later(self._time(node.this), span if kind == "Add" else -span, self._zone)
        raise _rejected(node, "expected a time such as '2026-11-01 12:00:00'")

    def _date(self, node: exp.Expr) -> datetime:
        """Return midnight in the given time zone. Spark reads only the date of a string, not its zone."""
        time = self._time(node)
        return _midnight((time if _is_text(node) else time.astimezone(self._zone)).replace(tzinfo=self._zone))

    def _interval(self, node: exp.Expr) -> timedelta:
        unit = str(node.args.get("unit") or "").lower().rstrip("s") + "s"
        number = str(node.this.this)
        if unit not in ("weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds"):
            raise _rejected(node, "expected an interval of weeks or a smaller unit")
        if not re.fullmatch(r"-?\d{1,9}", number):
            raise _rejected(node, "expected an interval of a whole number")
        return timedelta(**{unit: int(number)})


def _target(node: exp.Expr) -> str:
    """Return the type to which a value is cast, by its name in Spark."""
    return str(node.args["to"].sql(dialect="spark")).upper()


def _is_text(node: exp.Expr) -> bool:
    return type(node).__name__ == "Literal" and bool(node.is_string)


def _later(time: datetime, span: timedelta, zone: tzinfo) -> datetime:
    """Add whole days by the calendar and the rest as elapsed time, as Spark does where clocks change."""
    local = time.astimezone(UTC).astimezone(zone)
    days = timedelta(days=int(span / timedelta(days=1)))
    moved = local + days
    second = moved.replace(fold=1)
    if second.astimezone(UTC) > moved.astimezone(UTC) and second.utcoffset() == local.utcoffset():
        moved = second  # of two equal local times, the one with the same offset
    return moved.astimezone(UTC) + (span - days)


def _midnight(time: datetime) -> datetime:
    return time.replace(hour=0, minute=0, second=0, microsecond=0)


def _encoded(text: str, field: pa.Field) -> Any:
    return text.encode() if field.type == pa.binary() else text


def _quoted(text: str, field: pa.Field) -> str:
    """Return an expression that matches the text. In binary columns, a character of RE2 is a byte."""
    codes = text.encode() if field.type == pa.binary() else map(ord, text)
    return "".join(f"\\x{{{code:x}}}" for code in codes)


def _rejected(node: exp.Expr, reason: str = "a filter compares columns with literals") -> FilterError:
    part = node.sql(dialect="spark")
    return FilterError(
        f"cannot express {part!r} in a filter: {reason}. Filter the rows that are read instead"
    )
