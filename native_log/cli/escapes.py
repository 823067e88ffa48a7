"""Format keys and values as text or JSON, for a value or for a column. Decode escapes in options.

The functions for columns format value by value if the bytes are not UTF-8 or need many kinds of escapes.
"""

from __future__ import annotations

import base64
import json
import os
import re
import struct
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NULL = "\\N"
ESCAPE_SEQUENCES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
"""What may follow a backslash in an option, and the byte that both stand for. There is also \\xHH."""
_OPTION_TEXT = re.compile(r"\\x([0-9a-fA-F]{2})|\\(.)|([^\\]+)|(.)", re.DOTALL)
# Characters that move a terminal's cursor or break a line. For some programs \x85, \u2028 and \u2029 do.
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_ESCAPES |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", 0x2028: "\\u2028", 0x2029: "\\u2029"}
# Characters that change the order in which a terminal shows a name.
_REORDERING = {
    code: f"\\u{code:04x}"
    for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
# The other escaped characters in UTF-8, by their first byte.
_ESCAPED_BEYOND_ASCII = {0xC2: re.compile(rb"\xc2[\x80-\x9f]"), 0xE2: re.compile(rb"\xe2\x80[\xa8\xa9]")}

# The backslash comes first: the other escapes contain it.
_TEXT_BYTES = {ord("\\"): b"\\\\"} | {code: text.encode() for code, text in _ESCAPES.items() if code < 0x80}
_JSON_BYTES = {code: json.dumps(chr(code))[1:-1].encode() for code in (ord("\\"), ord('"'), *range(0x20))}

_NO_PATTERNS: Mapping[int, re.Pattern[bytes]] = {}
_MAX_PASSES = 8
"""Each kind of byte is replaced in a pass over the column. With more kinds, value by value is faster."""


def decode_escapes(text: str) -> bytes:
    r"""Return the bytes of an option with the escapes \n \r \t \0 \\ \xHH. Raises ValueError."""
    data = bytearray()
    for match in _OPTION_TEXT.finditer(text):
        code, escape, literal, _ = match.groups()
        if literal is not None:
            data += os.fsencode(literal)
        elif code is not None:
            data += bytes.fromhex(code)
        elif escape in ESCAPE_SEQUENCES:
            data += ESCAPE_SEQUENCES[escape]
        else:
            raise ValueError(
                f"expected the escapes \\n \\r \\t \\0 \\\\ \\xHH, found {match[0]!r} at {match.start()}"
            )
    return bytes(data)


def printable(value: bytes | None) -> str:
    """Format a value on one line. Escape unprintable characters as in Python. Null is `\\N`."""
    if value is None:
        return _NULL
    return value.replace(b"\\", b"\\\\").decode(errors="backslashreplace").translate(_ESCAPES)


def safe_text(text: str) -> str:
    """Escape what a terminal would execute or reorder, for a name or a message in one line."""
    safe = text.translate(_ESCAPES | _REORDERING)
    return safe.encode(errors="backslashreplace").decode()  # names that are not UTF-8 have surrogates


def printable_column(values: pa.Array) -> pa.Array:
    """Apply `printable` to a binary or string column. Return a binary array without nulls."""
    values = values.cast(pa.binary())
    if _is_utf8(values):
        escaped = _escape(values, _TEXT_BYTES, _ESCAPED_BEYOND_ASCII)
        if escaped is not None:
            return escaped.fill_null(scalar(_NULL.encode()))
    return _map_values(values, printable)


def json_value(value: bytes | None, always_base64: bool = False) -> str:
    """Format a value as a JSON string if it is UTF-8, otherwise (or always) as {"base64": "..."}."""
    if value is None:
        return "null"
    if not always_base64:
        try:
            return json.dumps(value.decode(), ensure_ascii=False)
        except UnicodeDecodeError:
            pass
    return f'{{"base64":"{base64.b64encode(value).decode()}"}}'


def json_column(values: pa.Array, always_base64: bool = False) -> pa.Array:
    """Apply `json_value` to a binary or string column. Return a binary array without nulls."""
    values = values.cast(pa.binary())
    if not always_base64 and _is_utf8(values):
        escaped = _escape(values, _JSON_BYTES)
        if escaped is not None:
            return join(b'"', escaped, b'"').fill_null(scalar(b"null"))
    return _map_values(values, partial(json_value, always_base64=always_base64))


def join(*parts: pa.Array | bytes) -> pa.Array:
    """Join binary columns and literals row by row. A row is null if a part is null."""
    columns = (scalar(part) if isinstance(part, bytes) else part for part in (*parts, b""))
    return pc.binary_join_element_wise(*columns)


def scalar(data: bytes) -> pa.Scalar:
    """Return a binary scalar. (pa.scalar imports pandas, which takes half a second.)"""
    offsets = struct.pack("=2i", 0, len(data))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), 1, buffers)[0]


def concatenated_values(values: pa.Array) -> memoryview:
    """Return the concatenated values of a binary column."""
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


def _escape(
    values: pa.Array, escapes: Mapping[int, bytes], others: Mapping[int, re.Pattern[bytes]] = _NO_PATTERNS
) -> pa.Array | None:
    """Replace bytes in all values. Return None if too many kinds of them occur, or any of `others`."""
    data = bytes(concatenated_values(values))
    rest = bytes(code for code in range(256) if code not in escapes and code not in others)
    present = set(data.translate(None, rest))
    if any(others[code].search(data) for code in present & others.keys()):
        return None
    if len(present - others.keys()) > _MAX_PASSES:
        return None
    for code in (code for code in escapes if code in present):
        values = pc.replace_substring(values, pattern=bytes([code]), replacement=escapes[code])
    return values


def _map_values(values: pa.Array, function: Callable[[bytes | None], str]) -> pa.Array:
    return pa.array([function(value).encode() for value in values.to_pylist()], pa.binary())
