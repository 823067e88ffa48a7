"""Format figures and names for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.sizes import format_count
from native_log.times import format_time_ms

if TYPE_CHECKING:
    from collections.abc import Callable

_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def displayed(text: str) -> str:
    """Return text from the data with escapes for characters that are invisible or change its direction.

    Characters that no file can contain (from file names that are not UTF-8) are escaped, too.
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )


def shortened(text: str, length: int) -> str:
    """Return text of at most `length` characters, with an ellipsis in its middle if it was longer."""
    text = displayed(text)
    if len(text) <= length:
        return text
    end = (length - 1) // 2
    return f"{text[: length - 1 - end]}…{text[len(text) - end :]}"


def number(value: int) -> str:
    """Format a number with separators: `1,234`."""
    return f"{value:,}"


def rounded(value: int) -> str:
    """Format a large number in words: `1.73 billion`. Numbers up to a million have all their digits."""
    for unit, name in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if value >= unit:
            return f"{value / unit:.3g} {name}" if value < 1000 * unit else f"{value // unit:,} {name}"
    return number(value)


count = format_count
"""The sections of a report use it in many sentences."""


def time(time_ms: int | None) -> str:
    """Format a time to seconds: `2024-02-29 12:30:00`. No time is `–`."""
    if time_ms is None:
        return "–"
    text = format_time_ms(time_ms)
    return text[:19].replace("T", " ") if text.endswith("Z") else text


def duration(ms: int) -> str:
    """Format a duration in its largest whole unit: `3 d`."""
    for unit, size in _UNITS_MS:
        if ms >= 2 * size or unit == "s":
            return f"{ms // size:,} {unit}"
    raise AssertionError


def percent(part: float, whole: float) -> str:
    """Format a share: `12 %`. A small share that is not zero is `< 1 %`."""
    share = part / whole if whole else 0.0
    return "< 1 %" if 0 < share < 0.01 else f"{share:.0%}".replace("%", " %")


def with_remote(total: int, remote: int, form: Callable[[int], str] = number) -> str:
    """Format a total, followed by the part of it in remote storage if there is any: `10 (8 remote)`."""
    return f"{form(total)} ({form(remote)} remote)" if remote else form(total)
