"""Human-readable sizes and counts."""

from __future__ import annotations


def format_size(size_bytes: int) -> str:
    """Format a size, as in `512 B`, `1.5 KiB` or `20 GiB`."""
    size, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f} {unit}" if unit != "B" and size < 10 else f"{size:.0f} {unit}"


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """Format a number of things, as in `1 record` or `2,000 records`.

    Args:
        number: how many there are.
        noun: the singular.
        plural: None: the singular with an s.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
