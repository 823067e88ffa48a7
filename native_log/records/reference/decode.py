"""Bytes of a log to records."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from native_log.records.reference.batch import Batch, check_crc, read_batch
from native_log.records.reference.columns import RecordColumns
from native_log.records.reference.damage import DamagedBatchError, Stop
from native_log.records.reference.entry import BatchHeader, header_at, wrap64
from native_log.records.reference.order import Order
from native_log.records.reference.selection import Aborted, Selection
from native_log.records.schema import DEFAULT_MAX_BATCH_BYTES, Decoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from native_log.records.schema import OffsetOrder

MAX_ARROW_BYTES = 1 << 30
"""One call stops here at the latest: offsets within Arrow columns have 31 bits."""


def decode(
    buffer: Buffer,
    columns: Sequence[str],
    *,
    base_position: int = 0,
    start_offset: int | None = None,
    end_offset: int | None = None,
    aborted: Buffer = b"",
    max_rows: int | None = None,
    max_bytes: int | None = None,
    check_crcs: bool = True,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    control: bool = False,
    topic: str | None = None,
    partition: int | None = None,
    segment: str | None = None,
    order: OffsetOrder | None = None,
) -> Decoded:
    """The records of the batches in `buffer`, with just the columns asked for.

    Args:
        buffer: bytes of a .log file from the beginning of a batch on.
        columns: names of RECORD_SCHEMA, in any order. What is found damaged does not depend on them.
        base_position: position in the file of the buffer's first byte; positions in results include it.
        start_offset: inclusive; records below it are left out.
        end_offset: exclusive. Reading does not stop there: offsets on disk are not trusted to rise.
        aborted: transactions whose records are left out: triples of native int64 (producerId, firstOffset,
            lastOffset inclusive), sorted by the first two.
        max_rows, max_bytes: no further batch is begun once so many rows, or Arrow bytes, were built.
        check_crcs: of batches of magic 2, of plain messages and of the messages within wrappers; not of
            batches left out by offset or as aborted.
        max_batch_bytes: ceiling for one batch as stored and as decompressed.
        control: whether records of control batches (transaction markers) are rows too.
        topic, partition, segment: what the columns of these names hold.
        order: see OffsetOrder; None: batches come in any order.

    Raises:
        ValueError: an unknown column, or `aborted` is no sequence of triples.
    """
    data = memoryview(buffer).cast("B")
    selection = Selection(start_offset, end_offset, Aborted(aborted), control)
    in_order = None if order is None else Order(order)
    rows = RecordColumns(columns, {"topic": topic, "partition": partition, "segment": segment})
    # At least one batch is always used, whatever the limits.
    most_rows = None if max_rows is None else max(max_rows, 1)
    most_bytes = MAX_ARROW_BYTES if max_bytes is None else min(max(max_bytes, 1), MAX_ARROW_BYTES)
    index = 0
    next_offset = None
    while True:
        try:
            if index < len(data) and rows.reached(most_rows, most_bytes):
                raise Stop("limit")
            header = header_at(data, index, base_position, max_batch_bytes)
            if in_order is not None:
                in_order.check(header, data[index:])
            batch = batch_at(data, index, header, selection, check_crcs, max_batch_bytes)
            if in_order is not None and batch is not None and header.is_wrapper:
                in_order.check_wrapped(header, batch.records[0].offset, batch.records[-1].offset)
        except Stop as stop:
            return Decoded(
                rows.finish(), stop.status, base_position + index, next_offset, stop.needed_bytes, stop.damage
            )
        if batch is None:
            next_offset = wrap64(header.last_offset + 1)
        else:
            rows.add(batch, [record for record in batch.records if selection.has(record.offset)])
            next_offset = batch.next_offset
        if in_order is not None:
            in_order.accept(next_offset)
        index += header.size_bytes


def decode_file(descriptor: int, position: int, end: int, columns: Sequence[str], **how: Any) -> Decoded:
    """What `decode` says of a file's bytes from `position` to `end`, which are read no faster than they are
    decoded.

    Args:
        descriptor: of a file that is open for reading.
        columns: as those of `decode`.
        how: the other arguments of `decode`, but for `base_position`.

    Raises:
        EOFError: the file ends before `end`, and that far was to be read.
        OSError: it cannot be read.
        ValueError: as `decode`.
    """
    left = max(0, end - position)
    buffer = os.pread(descriptor, left, position)
    if len(buffer) < left:
        raise EOFError(f"the file ends before position {end}")
    return decode(buffer, columns, base_position=position, **how)


def batch_at(
    data: memoryview,
    index: int,
    header: BatchHeader,
    selection: Selection,
    check_crcs: bool,
    max_batch_bytes: int,
) -> Batch | None:
    """The batch behind `header`, or None if no record of it is wanted. Raises Stop "partial" or "damaged"."""
    if selection.passes_by_offset(header):
        return None
    without_rows = selection.is_without_rows(header)
    if without_rows and not check_crcs:
        return None
    if header.size_bytes > len(data) - index:
        raise Stop("partial", header.size_bytes)
    batch = data[index : index + header.size_bytes]
    try:
        if without_rows:
            # It has few bytes if it is what it says, and one flipped bit can make any batch say so.
            check_crc(header, batch)
            return None
        return read_batch(header, batch, check_crcs, max_batch_bytes)
    except DamagedBatchError as found:
        raise Stop.damaged(found, header.position, header.size_bytes, header.offset) from None
