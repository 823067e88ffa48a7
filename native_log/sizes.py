"""Human-readable sizes."""

from __future__ import annotations


def format_size(size_bytes: int) -> str:
    """Format a size, as in `512 B`, `1.5 KiB` or `20 GiB`."""
    size, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f} {unit}" if unit != "B" and size < 10 else f"{size:.0f} {unit}"
