"""Passes over the headers of a .log file that do not read the batches' bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.records import (
    BATCH_SCHEMA,
    DEFAULT_MAX_BATCH_BYTES,
    DecodeOptions,
    OffsetOrder,
    Scanned,
    decode,
    scan,
    scan_headers,
)
from native_log.segment.chunks import BatchCursor

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from native_log.storage import DataFile, Window

_SMALLEST_BYTES = 4 << 10
_LARGEST_BYTES = 1 << 20
_JUMPED_BYTES = 8 << 10
"""How large batches must be on average for one read a header to cost less than reading all."""
_MOST_ROWS = 1 << 14
"""Of one step, where the headers alone are read."""

Batch = dict[str, Any]
"""What lookups ask of one row of BATCH_SCHEMA: its columns _ASKED, by name."""

# Turning all columns into Python values would take most of the time of opening a log.
_ASKED = ("position", "sizeInBytes", "baseOffset", "lastOffset", "maxTimestamp", "isValid")
_ASKED_INDEXES = tuple((name, BATCH_SCHEMA.get_field_index(name)) for name in _ASKED)


def scan_file(
    file: DataFile,
    position: int,
    end: int,
    window: Window,
    *,
    check_crcs: bool = False,
    first_bytes: int = _SMALLEST_BYTES,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    order: OffsetOrder | None = None,
) -> Iterator[Scanned]:
    """Scan `file` from `position` to `end`, some batches at a time.

    The last Scanned says how it ended: "end"; "partial": less than a whole batch is left before `end`, and
    `needed_bytes` would be needed; "zeros": nothing but zeros up to `end`; "damaged". Its `position` is the
    first byte that belongs to no whole batch. Those before it are gone on from, whatever their status.

    Args:
        first_bytes: how much to read at first, before it is known how large batches are.
        order: what is known of the offsets, of a descriptor of `file`; None: batches come in any order.
    """
    cursor = BatchCursor(file, position, end, order)
    chunk_bytes, jump_rows = first_bytes, 0
    while True:
        position = cursor.position
        if jump_rows:
            size = end - position
            found = _headers(cursor, jump_rows, max_batch_bytes)
        else:
            view = window.at(file, position, cursor.stop(chunk_bytes), cursor.needed_bytes)
            size = len(view)
            found = scan(
                view,
                base_position=position,
                check_crcs=check_crcs,
                max_batch_bytes=max_batch_bytes,
                order=cursor.order,
            )
        found = cursor.advance(whole_batches(found, end), size)
        yield found
        if not cursor.has_more:
            return
        count = found.batches.num_rows
        if count:
            is_jumped = not check_crcs and (found.position - position) // count >= _JUMPED_BYTES
            jump_rows = min(_MOST_ROWS, 8 * count) if is_jumped else 0
            chunk_bytes = _LARGEST_BYTES


def _headers(cursor: BatchCursor, max_rows: int, max_batch_bytes: int) -> Scanned:
    while True:
        try:
            return scan_headers(
                cursor.file.fileno(),
                cursor.position,
                cursor.end,
                max_rows=max_rows,
                max_batch_bytes=max_batch_bytes,
                order=cursor.order,
            )
        except EOFError:
            cursor.file.read(cursor.end - 1, 1)  # says that the file was truncated, unless it has grown again


def whole_batches(found: Scanned, end: int) -> Scanned:
    """Return the batches that end at or before byte `end`: all, or all but the last, "partial" one.

    Scanning needs the header of a batch alone.
    """
    if found.position <= end:
        return found
    rows = found.batches.num_rows - 1
    last = row(found.batches, rows)
    previous = row(found.batches, rows - 1)["lastOffset"] + 1 if rows else None
    return Scanned(
        found.batches.slice(0, rows), "partial", last["position"], previous, last["sizeInBytes"], None
    )


def row(batches: pa.RecordBatch, index: int) -> Batch:
    """One batch as a dict by column name."""
    return {name: batches.column(i)[index].as_py() for name, i in _ASKED_INDEXES}


def first_at_least(batches: pa.RecordBatch, column: str, least: int) -> int | None:
    """Index of the first row whose `column` is at least `least`, or None."""
    return next((index for index, value in enumerate(int64s(batches, column)) if value >= least), None)


def valid_batch_at(
    file: DataFile, position: int, end: int, window: Window, *, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
) -> Batch | None:
    """The batch that begins at `position`, if a whole one with a right CRC does.

    `baseOffset` is never null.
    """
    found = _whole_batch_at(file, position, end, window, max_batch_bytes)
    if found is None:
        return None
    batch, data = found
    if batch["baseOffset"] is None:
        batch["baseOffset"] = _wrapper_base(data, max_batch_bytes)
    return None if batch["baseOffset"] is None else batch


def has_valid_crc(
    file: DataFile, position: int, end: int, window: Window, *, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
) -> bool:
    """Whether a whole batch with a right CRC begins at `position`, whatever its records are."""
    return _whole_batch_at(file, position, end, window, max_batch_bytes) is not None


def _whole_batch_at(
    file: DataFile, position: int, end: int, window: Window, max_batch_bytes: int
) -> tuple[Batch, memoryview] | None:
    """The whole batch with a right CRC that begins at `position`, and its bytes."""
    if not 0 <= position < end:
        return None
    needed = 1
    while True:
        view = window.at(file, position, min(end, position + max(needed, _SMALLEST_BYTES)), needed)
        size = min(len(view), max(needed, _SMALLEST_BYTES))
        found = scan(view[:size], base_position=position, check_crcs=True, max_batch_bytes=max_batch_bytes)
        if found.batches.num_rows:
            first = row(found.batches, 0)
            return (first, view[: first["sizeInBytes"]]) if first["isValid"] else None
        if found.status != "partial" or position + found.needed_bytes > end:
            return None
        needed = found.needed_bytes


def _wrapper_base(batch: memoryview, max_batch_bytes: int) -> int | None:
    """First offset in a compressed v0/v1 wrapper: only its records tell."""
    options = DecodeOptions(check_crcs=False, max_batch_bytes=max_batch_bytes)
    inner = decode(batch, ["batchOffset"], options).batch
    return inner.column(0)[0].as_py() if inner.num_rows else None


def int64s(batches: pa.RecordBatch, column: str) -> memoryview:
    """A column of 64-bit integers as a view of Python ints; what stands in its nulls is undefined."""
    values = batches.column(column)
    data = values.buffers()[1]
    if len(values) == 0 or data is None:
        return memoryview(b"").cast("q")
    return memoryview(data).cast("b")[: (values.offset + len(values)) * 8].cast("q")[values.offset :]


def int32s(batches: pa.RecordBatch, column: str) -> memoryview:
    """The same for 32-bit integers."""
    values = batches.column(column)
    data = values.buffers()[1]
    if len(values) == 0 or data is None:
        return memoryview(b"").cast("i")
    return memoryview(data).cast("b")[: (values.offset + len(values)) * 4].cast("i")[values.offset :]


def max_batch_timestamp_ms(batches: pa.RecordBatch) -> int:
    """Of batches (BATCH_SCHEMA); -1 if none has a timestamp, as those of magic 0."""
    import pyarrow.compute as pc  # slow to import: a plain read does without

    greatest: int | None = pc.max(batches.column("maxTimestamp")).as_py()
    return -1 if greatest is None else greatest
