"""Numbers in text as Java reads them. Python also accepts `1_000`."""

from __future__ import annotations

import re


def parse_int(text: str, bits: int) -> int:
    """Return an integer of 32 or 64 bits, as Java's parseInt and parseLong do. Raises ValueError."""
    if not re.fullmatch(r"[+-]?\d+", text):
        raise ValueError(f"expected an integer, found {text!r}")
    number = int(text)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"expected an integer of {bits} bits, found {text!r}")
    return number
