"""Find where batches start again after damaged bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.records.reference.batch import has_valid_crc
from native_log.records.reference.codec import check_codec
from native_log.records.reference.damage import DamagedBatchError
from native_log.records.reference.entry import (
    CODEC_MASK,
    HEADER_BYTES,
    MAGIC_AT,
    MIN_ENTRY_BYTES,
    PREFIX,
    PREFIX_BYTES,
    SMALLEST_ENTRY_BYTES,
    V2_HEADER,
    BatchHeader,
    parse_header,
)
from native_log.records.reference.legacy import key_and_value

if TYPE_CHECKING:
    from typing_extensions import Buffer

KNOWN_ATTRIBUTES = {0: 0x07, 1: 0x0F, 2: 0x7F}
MIN_RECORD_BYTES = 7
"""The least size of a record of magic 2: seven fields of at least one byte."""


def find_batch(
    buffer: Buffer,
    start: int = 0,
    *,
    base_position: int = 0,
    min_offset: int = 0,
    max_offset: int = (1 << 63) - 1,
    max_batch_bytes: int = 0,
) -> int | None:
    """Return the position of the first valid batch in the buffer; None if there is none.

    A batch is valid if its header is plausible, its offset is in [min_offset, max_offset), and its CRC is
    correct. A batch of up to `max_batch_bytes` that continues beyond the buffer is judged by its header
    alone.

    Args:
        buffer: bytes of a .log file.
        start: index in the buffer where the search starts.
        base_position: position of the buffer's first byte in the file, included in the result.
        min_offset: inclusive.
        max_offset: exclusive.
        max_batch_bytes: the most bytes of a batch that continues beyond the buffer.
    """
    data = memoryview(buffer).cast("B")
    for index in range(max(start, 0), len(data) - MIN_ENTRY_BYTES + 1):
        magic = data[index + MAGIC_AT]
        if magic not in HEADER_BYTES:
            continue
        offset, size = PREFIX.unpack_from(data, index)
        size_bytes = PREFIX_BYTES + size
        left = len(data) - index
        if not (
            SMALLEST_ENTRY_BYTES[magic] <= size_bytes <= max(left, max_batch_bytes)
            and HEADER_BYTES[magic] <= left
            and min_offset <= offset < max_offset
        ):
            continue
        batch = data[index : index + size_bytes]
        header = parse_header(batch, 0, base_position + index)
        if is_plausible(header) and (size_bytes > left or is_valid(header, batch)):
            return header.position
    return None


def is_plausible(header: BatchHeader) -> bool:
    """Return whether a broker may have written the header. This cheap check avoids nearly all CRCs."""
    try:
        check_codec(header)
    except DamagedBatchError:
        return False
    if header.attributes & ~KNOWN_ATTRIBUTES[header.magic]:
        return False
    if header.magic < 2:
        return True
    plain = not header.attributes & CODEC_MASK
    max_records = (
        (header.size_bytes - V2_HEADER.size) // MIN_RECORD_BYTES if plain else header.last_offset_delta + 1
    )
    return header.last_offset_delta >= 0 and 0 <= header.record_count <= max_records


def is_valid(header: BatchHeader, batch: memoryview) -> bool:
    """Return whether the whole batch is valid."""
    try:
        if header.magic < 2:
            key_and_value(header, batch)
    except DamagedBatchError:
        return False
    return has_valid_crc(header, batch)
