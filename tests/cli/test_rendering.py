from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from native_log.cli.rendering import (
    CORRUPT_RECORD,
    Rendering,
    format_rendering,
    json_rendering,
    text_rendering,
)
from native_log.records import RECORD_SCHEMA

ROW: dict[str, Any] = {
    "topic": "t",
    "partition": 3,
    "offset": 7,
    "timestamp": 1700000000123000,
    "timestampType": 1,
    "key": b"k",
    "value": b"v",
    "headers": None,
}
HEADERS = [{"key": "h", "value": "é".encode()}, {"key": "h", "value": None}, {"key": "", "value": b""}]
DEFAULT = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value")


def rendered(rendering: Rendering, *rows: dict[str, Any], permissive: bool = False) -> str:
    names = [*rendering.columns, *([CORRUPT_RECORD] if permissive else [])]
    types = [pa.string() if name == CORRUPT_RECORD else RECORD_SCHEMA.field(name).type for name in names]
    columns = [
        pa.array([{**ROW, **row}.get(name) for row in rows], pa.int64()).cast(type)
        if pa.types.is_timestamp(type)
        else pa.array([{**ROW, **row}.get(name) for row in rows], type)
        for name, type in zip(names, types, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    return b"".join(rendering.render(batch)).decode()


def text(*rows: dict[str, Any], headers: bool = False, color: bool = False, permissive: bool = False) -> str:
    rendering = text_rendering(None, include_headers=headers, color=color)
    return rendered(rendering, *rows, permissive=permissive)


def test_text() -> None:
    assert text({}) == "t-3\t7\t2023-11-14T22:13:20.123Z\tk\tv\n"
    assert text({"key": None}, {"offset": 8, "value": b"\t"}) == (
        "t-3\t7\t2023-11-14T22:13:20.123Z\t\\N\tv\nt-3\t8\t2023-11-14T22:13:20.123Z\tk\t\\t\n"
    )
    assert text({}, headers=True) == text({"headers": []}, headers=True) == text({})
    assert text({}, {"headers": HEADERS}, {}, headers=True) == (
        text({}) + text({})[:-1] + "\th=é\th=\\N\t=\n" + text({})
    )


@pytest.mark.parametrize(
    ("time_us", "shown"),
    [
        (-1000, "-"),
        (0, "1970-01-01T00:00:00.000Z"),
        (-2000, "1969-12-31T23:59:59.998Z"),
        (253402300799999000, "9999-12-31T23:59:59.999Z"),
        (253402300800000000, "253402300800000"),
        (2**63 - 1, str((2**63 - 1) // 1000)),
    ],
)
def test_every_time_has_a_text(time_us: int, shown: str) -> None:
    assert text({"timestamp": time_us}, {}).split("\t")[2] == shown
    number = json.loads(rendered(json_rendering(DEFAULT, always_base64=False), {"timestamp": time_us}))
    assert number["timestamp"] == time_us // 1000


def test_color_sets_off_where_a_record_is_and_its_key() -> None:
    assert text({}, color=True) == "\x1b[2mt-3\t7\t2023-11-14T22:13:20.123Z\x1b[0m\t\x1b[1mk\x1b[0m\tv\n"


def test_damaged_ranges_have_lines_of_their_own() -> None:
    rows = ({}, {CORRUPT_RECORD: "bad\ncrc", "key": None, "value": None, "offset": None}, {"offset": 9})
    assert text(*rows, permissive=True).splitlines() == [
        text({})[:-1],
        "t-3\tdamaged\tbad\\ncrc",
        text({"offset": 9})[:-1],
    ]
    rendering = json_rendering(DEFAULT, always_base64=False)
    printed = [json.loads(line) for line in rendered(rendering, *rows, permissive=True).splitlines()]
    assert [row.get(CORRUPT_RECORD) for row in printed] == [None, "bad\ncrc", None]
    assert [row["offset"] for row in printed] == [7, None, 9]
    assert CORRUPT_RECORD not in printed[0]


def test_json() -> None:
    rendering = json_rendering(DEFAULT, always_base64=False)
    assert rendered(rendering, {}) == (
        '{"topic":"t","partition":3,"offset":7,"timestamp":1700000000123,"timestampType":1,"key":"k","value":"v"}\n'
    )
    rendering = json_rendering(["value", "headers"], always_base64=False)
    rows = ({}, {"headers": []}, {"headers": HEADERS}, {"value": None})
    assert [json.loads(line)["headers"] for line in rendered(rendering, *rows).splitlines()] == [
        None,
        [],
        [{"key": "h", "value": "é"}, {"key": "h", "value": None}, {"key": "", "value": ""}],
        None,
    ]
    encoded = json.loads(
        rendered(json_rendering(["value", "headers"], always_base64=True), {"headers": HEADERS})
    )
    assert (encoded["value"], encoded["headers"][0]["value"]) == ({"base64": "dg=="}, {"base64": "w6k="})


def test_columns_are_in_the_order_asked_for() -> None:
    names = ["offset", "isTransactional", "headers", "segment", "producerId"]
    row = {"isTransactional": True, "headers": HEADERS[:1], "segment": "0.log", "producerId": 5}
    assert rendered(text_rendering(names, include_headers=False, color=False), row) == (
        '7\ttrue\t[{"key":"h","value":"é"}]\t0.log\t5\n'
    )
    line = rendered(json_rendering(names, always_base64=False), row)
    assert list(json.loads(line).items()) == [
        ("offset", 7),
        ("isTransactional", True),
        ("headers", [{"key": "h", "value": "é"}]),
        ("segment", "0.log"),
        ("producerId", 5),
    ]


@pytest.mark.parametrize(
    ("form", "row", "shown"),
    [
        ("%o %k %s\\n", {}, "7 k v\n"),
        ("%t[%p]\\t%T\\t%K,%S%%", {}, "t[3]\t1700000000123\t1,1%"),
        ("%k|%s|%K|%S;", {"key": None, "value": b""}, "||-1|0;"),
        ("%s", {"value": b"\x1b[31m\n"}, "\x1b[31m\n"),
        ("%h.", {"headers": HEADERS}, "h=é,h=NULL,=."),
        ("%h.", {}, "."),
        ("\\x41\\\\n\\r\\0", {}, "A\\n\r\0"),
    ],
)
def test_format_strings(form: str, row: dict[str, Any], shown: str) -> None:
    assert rendered(format_rendering(form), row) == shown
    assert rendered(format_rendering(form), row, row) == shown * 2


@pytest.mark.parametrize("form", ["%", "%z", "\\q", "\\x4", "%o\\"])
def test_an_invalid_format_string_is_an_error(form: str) -> None:
    with pytest.raises(ValueError, match="expected fields %t"):
        format_rendering(form)
