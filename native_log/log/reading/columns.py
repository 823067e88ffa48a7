"""Check what a read asks for: its columns and its mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pyarrow as pa

from native_log.arguments import Mode
from native_log.records import CORRUPT_RECORD, RECORD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

MODES = get_args(Mode)
_FIELDS = {field.name: field for field in (*RECORD_SCHEMA, pa.field(CORRUPT_RECORD, pa.string()))}


def record_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of record batches with these columns. Raises ValueError for an unknown column."""
    if isinstance(columns, str):
        raise ValueError(f"columns: expected a list of names such as [{columns!r}], found {columns!r}")
    for name in columns:
        if name not in _FIELDS:
            raise ValueError(f"unknown column {name!r}; there are {', '.join(_FIELDS)}")
    return pa.schema([_FIELDS[name] for name in columns])


def check_mode(mode: str) -> None:
    """Raise ValueError for an unknown mode."""
    if mode not in MODES:
        raise ValueError(f"mode: expected one of {', '.join(MODES)}, found {mode!r}")
