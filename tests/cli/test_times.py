from __future__ import annotations

import pytest

from native_log.cli.times import parse_time_ms
from native_log.times import format_time_ms


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("0", 0),
        ("-1", -1),
        ("1700000000123", 1700000000123),
        ("2023-11-14T22:13:20.123Z", 1700000000123),
        ("2023-11-14 22:13:20.123", 1700000000123),
        ("2023-11-14T23:13:20.123+01:00", 1700000000123),
        ("2023-11-14", 1699920000000),
        ("2023-11-14T22:13:20.123001Z", 1700000000124),  # the first millisecond that is not before it
        ("1969-12-31T23:59:59.9995Z", 0),
    ],
)
def test_times_are_iso_or_epoch_ms(text: str, time_ms: int) -> None:
    assert parse_time_ms(text, now_ms=0) == time_ms


@pytest.mark.parametrize(
    ("text", "before_ms"),
    [
        ("-1h", 3_600_000),
        ("-30m", 1_800_000),
        ("-1h30m", 5_400_000),
        ("-2d", 172_800_000),
        ("-1w1s", 604_801_000),
    ],
)
def test_times_are_relative_to_now(text: str, before_ms: int) -> None:
    assert parse_time_ms(text, now_ms=1700000000000) == 1700000000000 - before_ms


@pytest.mark.parametrize("text", ["", "yesterday", "2023-13-01", "1e3", "12:00", "-h", "-1y", "1h"])
def test_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"isoformat|month"):
        parse_time_ms(text, now_ms=0)


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (1700000000123, "2023-11-14T22:13:20.123Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (-1000, "1969-12-31T23:59:59.000Z"),
        (-62135596800000, "0001-01-01T00:00:00.000Z"),
        (253402300799999, "9999-12-31T23:59:59.999Z"),
        (253402300800000, "253402300800000"),
        (-62135596800001, "-62135596800001"),
        (2**63 - 1, str(2**63 - 1)),
        (-1, "-"),
        (None, "-"),
    ],
)
def test_every_time_has_a_text(time_ms: int | None, text: str) -> None:
    assert format_time_ms(time_ms) == text
