"""JSON as Java prints it (Jackson's ObjectNode.toString)."""

from __future__ import annotations

import base64
import math
from decimal import Decimal
from typing import Any

_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)}
_ESCAPES |= {ord(char): f"\\{escape}" for char, escape in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)}


def json_text(value: Any) -> str:
    """Format dicts, lists, strings, numbers, booleans and None as JSON. Bytes become base64."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{_quoted(name)}:{json_text(item)}' for name, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bytes):
        return _quoted(base64.b64encode(value).decode())
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double(value) if math.isfinite(value) else _quoted(_double(value))
    return "null" if value is None else str(value)


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _double(value: float) -> str:
    """Format like Java's Double.toString."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else f"{text}.0"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    significant = "".join(map(str, digits)).rstrip("0")
    power = int(exponent) + len(digits) - 1
    return f"{'-' * sign}{significant[0]}.{significant[1:] or '0'}E{power}"
