"""Check the records of batches without keeping them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from native_log.records.reference.batch import read_batch
from native_log.records.reference.damage import DamagedBatchError, Stop
from native_log.records.reference.entry import header_at
from native_log.records.schema import DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from native_log.records.reference.entry import BatchHeader


def find_invalid_records(
    buffer: Buffer,
    *,
    previous: int,
    base_position: int = 0,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> int | None:
    """Return the position of the first batch whose records are invalid; None if there is none.

    Records are invalid if they cannot be decoded, or if their offsets do not increase from the base offset of
    their batch to its last offset, after those of the batch before. CRCs are not checked.

    Args:
        buffer: whole batches.
        previous: the last offset of the batch before these.
        base_position: position of the buffer's first byte in the file.
        max_batch_bytes: as in InputOptions.
    """
    data = memoryview(buffer).cast("B")
    index = 0
    while True:
        try:
            header = header_at(data, index, base_position, max_batch_bytes)
        except Stop as stop:
            return None if stop.status == "end" else base_position + index
        end = index + header.size_bytes
        if end > len(data) or not _are_valid(header, data[index:end], previous, max_batch_bytes):
            return base_position + index
        previous = header.last_offset
        index = end


def _are_valid(header: BatchHeader, batch: memoryview, previous: int, max_batch_bytes: int) -> bool:
    if header.record_count == 0:
        return True
    try:
        records = read_batch(header, batch, False, max_batch_bytes).records
    except DamagedBatchError:
        return False
    offsets = [record.offset for record in records]
    if not offsets:
        return True
    # The offset of a wrapper is that of its last message.
    from_base = header.is_wrapper or header.offset <= offsets[0]
    increase = all(before < after for before, after in pairwise([previous, *offsets]))
    return from_base and increase and offsets[-1] <= header.last_offset
