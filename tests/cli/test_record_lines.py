"""Lines as records: text as in Kafka's console producer, and JSON."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.cli.record_lines import JsonLines, MalformedLineError, TextLines
from native_log.producer import ProducerRecord

_FULL = TextLines("t", key_separator=b":", headers_delimiter=b"\t", null_marker=b"NULL")


@pytest.mark.parametrize(
    ("lines", "line", "expected"),
    [
        (TextLines("t"), b"a:b", ProducerRecord("t", b"a:b")),
        (TextLines("t"), b"", ProducerRecord("t", b"")),
        (TextLines("t", 3), b"\xff\xfe", ProducerRecord("t", b"\xff\xfe", partition=3)),
        (TextLines("t", key_separator=b"::"), b"k::v::w", ProducerRecord("t", b"v::w", b"k")),
        (TextLines("t", key_separator=b":"), b":", ProducerRecord("t", b"", b"")),
        (TextLines("t", null_marker=b"NULL"), b"NULL", ProducerRecord("t", None)),
        (TextLines("t", null_marker=b""), b"", ProducerRecord("t", None)),
        (
            TextLines("t", headers=(("a", b"1"),)),
            b"v",
            ProducerRecord("t", b"v", headers=[("a", b"1")]),
        ),
        (_FULL, b"h:1,i:2\tk:v", ProducerRecord("t", b"v", b"k", [("h", b"1"), ("i", b"2")])),
        (_FULL, b"h:a:b,,\tk:v", ProducerRecord("t", b"v", b"k", [("h", b"a:b")])),
        (_FULL, b",\tk:v", ProducerRecord("t", b"v", b"k", [])),
        (_FULL, b"NULL\tk:v", ProducerRecord("t", b"v", b"k")),
        (_FULL, b"h:NULL\tNULL:NULL", ProducerRecord("t", None, None, [("h", None)])),
        (
            TextLines("t", headers_delimiter=b"|", headers_separator=b";", headers_key_separator=b"="),
            b"h=\xff;i=|v",
            ProducerRecord("t", b"v", headers=[("h", b"\xff"), ("i", b"")]),
        ),
        (
            TextLines("t", headers_delimiter=b"|", headers=(("z", None),)),
            b"h:1|v",
            ProducerRecord("t", b"v", headers=[("h", b"1"), ("z", None)]),
        ),
    ],
)
def test_text(lines: TextLines, line: bytes, expected: ProducerRecord) -> None:
    assert lines.parse(line) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"h:1 k:v", "expected a headers delimiter (b'\\t'), found none in b'h:1 k:v'"),
        (b"h:1\tv", "expected a key separator (b':'), found none in b'v'"),
        (b"\tk:v", "expected a separator of header name and value (b':'), found none in b''"),
        (b"h:1,i\tk:v", "expected a separator of header name and value (b':'), found none in b'i'"),
        (b"NULL:1\tk:v", "expected the name of a header, found the null marker"),
        (b"\xff:1\tk:v", "expected a header name in UTF-8, found b'\\xff'"),
    ],
)
def test_text_without_its_separators_is_malformed(line: bytes, message: str) -> None:
    with pytest.raises(MalformedLineError, match=re.escape(message)):
        _FULL.parse(line)


@pytest.mark.parametrize(
    ("lines", "line", "expected"),
    [
        (JsonLines("t"), b"{}", ProducerRecord("t")),
        (JsonLines(), b'{"topic":"u","value":"v"}', ProducerRecord("u", b"v")),
        (JsonLines("t"), b'{"topic":"u"}\r', ProducerRecord("t")),
        (JsonLines("t"), b'{"topic":7}', ProducerRecord("t")),
        (JsonLines("t"), b'{"key":null,"value":{"base64":"/w=="}}', ProducerRecord("t", b"\xff")),
        (JsonLines("t"), '{"value":"é\\u00e9"}'.encode(), ProducerRecord("t", "éé".encode())),
        (JsonLines("t"), b'{"partition":2,"timestamp":0}', ProducerRecord("t", None, None, None, 2, 0)),
        (JsonLines("t"), b'{"timestamp":-1}', ProducerRecord("t", None, None, None, None, None)),
        (JsonLines("t", 5), b'{"partition":2}', ProducerRecord("t", partition=5)),
        (
            JsonLines("t", headers=(("z", b"1"),)),
            b'{"headers":[{"key":"a","value":null},{"key":"","value":{"base64":""}}]}',
            ProducerRecord("t", headers=[("a", None), ("", b""), ("z", b"1")]),
        ),
        (
            JsonLines("t"),
            b'{"headers":null,"offset":-1,"segment":[],"magic":"x"}',
            ProducerRecord("t"),
        ),
        (
            JsonLines("t"),
            b'{"key":[1, true, null, -2],"value":{"x": 2, "y": {"\xc3\xa9\\n": [{}, []]}}}',
            ProducerRecord("t", '{"x":2,"y":{"é\\n":[{},[]]}}'.encode(), b"[1,true,null,-2]"),
        ),
        (JsonLines("t"), b'{"key":false,"value":12}', ProducerRecord("t", b"12", b"false")),
        (
            JsonLines("t"),
            b'{"value":[1.10, 0.1234567890123456789, 1e400, 12345678901234567890]}',
            ProducerRecord("t", b"[1.10,0.1234567890123456789,1e400,12345678901234567890]"),
        ),
        (JsonLines("t"), b'{"value":1.50}', ProducerRecord("t", b"1.50")),
        (
            JsonLines("t"),
            b'{"value":{"base64":"/w==","x":1}}',
            ProducerRecord("t", b'{"base64":"/w==","x":1}'),
        ),
        (JsonLines("t"), b'{"value":"{ }","key":"null"}', ProducerRecord("t", b"{ }", b"null")),
        (
            JsonLines("t", headers=(("z", b"1"),)),
            b'{"headers":{"h":"v","n":null,"b":{"base64":"/w=="},"o":{"x": 1}}}',
            ProducerRecord(
                "t", headers=[("h", b"v"), ("n", None), ("b", b"\xff"), ("o", b'{"x":1}'), ("z", b"1")]
            ),
        ),
        (JsonLines("t"), b'{"headers":{}}', ProducerRecord("t", headers=[])),
        (
            JsonLines("t"),
            b'{"timestamp":"2026-01-01T00:00:00Z"}',
            ProducerRecord("t", timestamp_ms=1_767_225_600_000),
        ),
        (JsonLines("t"), b'{"timestamp":"2026-01-01"}', ProducerRecord("t", timestamp_ms=1_767_225_600_000)),
        (
            JsonLines("t"),
            b'{"timestamp":"2026-01-01T01:00:00.0019+01:00"}',
            ProducerRecord("t", timestamp_ms=1_767_225_600_001),
        ),
        (JsonLines("t"), b" \t", None),
        (JsonLines("t"), b"", None),
    ],
)
def test_json(lines: JsonLines, line: bytes, expected: ProducerRecord | None) -> None:
    assert lines.parse(line) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"v", "expected a JSON object, found b'v': Expecting value"),
        (b'{"value":"v"', "expected a JSON object"),
        (b'{"value":"v"} {}', "Extra data"),
        (b'"v"', "expected a JSON object, found b'\"v\"'"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"value":"\xff"}', "expected JSON in UTF-8, found the byte 0xff at 10"),
        ('{"value":"v"}'.encode("utf-16"), "expected JSON in UTF-8, found the byte 0xff at 0"),
        (b'\xef\xbb\xbf{"value":"v"}', "BOM"),
        (b'{"value":"\\ud800"}', "value: expected text or base64"),
        (b'{"value":"v","value":"w"}', "expected each field once, found 'value' several times"),
        (b'{"valeu":"v"}', "headers, found 'valeu'"),
        (b'{"_corrupt_record":"at 7","topic":"t"}', "found a damaged range of a log: 'at 7'"),
        (b'{"value":{"x":1,"x":2}}', "expected each field once, found 'x' several times"),
        (b'{"headers":{"x":"1","x":"2"}}', "expected each field once, found 'x' several times"),
        (b'{"value":["\\ud800"]}', "value: expected text or base64"),
        (b'{"value":[1,NaN]}', "expected a number of JSON, found NaN"),
        (b'{"value":-Infinity}', "expected a number of JSON, found -Infinity"),
        (
            b'{"key":{"base64":"/w="}}',
            'key: expected text or base64, found {"base64": "/w="}: Incorrect padding',
        ),
        (b'{"key":{"base64":null}}', "key: expected text or base64"),
        (b'{"key":{"base64":"\xc3\xa9"}}', "key: expected text or base64"),
        (b'{"partition":-1}', "partition: expected an integer from 0 to 2147483647 or null, found -1"),
        (b'{"partition":2147483648}', "partition: expected an integer"),
        (b'{"partition":true}', "found true"),
        (
            b'{"timestamp":1.5}',
            "timestamp: expected epoch ms from 0 on, an ISO 8601 time from 1970 on, -1 or null, found 1.5",
        ),
        (b'{"timestamp":"soon"}', 'found "soon"'),
        (b'{"timestamp":"-1h"}', 'found "-1h"'),
        (b'{"timestamp":"20260101"}', 'found "20260101"'),
        (b'{"timestamp":"1969-12-31T23:59:59.999Z"}', 'found "1969-12-31T23:59:59.999Z"'),
        (b'{"timestamp":NaN}', "found NaN"),
        (b'{"timestamp":-5}', "found -5"),
        (b'{"timestamp":9223372036854775808}', "timestamp: expected epoch ms"),
        (b'{"timestamp":' + b"9" * 5000 + b"}", "expected a JSON object"),
        (
            b'{"headers":"a"}',
            'headers: expected a list of {"key", "value"}, an object of names and values, or null, found "a"',
        ),
        (b'{"headers":{"\\udfff":"v"}}', "headers: expected text or base64"),
        (b'{"headers":[["a","b"]]}', 'headers: expected objects {"key", "value"}'),
        (b'{"headers":[{"key":"a","val":"b"}]}', 'headers: expected objects {"key", "value"}'),
        (b'{"headers":[{"value":"b"}]}', "headers: expected a string as key, found none"),
        (b'{"headers":[{"key":"\\udfff"}]}', "headers: expected text or base64"),
    ],
)
def test_json_that_is_no_record_is_malformed(line: bytes, message: str) -> None:
    with pytest.raises(MalformedLineError, match=re.escape(message)) as caught:
        JsonLines("t").parse(line)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("depth", [100, 400, 700, 950, 1500, 3000, 10_000])
@pytest.mark.parametrize("field", ["value", "partition", "timestamp", "headers"])
def test_nested_json_is_a_value_or_malformed(field: str, depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    try:
        record = JsonLines("t").parse(b'{"%s": %s}' % (field.encode(), nested))
    except MalformedLineError:
        return
    assert record == ProducerRecord("t", nested)


def test_offsets_are_mentioned_once(caplog: pytest.LogCaptureFixture) -> None:
    lines = JsonLines("t")
    for line in (b"{}", b'{"offset":null}', b'{"offset":1,"partition":-1}'):
        with contextlib.suppress(MalformedLineError):
            lines.parse(line)
    assert caplog.messages == []
    lines.parse(b'{"offset":0}')
    lines.parse(b'{"offset":1}')
    assert caplog.messages == ["the offsets in the input are not kept: the records get new offsets"]


def test_json_needs_a_topic() -> None:
    with pytest.raises(
        MalformedLineError, match="topic: expected a string, or the option --topic, found none"
    ):
        JsonLines().parse(b"{}")


_ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_FIELD = st.sampled_from(["key", "value", "headers", "topic", "partition", "timestamp", "offset", "x"])


@given(st.binary(max_size=40) | st.dictionaries(_FIELD, _ANY_JSON).map(lambda row: json.dumps(row).encode()))
def test_any_line_is_a_record_or_malformed(line: bytes) -> None:
    for lines in (JsonLines(), _FULL):
        try:
            record = lines.parse(line)
        except MalformedLineError:
            continue
        if record is not None:
            assert isinstance(record.topic, str)
            assert all(type(data) in (bytes, type(None)) for data in (record.key, record.value))
