"""Filters as SQL text, and what follows from them for the records to read."""

from __future__ import annotations

import operator
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_log.filters import FilterError, RecordFilter, to_filter
from native_log.filters.record_filter import ROWS
from native_log.filters.satisfiability import Satisfiability
from native_log.filters.sql import parse_filter
from native_log.filters.times import parse_time
from tests.effort import examples

from .rows import START, Condition, conditions, tables

many = settings(max_examples=examples(150), deadline=None, derandomize=True)


@given(table=tables, condition=conditions)
@many
def test_rows_that_sql_selects(table: pa.RecordBatch, condition: Condition) -> None:
    selected = parse_filter(condition.sql).apply(table)
    assert selected.to_pylist() == [row for row in table.to_pylist() if condition.of(row) is True]


@given(table=tables, condition=conditions)
@many
def test_selected_rows_meet_what_follows(table: pa.RecordBatch, condition: Condition) -> None:
    filter = pickle.loads(pickle.dumps(parse_filter(condition.sql)))
    check_what_follows(filter, table, [condition.of(row) is True for row in table.to_pylist()])


def arrow_expressions() -> st.SearchStrategy[pc.Expression]:
    """Return expressions as users of Arrow write them."""
    field = pc.field
    number = st.one_of(st.integers(-1, 7), st.sampled_from([-0.5, 2.0, 3.5]))
    compare = st.sampled_from([operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne])
    keys = st.sampled_from([None, b"", b"a", b"b"])
    leaves = st.one_of(
        st.builds(
            lambda by, column, n: by(field(column), n),
            compare,
            st.sampled_from(["offset", "partition", "producerId"]),
            number,
        ),
        st.builds(lambda by, n: by(field("offset") + 1, n), compare, number),
        st.builds(
            lambda by, minutes: by(field("timestamp"), pa.scalar(START + timedelta(minutes=minutes))),
            compare,
            st.integers(-1, 5),
        ),
        st.builds(lambda by, key: by(field("key"), pa.scalar(key, pa.binary())), compare, keys),
        st.builds(
            lambda values, skip: pc.is_in(
                field("key"), value_set=pa.array(values, pa.binary()), skip_nulls=skip
            ),
            st.lists(keys, max_size=3),
            st.booleans(),
        ),
        st.lists(st.integers(-1, 7), max_size=3).map(
            lambda ns: field("offset").isin(pa.array(ns, pa.int64()))
        ),
        st.sampled_from([field("key").is_null(), field("value").is_valid(), field("isTransactional")]),
        st.just(pc.binary_length(field("key")) > 0),
        st.just(field("topic") == "a"),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
            st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
            st.tuples(inner, inner).map(lambda pair: pc.xor(*pair)),
            inner.map(operator.inv),
            inner.map(lambda expression: expression.is_null()),
        ),
        max_leaves=4,
    )


@given(table=tables, expression=arrow_expressions())
@many
def test_rows_that_an_expression_of_arrow_selects(table: pa.RecordBatch, expression: pc.Expression) -> None:
    rows = pa.Table.from_batches([table.append_column("number", pa.array(range(len(table))))])
    numbers = set(rows.filter(expression)["number"].to_pylist())
    filter = RecordFilter(expression)
    assert filter.apply(table).num_rows == len(numbers)
    check_what_follows(filter, table, [number in numbers for number in range(len(table))])


def check_what_follows(filter: RecordFilter, table: pa.RecordBatch, selected: list[bool]) -> None:
    """Check that selected rows meet what follows from the filter, and if it is exact, that no others do."""
    wanted, (first, last) = filter.conditions, filter.offsets

    def follows(row: dict) -> bool:
        time_ms = round(row["timestamp"].timestamp() * 1000)
        return (
            filter.is_possible
            and (first is None or first <= row["offset"])
            and (last is None or row["offset"] <= last)
            and (wanted.min_timestamp_ms is None or wanted.min_timestamp_ms <= time_ms)
            and (wanted.max_timestamp_ms is None or time_ms <= wanted.max_timestamp_ms)
            and (wanted.producer_ids is None or row["producerId"] in wanted.producer_ids)
            and (wanted.keys is None or row["key"] in wanted.keys)
            and filter.selects([(row["topic"], row["partition"])]) == [True]
        )

    following = [follows(row) for row in table.to_pylist()]
    assert all(b for a, b in zip(selected, following, strict=True) if a)
    if filter.is_exact:
        assert selected == following


@pytest.mark.parametrize(
    ("sql", "offsets"),
    [
        ("offset > 5", (6, None)),
        ("5 >= offset", (None, 5)),
        ("offset BETWEEN 3 AND 9 AND offset <> 4", (3, 9)),
        ("offset = 3 OR offset = 7", (3, 7)),
        ("offset > 3 OR key = 'a'", (None, None)),
        ("NOT (offset < 4 OR offset > 5)", (4, 5)),
        ("offset IN (8, 1, 5)", (1, 8)),
        ("offset > 9223372036854775806", (2**63 - 1, None)),
        ("offset < -9223372036854775807", (None, -(2**63))),
    ],
)
def test_bounds_of_offsets(sql: str, offsets: tuple[int | None, int | None]) -> None:
    assert parse_filter(sql).offsets == offsets


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_bounds_are_found_with_few_questions(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The literals are tried first. Without them, each of the four bounds takes 64 questions."""
    asked = []
    ask = Satisfiability.of
    monkeypatch.setattr(Satisfiability, "of", lambda self, known: asked.append(known) or ask(self, known))
    offset, time = pc.field("offset"), pa.scalar(START, pa.timestamp(unit, "UTC"))
    offsets = (offset >= pa.scalar(3, pa.int16())) & (offset < 2**40)
    filter = to_filter(offsets & (pc.field("timestamp") >= time) & (pc.field("timestamp") <= time))
    start_ms = round(START.timestamp() * 1000)
    assert filter.offsets == (3, 2**40 - 1)
    assert (filter.conditions.min_timestamp_ms, filter.conditions.max_timestamp_ms) == (start_ms, start_ms)
    assert filter.is_possible
    assert len(asked) < 25


def test_columns_of_a_filter() -> None:
    assert parse_filter("value = 'timestampType' OR offset > 3").columns == ("value", "offset")
    assert to_filter(pc.list_value_length(pc.field("headers")) > 0).columns == ("headers",)
    with pytest.raises(
        FilterError, match=r"expected a filter of the columns .*, found \(FieldPath\(4\) > 5\)"
    ):
        to_filter(pc.field(4) > 5)


def test_bounds_that_are_no_literals() -> None:
    assert to_filter(pc.field("offset") + pa.scalar(1, pa.int64()) > 2.5).offsets == (None, None)
    assert to_filter(pc.field("offset") >= pc.scalar("17").cast(pa.int64())).offsets == (17, None)


def test_bounds_of_times_are_whole_milliseconds() -> None:
    filter = parse_filter("timestamp > '2026-11-01 00:00:00' AND timestamp < '2026-11-01 00:00:01'")
    start_ms = round(START.timestamp() * 1000)
    assert (filter.conditions.min_timestamp_ms, filter.conditions.max_timestamp_ms) == (
        start_ms + 1,
        start_ms + 999,
    )
    assert filter.is_exact


def test_times_that_python_cannot_convert_to_utc() -> None:
    table = pa.record_batch({"timestamp": pa.array([START], ROWS.field("timestamp").type)})
    for text in ("timestamp IN ('0001-01-01', '2026-11-01 05:30:00')", "timestamp > '0001-01-01'"):
        assert parse_filter(text, time_zone="Asia/Kolkata").apply(table).equals(table)


@pytest.mark.parametrize("count", [1, 49, 51, 120])
def test_many_keys(count: int) -> None:
    keys = [f"k{number:03}" for number in range(count)]
    filter = parse_filter(f"key IN ({', '.join(map(repr, keys))})")
    assert filter.conditions.keys == tuple(key.encode() for key in keys)
    assert filter.is_exact


def test_a_filter_that_selects_nothing() -> None:
    assert not parse_filter("offset > 5 AND offset < 3").is_possible
    assert not parse_filter("key = NULL").is_possible


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026", "UTC", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-11", "UTC", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01T10:30", "Europe/Rome", datetime(2026, 11, 1, 9, 30, tzinfo=UTC)),
        ("2026-11-01 10:30:00.25Z", "Europe/Rome", datetime(2026, 11, 1, 10, 30, 0, 250_000, tzinfo=UTC)),
        ("2026-11-01 10:30:00+02:00", "UTC", datetime(2026, 11, 1, 8, 30, tzinfo=UTC)),
        ("2026-07-01 10:30:00 Europe/Rome", "UTC", datetime(2026, 7, 1, 8, 30, tzinfo=UTC)),
        ("2026-10-25 02:30:00", "Europe/Rome", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),  # occurs twice
        ("2026-03-29 02:30:00", "Europe/Rome", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),  # does not exist
    ],
)
def test_times(text: str, zone: str, expected: datetime) -> None:
    assert parse_time(text, ZoneInfo(zone)).astimezone(UTC) == expected


def test_times_before_now() -> None:
    filter = parse_filter("timestamp > current_timestamp() - INTERVAL 2 HOURS")
    found = filter.conditions.min_timestamp_ms
    expected = (datetime.now(UTC) - timedelta(hours=2)).timestamp() * 1000
    assert found is not None
    assert abs(found - expected) < 60_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("key =", "expected SQL"),
        ("nokey = 1", "columns key, value"),
        ("offset % 2 = 0", "cannot express 'offset % 2 = 0'"),
        ("offset = partition", "cannot express"),
        ("value RLIKE 'a+'", "cannot express"),
        ("key LIKE 'a_'", "neither _ nor escapes"),
        ("key LIKE ANY ('a', 'b')", "cannot express"),
        ("offset BETWEEN SYMMETRIC 2 AND 1", "its part 'symmetric' is not known"),
        ("headers[0].key = 'h'", "cannot express"),
        ("timestamp > 5", "expected a time"),
        ("timestamp > 'yesterday'", "expected a time"),
        ("timestamp > '2026-11-01 12:00:00 Europe'", "expected a time zone"),
        ("timestamp > TIMESTAMP '9999-12-31' + INTERVAL 1 WEEK", "the years 1 to 9999"),
        ("offset > 1.5", "integer of 64 bits"),
        ("offset > 99999999999999999999", "integer of 64 bits"),
        ("offset IN (SELECT 1)", "cannot express"),
        ("key = 'a'; DROP TABLE t", "expected one condition"),
        ("", "expected one condition"),
        (" OR ".join(["offset = 1"] * 3000), "nested too deeply"),
        ("1 = 1", "cannot express"),
    ],
)
def test_what_cannot_be_expressed(text: str, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        parse_filter(text)


def test_time_zones() -> None:
    rome, west = (
        parse_filter("timestamp > '2026-11-01'", time_zone=zone) for zone in ("Europe/Rome", "-01:00")
    )
    assert west.conditions.min_timestamp_ms - rome.conditions.min_timestamp_ms == 2 * 3_600_000
    with pytest.raises(FilterError, match="time zone"):
        parse_filter("offset > 1", time_zone="Europe/Nowhere")


def test_other_columns() -> None:
    schema = pa.schema([("segmentCount", pa.int32()), ("path", pa.string())])
    filter = parse_filter("SEGMENTCOUNT > 1 AND path LIKE '/data/%x'", schema=schema)
    assert filter.columns == ("segmentCount", "path")
    batch = pa.RecordBatch.from_pylist(
        [{"segmentCount": 2, "path": "/data/äx"}, {"segmentCount": 2, "path": "/var/x"}], schema=schema
    )
    assert filter.apply(batch).num_rows == 1


def test_forms() -> None:
    expression = pc.field("offset") > 5
    filters = [to_filter("offset > 5"), to_filter(expression), to_filter(RecordFilter(expression))]
    assert [filter.offsets for filter in filters] == [(6, None)] * 3
    with pytest.raises(TypeError, match="SQL text or an expression"):
        to_filter(5)  # type: ignore[arg-type]
    with pytest.raises(FilterError, match="nokey"):
        to_filter(pc.field("nokey") == 1)


class TestPolars:
    pl = pytest.importorskip("polars")

    @given(table=tables, data=st.data())
    @settings(max_examples=examples(100), deadline=None, derandomize=True)
    def test_translated_predicates(self, table: pa.RecordBatch, data: st.DataObject) -> None:
        self.check(data.draw(self.predicates()), table)

    def check(self, predicate: Any, table: pa.RecordBatch) -> None:
        """Check that the translation selects the rows of the predicate, and no others if it is complete."""
        from native_log.filters.polars import translate_predicate

        frame = self.pl.from_arrow(pa.Table.from_batches([table]))
        expected = frame.filter(predicate).to_arrow().cast(table.schema).to_pylist()
        translated = translate_predicate(predicate)
        selected = translated.filter.apply(table).to_pylist()
        if translated.is_complete:
            assert selected == expected
        assert all(row in selected for row in expected)

    def predicates(self) -> st.SearchStrategy:
        col = self.pl.col
        number = st.integers(-1, 7)
        leaves = st.one_of(
            number.map(lambda n: col("offset") > n),
            number.map(lambda n: n >= col("offset")),
            number.map(lambda n: col("offset") % 2 == n % 2),
            st.lists(number, max_size=3).map(lambda ns: col("partition").is_in(ns)),
            st.sampled_from([b"", b"a", b"b"]).map(lambda key: col("key") == key),
            st.builds(
                lambda keys, nulls_equal: col("key").is_in(keys, nulls_equal=nulls_equal),
                st.lists(st.sampled_from([b"", b"a", None]), max_size=3),
                st.booleans(),
            ),
            st.just(col("key").is_null()),
            st.just(col("value").is_not_null()),
            st.just(col("isTransactional")),
            st.just(col("key").bin.starts_with(b"a")),
            st.just(col("topic") == "a"),
            st.builds(
                lambda n, unit: (
                    col("timestamp")
                    >= self.pl.lit(START + timedelta(minutes=n), dtype=self.pl.Datetime(unit, "UTC"))
                ),
                number,
                st.sampled_from(["ms", "us", "ns"]),
            ),
            st.builds(
                lambda n, closed: col("offset").is_between(n, n + 2, closed=closed),
                number,
                st.sampled_from(["both", "left", "right", "none"]),
            ),
        )
        return st.recursive(
            leaves,
            lambda inner: st.one_of(
                st.tuples(inner, inner).map(lambda p: p[0] & p[1]),
                st.tuples(inner, inner).map(lambda p: p[0] | p[1]),
                inner.map(lambda p: ~p),
            ),
            max_leaves=4,
        )

    @pytest.mark.parametrize("nulls_equal", [False, True])
    @pytest.mark.parametrize("keys", [[], [b"a"], [b"a", None]])
    def test_nulls_and_negations(self, keys: list[bytes | None], nulls_equal: bool) -> None:
        table = pa.RecordBatch.from_pylist([{"key": key} for key in (b"a", b"b", None)], schema=ROWS)
        key, has_offset = self.pl.col("key"), self.pl.col("offset") >= 0
        is_in = key.is_in(keys, nulls_equal=nulls_equal)
        for predicate in (is_in, ~is_in, ~(is_in & key.is_not_null()), ~(is_in | has_offset), ~~is_in):
            self.check(predicate, table)

    def test_what_cannot_be_expressed(self) -> None:
        with pytest.raises(FilterError, match="scan_polars"):
            to_filter(self.pl.col("offset") % 2 == 0)
