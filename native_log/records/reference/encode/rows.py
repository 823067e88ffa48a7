"""Arrow columns to one row for each record."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from native_log.records.reference.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from native_log.records.encoding import Part

_PER_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
_NO_TIMESTAMP = -1
RecordHeaders: TypeAlias = list[tuple[bytes, bytes | None]]


class RejectedError(Exception):
    """Records that cannot be encoded: see native_log.records.encoding.raise_rejection."""


def rows(parts: Sequence[Part], base_offset: int, now_ms: int) -> Iterator[tuple[Record, RecordHeaders]]:
    """Yield the records with their headers, whose names are bytes here."""
    selected = (batch if numbers is None else batch.take(numbers) for batch, numbers in parts)
    fields = chain.from_iterable(_fields(batch, now_ms) for batch in selected)
    for number, (key, value, headers, timestamp) in enumerate(fields):
        if timestamp < _NO_TIMESTAMP:
            raise RejectedError("timestamp", number, number, timestamp)
        if any(name is None for name, _ in headers):
            raise RejectedError("header-key", number, number, 0)
        yield Record(base_offset + number, timestamp, 0, key, value), headers


def _fields(
    records: pa.RecordBatch, now_ms: int
) -> Iterator[tuple[bytes | None, bytes | None, RecordHeaders, int]]:
    """Yield key, value, headers and timestamp of each record."""
    return zip(
        _binary(records, "key"),
        _binary(records, "value"),
        _headers(records),
        _timestamps(records, now_ms),
        strict=True,
    )


def _binary(records: pa.RecordBatch, name: str) -> list[bytes | None]:
    if name not in records.schema.names:
        return [None] * records.num_rows
    column = records.column(name)
    null = pa.types.is_null(column.type)
    values: list[bytes | None] = (column if null else column.cast(pa.large_binary())).to_pylist()
    return values


def _headers(records: pa.RecordBatch) -> list[RecordHeaders]:
    if "headers" not in records.schema.names:
        return [[]] * records.num_rows

    def encoded(data: str | bytes | None) -> bytes | None:
        return data.encode() if isinstance(data, str) else data

    return [
        [(encoded(header["key"]), encoded(header["value"])) for header in headers or ()]  # type: ignore[misc]
        for headers in records.column("headers").to_pylist()
    ]


def _timestamps(records: pa.RecordBatch, now_ms: int) -> list[int]:
    if "timestamp" not in records.schema.names:
        return [now_ms] * records.num_rows
    column = records.column("timestamp")
    factor, divisor = _PER_MS[column.type.unit] if pa.types.is_timestamp(column.type) else (1, 1)
    values = column if pa.types.is_null(column.type) else column.cast(pa.int64())
    return [now_ms if value is None else value * factor // divisor for value in values.to_pylist()]
