"""Decode UTF-8 as Java does."""

from __future__ import annotations

import re

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def java_utf8(text: bytes) -> str:
    """Return what `new String(bytes, UTF_8)` is in Java: bytes that are not UTF-8 become U+FFFD.

    Java and Python put the same number of U+FFFD, except for an encoded surrogate: one in Java.
    """
    try:
        return text.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub("\ufffd".encode(), text).decode(errors="replace")
