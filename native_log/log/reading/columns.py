"""Check what a read asks for: its columns and its mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pyarrow as pa

from native_log.arguments import Mode
from native_log.records import CORRUPT_RECORD, RECORD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

MODES = get_args(Mode)


def record_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of record batches with these columns. Raises ValueError for an unknown column."""
    if isinstance(columns, str):
        raise ValueError(f"columns: expected a list of names such as [{columns!r}], found {columns!r}")
    fields = {name: RECORD_SCHEMA.field(name) for name in RECORD_SCHEMA.names}
    fields[CORRUPT_RECORD] = pa.field(CORRUPT_RECORD, pa.string())
    for name in columns:
        if name not in fields:
            raise ValueError(f"unknown column {name!r}; there are {', '.join(fields)}")
    return pa.schema([fields[name] for name in columns])


def check_mode(mode: str) -> None:
    """Raise ValueError for an unknown mode."""
    if mode not in MODES:
        raise ValueError(f"mode: expected one of {', '.join(MODES)}, found {mode!r}")
