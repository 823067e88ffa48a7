"""Keys and values as text or JSON, a column at a time.

Each function has a twin for one value, which is what a column falls back to where its bytes are not UTF-8
or need many kinds of escapes.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NULL = "\\N"
# Whatever would move a terminal's cursor or break a line; \x85, \u2028 and \u2029 do for some programs.
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_ESCAPES |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", 0x2028: "\\u2028", 0x2029: "\\u2029"}
# What they begin with in UTF-8, and what they are.
_ESCAPED_BEYOND_ASCII = {0xC2: re.compile(rb"\xc2[\x80-\x9f]"), 0xE2: re.compile(rb"\xe2\x80[\xa8\xa9]")}

# The backslash comes first: the other escapes contain it.
_TEXT_BYTES = {ord("\\"): b"\\\\"} | {code: text.encode() for code, text in _ESCAPES.items() if code < 0x80}
_JSON_BYTES = {code: json.dumps(chr(code))[1:-1].encode() for code in (ord("\\"), ord('"'), *range(0x20))}

_NOTHING: Mapping[int, re.Pattern[bytes]] = {}
_MOST_PASSES = 8
"""Replacing one kind of byte is a pass over the column: with more kinds, value by value is faster."""


def printable(value: bytes | None) -> str:
    """A value on one line: null is `\\N`, what does not print is escaped as in Python, `\\` doubled."""
    if value is None:
        return _NULL
    return value.replace(b"\\", b"\\\\").decode(errors="backslashreplace").translate(_ESCAPES)


def printable_column(values: pa.Array) -> pa.Array:
    """`printable` of each value of a binary or string column, as binary without nulls."""
    values = values.cast(pa.binary())
    if _is_utf8(values):
        escaped = _escaped(values, _TEXT_BYTES, _ESCAPED_BEYOND_ASCII)
        if escaped is not None:
            return escaped.fill_null(scalar(_NULL.encode()))
    return _each(values, printable)


def json_value(value: bytes | None, always_base64: bool = False) -> str:
    """A JSON string where the bytes are UTF-8, else (or always) {"base64": "..."}; null stays null."""
    if value is None:
        return "null"
    if not always_base64:
        try:
            return json.dumps(value.decode(), ensure_ascii=False)
        except UnicodeDecodeError:
            pass
    return f'{{"base64":"{base64.b64encode(value).decode()}"}}'


def json_column(values: pa.Array, always_base64: bool = False) -> pa.Array:
    """`json_value` of each value of a binary or string column, as binary without nulls."""
    values = values.cast(pa.binary())
    if not always_base64 and _is_utf8(values):
        escaped = _escaped(values, _JSON_BYTES)
        if escaped is not None:
            return join(b'"', escaped, b'"').fill_null(scalar(b"null"))
    return _each(values, partial(json_value, always_base64=always_base64))


def join(*parts: pa.Array | bytes) -> pa.Array:
    """Binary columns and literals joined row by row; null where a part is null."""
    both = (scalar(part) if isinstance(part, bytes) else part for part in (*parts, b""))
    return pc.binary_join_element_wise(*both)


def scalar(data: bytes) -> pa.Scalar:
    """A binary scalar. (pa.scalar would import pandas, which takes half a second.)"""
    offsets = struct.pack("=2i", 0, len(data))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), 1, buffers)[0]


def data_of(values: pa.Array) -> memoryview:
    """The bytes of a binary column, one value behind the other."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return memoryview(b"")
    ends = memoryview(offsets).cast("i")
    return memoryview(data)[ends[values.offset] : ends[values.offset + len(values)]]


def _is_utf8(values: pa.Array) -> bool:
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _escaped(
    values: pa.Array, escapes: Mapping[int, bytes], others: Mapping[int, re.Pattern[bytes]] = _NOTHING
) -> pa.Array | None:
    """The values with these bytes replaced; None if too many kinds of them occur, or `others` do."""
    data = bytes(data_of(values))
    rest = bytes(code for code in range(256) if code not in escapes and code not in others)
    found = set(data.translate(None, rest))
    if any(others[code].search(data) for code in found & others.keys()):
        return None
    if len(found - others.keys()) > _MOST_PASSES:
        return None
    for code in (code for code in escapes if code in found):
        values = pc.replace_substring(values, pattern=bytes([code]), replacement=escapes[code])
    return values


def _each(values: pa.Array, function: Callable[[bytes | None], str]) -> pa.Array:
    return pa.array([function(value).encode() for value in values.to_pylist()], pa.binary())
