"""Decode bytes of a log to records."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from native_log.records.reference.batch import Batch, check_crc, read_batch
from native_log.records.reference.codec import decompress
from native_log.records.reference.columns import RecordColumns
from native_log.records.reference.damage import DamagedBatchError, Stop
from native_log.records.reference.entry import V2_HEADER, BatchHeader, header_at, wrap64
from native_log.records.reference.order import OrderCheck
from native_log.records.reference.selection import RecordSelection
from native_log.records.results import Decoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from native_log.records.options import DecodeOptions, InputOptions
    from native_log.records.reference.conditions import Conditions
    from native_log.records.reference.record import Record
    from native_log.records.results import OffsetOrder

MAX_ARROW_BYTES = 1 << 30
"""A call stops at this size at the latest, because offsets within Arrow columns have 31 bits."""


def decode(
    buffer: Buffer,
    columns: Sequence[str],
    options: DecodeOptions,
    *,
    base_position: int = 0,
    order: OffsetOrder | None = None,
) -> Decoded:
    """Decode the records of the batches in `buffer` to Arrow, with only the requested columns.

    Args:
        buffer: bytes of a .log file, from the beginning of a batch.
        columns: names of RECORD_SCHEMA, in any order. The choice of columns does not affect what counts as
            damaged.
        base_position: position of the buffer's first byte in the file. Positions in the result include it.
        order: what is known of the offsets (see OffsetOrder). None: batches may come in any order.

    Raises:
        ValueError: an unknown column, or `options.aborted` is not a sequence of triples.
    """
    data = memoryview(buffer).cast("B")
    selection = RecordSelection.of(options, control=options.control)
    in_order = None if order is None else OrderCheck(order)
    constants = {"topic": options.topic, "partition": options.partition, "segment": options.segment}
    rows = RecordColumns(columns, constants)
    # At least one batch is always decoded, even if the limits are smaller.
    max_rows = None if options.max_rows is None else max(options.max_rows, 1)
    max_bytes = (
        MAX_ARROW_BYTES if options.max_bytes is None else min(max(options.max_bytes, 1), MAX_ARROW_BYTES)
    )
    index = 0
    next_offset = None
    while True:
        try:
            if index < len(data) and rows.reached(max_rows, max_bytes):
                raise Stop("limit")
            header = header_at(data, index, base_position, options.max_batch_bytes)
            if in_order is not None:
                in_order.check(header, data[index:])
            batch = batch_at(data, index, header, selection, options, options.conditions)
            if in_order is not None and batch is not None and header.is_wrapper:
                in_order.check_wrapped(header, batch.records[0].offset, batch.records[-1].offset)
        except Stop as stop:
            return Decoded(
                rows.finish(), stop.status, base_position + index, next_offset, stop.needed_bytes, stop.damage
            )
        if batch is None:
            next_offset = wrap64(header.last_offset + 1)
        else:
            rows.add(
                batch, [record for record in batch.records if _is_wanted(record, header, selection, options)]
            )
            next_offset = batch.next_offset
        if in_order is not None:
            next_offset = in_order.accept(next_offset)
        index += header.size_bytes


def _is_wanted(
    record: Record, header: BatchHeader, selection: RecordSelection, options: DecodeOptions
) -> bool:
    return selection.has(record.offset) and (
        options.conditions is None or options.conditions.matches(record, header)
    )


def decode_file(
    descriptor: int,
    position: int,
    end: int,
    columns: Sequence[str],
    options: DecodeOptions,
    *,
    order: OffsetOrder | None = None,
) -> Decoded:
    """Decode a file's bytes from `position` (inclusive) to `end` (exclusive), like `decode`.

    The kernel reads the bytes only as fast as it decodes them.

    Args:
        descriptor: of a file that is open for reading.
        columns, options, order: as for `decode`.

    Raises:
        EOFError: the file ends before `end`, and the missing bytes are needed.
        OSError: the file cannot be read.
        ValueError: as for `decode`.
    """
    left = max(0, end - position)
    buffer = os.pread(descriptor, left, position)
    if len(buffer) < left:
        raise EOFError(f"the file ends before position {end}")
    return decode(buffer, columns, options, base_position=position, order=order)


def batch_at(
    data: memoryview,
    index: int,
    header: BatchHeader,
    selection: RecordSelection,
    options: InputOptions,
    conditions: Conditions | None = None,
) -> Batch | None:
    """Return the batch of `header`, or None if it is skipped. Raise Stop "partial" or "damaged"."""
    if selection.skips(header):
        return None
    has_no_rows = selection.has_no_rows(header)
    if has_no_rows and not options.check_crcs:
        return None
    if header.size_bytes > len(data) - index:
        raise Stop("partial", header.size_bytes)
    batch = data[index : index + header.size_bytes]
    try:
        if has_no_rows or (conditions is not None and conditions.skips(header)):
            # One flipped bit can make any batch a control batch or an empty one, so the CRC is checked.
            if options.check_crcs:
                check_crc(header, batch)
            return None
        if conditions is not None and header.magic == 2 and not header.is_control:
            if options.check_crcs:
                check_crc(header, batch)
            section = decompress(header, batch[V2_HEADER.size :], options.max_batch_bytes)
            if not conditions.may_match(bytes(section)):
                return None
        return read_batch(header, batch, options.check_crcs, options.max_batch_bytes)
    except DamagedBatchError as error:
        raise Stop.damaged(error, header.position, header.size_bytes, header.offset) from None
