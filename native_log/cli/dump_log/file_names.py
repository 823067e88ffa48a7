"""The offsets in the names of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pathlib import Path


def base_offset_of(path: Path) -> int:
    """Return the offset in the name of a segment's file. Raises click.UsageError if there is none."""
    digits = path.name.split(".")[0]
    if not (digits.isascii() and digits.isdigit()):
        raise click.UsageError(
            f"{path}: expected a name like {42:020d}{path.suffix}, with the segment's first offset; "
            "rename the file"
        )
    return int(digits)
