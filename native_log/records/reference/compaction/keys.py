"""Read the keys of a buffer's records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.records.compaction import MapProgress
from native_log.records.reference.damage import Stop
from native_log.records.reference.decode import batch_at
from native_log.records.reference.entry import header_at, wrap64
from native_log.records.reference.order import OrderCheck
from native_log.records.reference.selection import RecordSelection

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from native_log.records.options import InputOptions
    from native_log.records.results import OffsetOrder


def feed(
    put: Callable[[bytes, int], bool],
    buffer: Buffer,
    options: InputOptions,
    base_position: int,
    order: OffsetOrder | None,
) -> MapProgress:
    """Call `put` with the key and the offset of each record that has a key, until it returns False (full).

    Arguments and result are those of OffsetMap.put_batches.
    """
    data = memoryview(buffer).cast("B")
    selection = RecordSelection.of(options)
    in_order = None if order is None else OrderCheck(order)
    index = records = null_keys = 0
    next_offset = None
    while True:
        try:
            header = header_at(data, index, base_position, options.max_batch_bytes)
            if in_order is not None:
                in_order.check(header, data[index:])
            batch = batch_at(data, index, header, selection, options)
            if in_order is not None and batch is not None and header.is_wrapper:
                in_order.check_wrapped(header, batch.records[0].offset, batch.records[-1].offset)
        except Stop as stop:
            position = base_position + index
            return MapProgress(
                stop.status, position, next_offset, stop.needed_bytes, stop.damage, records, null_keys
            )
        for record in [] if batch is None else batch.records:
            if not selection.has(record.offset):
                continue
            if record.key is None:
                null_keys += 1
            elif not put(record.key, record.offset):
                position = base_position + index
                return MapProgress("full", position, record.offset, 0, None, records, null_keys)
            records += 1
        batch_end = wrap64(header.last_offset + 1) if batch is None else batch.next_offset
        if in_order is not None:
            in_order.accept(batch_end)
        if options.end_offset is not None:
            batch_end = min(batch_end, options.end_offset)
        next_offset = batch_end if next_offset is None else max(next_offset, batch_end)
        index += header.size_bytes
