from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.cli.formats import json_line, printable, rows, text_line
from native_log.records import RECORD_SCHEMA

ROW: dict[str, Any] = {
    "topic": "t",
    "partition": 3,
    "offset": 7,
    "timestamp": 1700000000123,
    "timestampType": 1,
    "key": b"k",
    "value": b"v",
}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\\N"),
        (b"", ""),
        (b"\\N", "\\\\N"),
        (b"a\tb\nc\rd\\", "a\\tb\\nc\\rd\\\\"),
        (b"\x00\x1b[31m\x7f", "\\x00\\x1b[31m\\x7f"),
        ("東京 🙂".encode(), "東京 🙂"),
        ("\x9b\u2028".encode(), "\\x9b\\u2028"),
        (b"\xff\\xff", "\\xff\\\\xff"),
    ],
)
def test_text_is_one_line_and_tells_values_apart(value: bytes | None, text: str) -> None:
    assert printable(value) == text


@given(st.binary(), st.binary())
def test_different_bytes_have_different_texts_of_one_line(one: bytes, other: bytes) -> None:
    assert (printable(one) == printable(other)) == (one == other)
    assert len(printable(one).splitlines()) <= 1
    assert "\t" not in printable(one)


def test_text_line() -> None:
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}, {"key": "", "value": b""}]
    assert text_line(ROW) == "t-3\t7\t2023-11-14T22:13:20.123Z\tk\tv"
    assert text_line({**ROW, "headers": None}) == text_line(ROW)
    assert text_line({**ROW, "headers": headers}) == text_line(ROW) + "\th=1\th=\\N\t="
    assert text_line({**ROW, "timestamp": None}).split("\t")[2] == "-"


def test_json_line() -> None:
    assert json_line(ROW) == (
        '{"topic":"t","partition":3,"offset":7,"timestamp":1700000000123,"timestampType":1,"key":"k","value":"v"}'
    )
    other = json.loads(json_line({**ROW, "key": None, "value": b"\xff", "headers": []}))
    assert (other["key"], other["value"], other["headers"]) == (None, {"base64": "/w=="}, [])
    headers = [{"key": "h", "value": "é".encode()}, {"key": "h", "value": None}]
    assert json.loads(json_line({**ROW, "headers": headers}))["headers"] == [
        {"key": "h", "value": "é"},
        {"key": "h", "value": None},
    ]
    encoded = json.loads(json_line({**ROW, "headers": headers}, always_base64=True))
    assert (encoded["key"], encoded["headers"][0]["value"]) == ({"base64": "aw=="}, {"base64": "w6k="})


def test_times_out_of_pythons_reach() -> None:
    field = RECORD_SCHEMA.field("timestamp")
    column = pa.array([2**63 - 1, -(2**63), -1000, None], pa.int64()).cast(field.type)
    batch = pa.RecordBatch.from_arrays([column], schema=pa.schema([field]))
    assert [row["timestamp"] for row in rows(batch)] == [(2**63 - 1) // 1000, -(2**63) // 1000, -1, None]
