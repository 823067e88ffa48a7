"""The rows of a decoded batch as plain Python values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.records.schema import RECORD_SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa

ALL = RECORD_SCHEMA.names
SEVEN = ["offset", "timestamp", "timestampType", "key", "value", "headers"]


def rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Timestamps in microseconds: as datetimes some have no value."""
    batch.validate(full=True)
    if "timestamp" in batch.schema.names:
        at = batch.schema.get_field_index("timestamp")
        batch = batch.set_column(at, "timestamp", batch.column(at).cast("int64"))
    return [
        row | {"headers": [(h["key"], h["value"]) for h in row["headers"]]}
        if row.get("headers") is not None
        else row
        for row in batch.to_pylist()
    ]


def offsets(batch: pa.RecordBatch) -> list[int]:
    return batch.column("offset").to_pylist()
