"""Scan the batch headers of a .log file, and look at single batches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from native_log.records import (
    DEFAULT_MAX_BATCH_BYTES,
    MAX_BATCH_BYTES,
    DecodeOptions,
    OffsetOrder,
    Scanned,
    check_file,
    decode,
    scan,
    scan_headers,
)
from native_log.segment.chunks import BatchCursor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from native_log.records import Checked, DamageSkipper
    from native_log.segment.search import BatchSearch
    from native_log.storage import DataFile, Window

_FIRST_CHUNK_BYTES = 4 << 10
_CHUNK_BYTES = 1 << 20
_LARGE_BATCH_BYTES = 8 << 10
"""If batches have at least this average size, one read per header costs less than reading all bytes."""
_MAX_HEADERS = 1 << 14
"""Maximum number of headers in one step that reads headers alone."""
_CHECK_BYTES = 16 << 20
"""How much one step checks: enough to make the cost of Python's steps small. It is not held in memory."""
_MAX_CHECKED = 1 << 16
"""Maximum number of batches in one step that checks them."""

Batch = dict[str, Any]
"""The columns BATCH_COLUMNS of one row of BATCH_SCHEMA, by name."""

# To return all columns from the kernel would take most of the time that opening a log takes.
BATCH_COLUMNS = ("position", "sizeInBytes", "baseOffset", "lastOffset", "maxTimestamp", "isValid")
"""The columns that this module needs."""


def scan_file(
    file: DataFile,
    position: int,
    end: int,
    window: Window,
    *,
    check_crcs: bool = False,
    first_bytes: int = _FIRST_CHUNK_BYTES,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    order: OffsetOrder | None = None,
    columns: Sequence[str] | None = None,
    search: BatchSearch | None = None,
) -> Iterator[Scanned]:
    """Scan the headers of a file from `position` to before `end`, some batches at a time.

    Bodies of large batches are not read, unless CRCs are checked.

    Yields:
        Some batches each. Only the status of the last Scanned counts: "end"; "partial": the last batch needs
        `needed_bytes` and is cut off at `end`; "zeros": all bytes up to `end` are zero; "damaged". Its
        `position` is the first byte that is not part of a whole batch.

    Args:
        first_bytes: how much to read at first, until the size of the batches is known.
        order: what is known about the offsets, with the descriptor of `file`; None: any order is valid.
        columns: the columns to return, BATCH_COLUMNS among them; None: those of BATCH_SCHEMA.
        search: see BatchCursor.
    """
    cursor = BatchCursor(file, position, end, order, search=search)
    bytes_to_read, max_headers = first_bytes, 0
    while True:
        position = cursor.position
        if max_headers:
            stop = cursor.stop(end)
            size = stop - position
            scanned = _scan_headers(cursor, stop, max_headers, max_batch_bytes, columns)
        else:
            view = window.at(file, position, cursor.stop(bytes_to_read), cursor.needed_bytes)
            size = len(view)
            scanned = scan(
                view,
                base_position=position,
                check_crcs=check_crcs,
                max_batch_bytes=max_batch_bytes,
                order=cursor.order,
                columns=columns,
            )
        scanned = cursor.advance(whole_batches(scanned, end), size)
        yield scanned
        if not cursor.has_more:
            return
        count = scanned.batches.num_rows
        if count:
            are_large = not check_crcs and (scanned.position - position) // count >= _LARGE_BATCH_BYTES
            max_headers = min(_MAX_HEADERS, 8 * count) if are_large else 0
            bytes_to_read = _CHUNK_BYTES


def check_batches(
    file: DataFile,
    position: int,
    *,
    end_position: int | None = None,
    check_records: bool = False,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    order: OffsetOrder | None = None,
    accept_newer: bool = False,
    search: BatchSearch | None = None,
    skipper: DamageSkipper | None = None,
) -> Iterator[Checked]:
    """Check the CRCs and, if `check_records`, the records of all batches of a file from `position` on.

    Yields:
        Some batches each; see `scan_file` for the status. After a batch with a wrong CRC, which is the last
        of its Checked, the check continues. With a skipper, it also continues after other damage, and leaves
        out batches with a wrong CRC, where the next batch is near (Checked.skipped).

    Args:
        end_position: where the file is treated as ending; None: at its end.
        max_batch_bytes: a batch that claims more bytes is damaged; by default, it may have any size.
        order: what is known about the offsets, with the descriptor of `file`; None: any order is valid.
        accept_newer: see `check_file`.
        search: see BatchCursor.
        skipper: that of a BatchSearch; None: the check ends at damage.
    """
    end = file.size_bytes if end_position is None else end_position
    file.will_read(position, end)
    cursor = BatchCursor(file, position, end, order, search=search)
    while True:
        check = partial(
            check_file,
            check_records=check_records,
            max_rows=_MAX_CHECKED,
            max_bytes=_CHECK_BYTES,
            max_batch_bytes=max_batch_bytes,
            order=cursor.order,
            accept_newer=accept_newer,
            skipper=skipper,
        )
        stop = cursor.stop(end)
        checked = cursor.advance(file.read_by(check, cursor.position, stop), stop - cursor.position)
        if search is not None and checked.skipped:
            search.restart()
        yield checked
        if not cursor.has_more:
            return


def _scan_headers(
    cursor: BatchCursor, stop: int, max_headers: int, max_batch_bytes: int, columns: Sequence[str] | None
) -> Scanned:
    read = partial(
        scan_headers,
        max_rows=max_headers,
        max_batch_bytes=max_batch_bytes,
        order=cursor.order,
        columns=columns,
    )
    return cursor.file.read_by(read, cursor.position, stop)


def whole_batches(scanned: Scanned, end: int) -> Scanned:
    """Return the batches that end at or before byte `end`.

    A scan reads headers alone, so the last batch may extend beyond `end`. Then the status is "partial".
    """
    if scanned.position <= end:
        return scanned
    rows = scanned.batches.num_rows - 1
    last = row(scanned.batches, rows)
    previous = row(scanned.batches, rows - 1)["lastOffset"] + 1 if rows else None
    return Scanned(
        scanned.batches.slice(0, rows), "partial", last["position"], previous, last["sizeInBytes"], None
    )


def row(batches: pa.RecordBatch, index: int) -> Batch:
    """Return one batch."""
    return {name: batches.column(name)[index].as_py() for name in BATCH_COLUMNS}


def first_at_least(batches: pa.RecordBatch, column: str, minimum: int) -> int | None:
    """Return the index of the first row whose `column` is at least `minimum`; None if there is none."""
    return next((index for index, value in enumerate(int64s(batches, column)) if value >= minimum), None)


def valid_batch_at(
    file: DataFile, position: int, end: int, window: Window, *, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
) -> Batch | None:
    """Return the batch at `position`; None unless it is whole and has a valid CRC.

    Its `baseOffset` is never None.
    """
    scanned = _whole_batch_at(file, position, end, window, max_batch_bytes)
    if scanned is None:
        return None
    batch, data = scanned
    if batch["baseOffset"] is None:
        batch["baseOffset"] = _wrapper_base(data, max_batch_bytes)
    return None if batch["baseOffset"] is None else batch


def _whole_batch_at(
    file: DataFile, position: int, end: int, window: Window, max_batch_bytes: int
) -> tuple[Batch, memoryview] | None:
    """Return the batch at `position` and its bytes; None unless it is whole and has a valid CRC."""
    if not 0 <= position < end:
        return None
    needed = 1
    while True:
        view = window.at(file, position, min(end, position + max(needed, _FIRST_CHUNK_BYTES)), needed)
        size = min(len(view), max(needed, _FIRST_CHUNK_BYTES))
        scanned = scan(
            view[:size],
            base_position=position,
            check_crcs=True,
            max_batch_bytes=max_batch_bytes,
            columns=BATCH_COLUMNS,
        )
        if scanned.batches.num_rows:
            first = row(scanned.batches, 0)
            return (first, view[: first["sizeInBytes"]]) if first["isValid"] else None
        if scanned.status != "partial" or position + scanned.needed_bytes > end:
            return None
        needed = scanned.needed_bytes


def _wrapper_base(batch: memoryview, max_batch_bytes: int) -> int | None:
    """Return the first offset in a compressed batch of magic 0 or 1, which only its records have."""
    options = DecodeOptions(check_crcs=False, max_batch_bytes=max_batch_bytes)
    inner = decode(batch, ["batchOffset"], options).batch
    return inner.column(0)[0].as_py() if inner.num_rows else None


def int64s(batches: pa.RecordBatch, column: str) -> memoryview:
    """Return a column of 64-bit integers as a memoryview. The values of nulls are undefined."""
    return _values(batches.column(column), 8, "q")


def int32s(batches: pa.RecordBatch, column: str) -> memoryview:
    """Return a column of 32-bit integers as a memoryview. The values of nulls are undefined."""
    return _values(batches.column(column), 4, "i")


def _values(array: pa.Array, width: int, format: Literal["q", "i"]) -> memoryview:
    data = array.buffers()[1]
    start, count = array.offset, len(array)
    if count == 0 or data is None:
        return memoryview(b"").cast(format)
    return memoryview(data)[start * width : (start + count) * width].cast(format)


def max_batch_timestamp_ms(batches: pa.RecordBatch) -> int:
    """Return the maximum timestamp of batches (BATCH_SCHEMA).

    It is -1 if there are none, or if they have no timestamps, as batches of magic 0.
    """
    import pyarrow.compute as pc  # slow to import, and not needed to read records

    maximum: int | None = pc.max(batches.column("maxTimestamp")).as_py()
    return -1 if maximum is None else maximum
