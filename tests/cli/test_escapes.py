from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_log.cli.escapes import concatenated_values, json_column, json_value, printable, printable_column


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
def test_each_value_has_a_text_of_one_line(value: bytes | None, text: str) -> None:
    assert printable(value) == text


@given(st.binary(), st.binary())
def test_different_bytes_have_different_texts_of_one_line(data: bytes, other: bytes) -> None:
    assert (printable(data) == printable(other)) == (data == other)
    assert len(printable(data).splitlines()) <= 1
    assert "\t" not in printable(data)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (b"", '""'),
        ('é"\\\n\x01'.encode(), '"é\\"\\\\\\n\\u0001"'),
        (b"\xff", '{"base64":"/w=="}'),
    ],
)
def test_json_is_a_string_where_the_bytes_are_utf8(value: bytes | None, text: str) -> None:
    assert json_value(value) == text


def test_json_can_be_base64_always() -> None:
    assert json.loads(json_value(b"k", always_base64=True)) == {"base64": "aw=="}


TEXTS = st.text(st.sampled_from('ab"\\\n\t\r\x00\x07\x7f\x85é\u2028\u2029🙂'), max_size=8).map(str.encode)
CLEAN = st.text(st.sampled_from('ab"\\\né🙂'), max_size=8).map(str.encode)
COLUMNS = st.one_of(
    st.lists(st.none() | values, max_size=8)
    for values in (st.binary(max_size=8), TEXTS, CLEAN, st.just(b"a"))
)


@settings(deadline=None)
@given(COLUMNS, st.integers(0, 3))
def test_a_column_is_escaped_as_its_values_are(values: list[bytes | None], first: int) -> None:
    column = pa.array(values, pa.binary()).slice(first)
    values = values[first:]
    assert printable_column(column).to_pylist() == [printable(value).encode() for value in values]
    assert json_column(column).to_pylist() == [json_value(value).encode() for value in values]
    assert json_column(column, True).to_pylist() == [json_value(value, True).encode() for value in values]
    assert bytes(concatenated_values(column)) == b"".join(value or b"" for value in values)
