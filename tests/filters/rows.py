"""Rows of records, and SQL conditions on them that Python evaluates, too."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st

from native_log.filters.record_filter import ROWS

if TYPE_CHECKING:
    from collections.abc import Callable

START = datetime(2026, 11, 1, tzinfo=UTC)
KEYS = [None, b"", b"a", b"ab", b"b", b"a%_.\\", "ä".encode(), b"\xff\x00"]
TIMES = [START + timedelta(minutes=minutes) for minutes in range(5)]

rows = st.fixed_dictionaries(
    {
        "key": st.sampled_from(KEYS),
        "value": st.sampled_from(KEYS),
        "topic": st.sampled_from(["a", "b", "ab"]),
        "partition": st.integers(0, 3),
        "offset": st.integers(0, 6),
        "timestamp": st.sampled_from(TIMES),
        "producerId": st.sampled_from([-1, 7]),
        "isTransactional": st.booleans(),
    }
)


def table_of(found: list[dict[str, Any]]) -> pa.RecordBatch:
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "producerId", "isTransactional"]
    return pa.RecordBatch.from_pylist(found, schema=pa.schema([ROWS.field(name) for name in names]))


tables = st.lists(rows, max_size=12).map(table_of)


@dataclass(frozen=True)
class Condition:
    """SQL, and what it is for a row: True, False, or None for null."""

    sql: str
    of: Callable[[dict[str, Any]], bool | None]


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}'"
    if isinstance(value, bool):
        return str(value)
    return f"'{value}'" if isinstance(value, str) else str(value)


VALUES = {
    "key": st.sampled_from(KEYS),
    "value": st.sampled_from(KEYS),
    "topic": st.sampled_from(["a", "b", "c", None]),
    "partition": st.integers(-1, 4),
    "offset": st.integers(-1, 7),
    "timestamp": st.sampled_from([None, *TIMES]),
    "producerId": st.sampled_from([-1, 7, 8]),
}
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@st.composite
def comparisons(draw: st.DrawFn) -> Condition:
    name = draw(st.sampled_from(sorted(VALUES)))
    operator, value = draw(st.sampled_from(sorted(OPERATORS))), draw(VALUES[name])
    compare = OPERATORS[operator]

    def of(row: dict[str, Any]) -> bool | None:
        return None if row[name] is None or value is None else compare(row[name], value)

    if draw(st.booleans()):
        swapped = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(operator, operator)
        return Condition(f"{literal(value)} {swapped} {name}", of)
    return Condition(f"{name} {operator} {literal(value)}", of)


@st.composite
def memberships(draw: st.DrawFn) -> Condition:
    name = draw(st.sampled_from(sorted(VALUES)))
    values = draw(st.lists(VALUES[name], min_size=1, max_size=4))

    def of(row: dict[str, Any]) -> bool | None:
        if row[name] is None:
            return None
        return (
            True if row[name] in [v for v in values if v is not None] else (None if None in values else False)
        )

    return Condition(f"{name} IN ({', '.join(map(literal, values))})", of)


@st.composite
def ranges(draw: st.DrawFn) -> Condition:
    name = draw(st.sampled_from(sorted(VALUES)))
    low, high = (
        draw(VALUES[name].filter(lambda v: v is not None)),
        draw(VALUES[name].filter(lambda v: v is not None)),
    )

    def of(row: dict[str, Any]) -> bool | None:
        return None if row[name] is None else low <= row[name] <= high

    return Condition(f"{name} BETWEEN {literal(low)} AND {literal(high)}", of)


@st.composite
def null_tests(draw: st.DrawFn) -> Condition:
    name = draw(st.sampled_from(sorted(VALUES)))
    value = draw(VALUES[name])
    return draw(
        st.sampled_from(
            [
                Condition(f"{name} IS NULL", lambda row: row[name] is None),
                Condition(f"{name} IS NOT NULL", lambda row: row[name] is not None),
                Condition(f"{name} <=> {literal(value)}", lambda row: row[name] == value),
            ]
        )
    )


@st.composite
def text_tests(draw: st.DrawFn) -> Condition:
    name = draw(st.sampled_from(["key", "value"]))
    part, other = draw(st.sampled_from(["", "a", "b", "ä", "."])), draw(st.sampled_from(["a", "%"]))
    a, b = part.encode(), other.encode()

    def nullable(test: Callable[[bytes], bool]) -> Callable[[dict[str, Any]], bool | None]:
        return lambda row: None if row[name] is None else test(row[name])

    return draw(
        st.sampled_from(
            [
                Condition(f"{name} LIKE '{part}%'", nullable(lambda v: v.startswith(a))),
                Condition(f"{name} LIKE '%{part}'", nullable(lambda v: v.endswith(a))),
                Condition(f"{name} LIKE '%{part}%'", nullable(lambda v: a in v)),
                Condition(f"{name} LIKE '{part}'", nullable(lambda v: v == a)),
                Condition(f"{name} NOT LIKE '{part}'", nullable(lambda v: v != a)),
                Condition(f"{name} NOT LIKE '%{part}%'", nullable(lambda v: a not in v)),
                Condition(
                    f"{name} LIKE 'a%{part}'",
                    nullable(lambda v: v.startswith(b"a") and v.endswith(a) and len(v) >= 1 + len(a)),
                ),
                Condition(f"startswith({name}, '{other}')", nullable(lambda v: v.startswith(b))),
                Condition(f"endswith({name}, '{other}')", nullable(lambda v: v.endswith(b))),
                Condition(f"contains({name}, '{other}')", nullable(lambda v: b in v)),
                Condition(f"CAST({name} AS STRING) = '{part}'", nullable(lambda v: v == a)),
                Condition("isTransactional", lambda row: row["isTransactional"]),
            ]
        )
    )


def both(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def inverse(a: bool | None) -> bool | None:
    return None if a is None else not a


def combine(children: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    pairs = st.tuples(children, children)
    return st.one_of(
        pairs.map(
            lambda p: Condition(f"({p[0].sql} AND {p[1].sql})", lambda r: both(p[0].of(r), p[1].of(r)))
        ),
        pairs.map(
            lambda p: Condition(
                f"({p[0].sql} OR {p[1].sql})",
                lambda r: inverse(both(inverse(p[0].of(r)), inverse(p[1].of(r)))),
            )
        ),
        children.map(lambda c: Condition(f"NOT ({c.sql})", lambda r: inverse(c.of(r)))),
    )


conditions = st.recursive(
    st.one_of(comparisons(), memberships(), ranges(), null_tests(), text_tests()), combine, max_leaves=5
)
