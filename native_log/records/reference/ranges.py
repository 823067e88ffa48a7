"""Divide a file into ranges of whole batches, for threads to work on."""

from __future__ import annotations

from native_log.records.reference.entry import wrap64
from native_log.records.reference.scan import scan_headers
from native_log.records.results import DEFAULT_MAX_BATCH_BYTES, Divided


def divide_file(
    descriptor: int,
    position: int,
    end: int,
    *,
    range_bytes: int,
    max_rows: int,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Divided:
    """Divide the batches from `position` (inclusive) to `end` (exclusive) into ranges of up to `range_bytes`.

    A batch that is larger is a range by itself. Only headers are read. The call ends with the status "limit"
    after `max_rows` batches, and with "partial" at a batch that ends after `end`. With the status "zeros",
    only as many bytes as a header takes are known to be zero.

    Args:
        descriptor: of a file that is open for reading.
        max_batch_bytes: the most bytes that a header may claim.

    Raises:
        EOFError: the file ends before `end`.
        OSError: the file cannot be read.
    """
    scanned = scan_headers(descriptor, position, end, max_rows=max_rows, max_batch_bytes=max_batch_bytes)
    status, next_offset, needed_bytes = scanned.status, scanned.next_offset, scanned.needed_bytes
    columns = (scanned.batches.column(name).to_pylist() for name in ("position", "sizeInBytes", "lastOffset"))
    batches = list(zip(*columns, strict=True))
    position = scanned.position
    if batches and position > end:
        position, needed_bytes, _ = batches.pop()
        status, next_offset = "partial", wrap64(batches[-1][2] + 1) if batches else None
    ranges: list[tuple[int, int]] = []
    for start, size, _ in batches:
        if ranges and start + size - ranges[-1][0] <= range_bytes:
            ranges[-1] = ranges[-1][0], start + size
        else:
            ranges.append((start, start + size))
    return Divided(ranges, status, position, next_offset, needed_bytes, scanned.damage)
