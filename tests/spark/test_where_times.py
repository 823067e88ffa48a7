"""Times in a condition are the times that Spark reads in the same text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_log.filters.errors import FilterError
from native_log.filters.record_filter import ROWS
from native_log.filters.sql import parse_filter
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ZONES = ["UTC", "Europe/Rome", "America/St_Johns", "Australia/Lord_Howe", "+05:30"]

dates = st.sampled_from(
    [
        *("2026", "2026-11", "2026-1-5", "2026-03-08", "2026-03-29", "2026-10-25", "2026-11-01"),
        *("2024-02-29", "2026-02-29", "2026-13-01", "20261101", "2026-W45", "2026/11/01"),
    ]
)
separators = st.sampled_from([" ", "T", "T", "t", "x", "  ", ""])
clocks = st.sampled_from(
    [
        *("00:00:00", "02:30:00", "2:5:7", "23:59:59.999", "01:30:00.1234567", "12:00:00.", "12:00:00,5"),
        *("12", "12:30", "123000", "24:00:00", "12:60", "T12:00"),
    ]
)
zones = st.sampled_from(
    [
        *("", "", "", "Z", " Z", "z", "+01:00", "-3:30", "+0100", "+100", "+2", "+18:01", "+01:00:30"),
        *(" UTC", "UTC+01:00", "Europe/Rome", " Etc/GMT-14", "Nowhere/Else"),
    ]
)
times = st.one_of(dates, st.tuples(dates, separators, clocks, zones).map("".join))
amounts = st.sampled_from([-25, -1, 0, 1, 2, 24, 25, 49, 90])
units = st.sampled_from(["WEEKS", "DAYS", "HOURS", "MINUTES"])
intervals = st.builds("{} INTERVAL {} {}".format, st.sampled_from("+-"), amounts, units)


@pytest.fixture(autouse=True)
def session_zone(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone", "UTC")
    yield
    spark.conf.set("spark.sql.session.timeZone", str(before))


def means(text: str, zone: str, micros: int | None) -> bool:
    """Return whether SQL text is a time in microseconds since 1970, or an error for None."""
    try:
        condition = parse_filter(f"timestamp = {text}", time_zone=zone)
    except FilterError:
        return micros is None
    column = pa.array([micros], pa.int64()).cast(ROWS.field("timestamp").type)
    selected = condition.apply(pa.record_batch({"timestamp": column}))
    return selected.num_rows == 1


@pytest.mark.parametrize("zone", ZONES)
@settings(max_examples=examples(2), deadline=None)
@given(texts=st.lists(times, min_size=100, max_size=100))
def test_times_as_text(spark: SparkSession, zone: str, texts: list[str]) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    frame = spark.createDataFrame([(text,) for text in texts], "text string")
    answers = frame.selectExpr("unix_micros(try_cast(text AS timestamp))").collect()
    for text, (expected,) in zip(texts, answers, strict=True):
        assert means(f"'{text}'", zone, expected), text


@pytest.mark.parametrize("zone", ZONES)
@settings(max_examples=examples(2), deadline=None)
@given(
    texts=st.lists(
        st.builds(
            "{} '{} {}{}' {}".format,
            st.sampled_from(["TIMESTAMP", "DATE"]),
            st.sampled_from(["2026-03-08", "2026-03-29", "2026-10-04", "2026-10-25", "2026-11-01"]),
            st.sampled_from(["00:00:00", "01:30:00", "02:00:00", "02:30:00", "03:15:00"]),
            st.sampled_from(["", "", "Z", " Europe/Rome"]),
            st.lists(intervals, max_size=2).map(" ".join),
        ),
        min_size=100,
        max_size=100,
    )
)
def test_dates_and_intervals(spark: SparkSession, zone: str, texts: list[str]) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    micros = (f"unix_micros(CAST({text} AS TIMESTAMP))" for text in texts)
    (answers,) = spark.sql(f"SELECT {', '.join(micros)}").collect()
    for text, expected in zip(texts, answers, strict=True):
        assert means(text, zone, expected), text
