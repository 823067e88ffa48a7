"""Read the valid batches of a segment, and report the bytes between them."""

from __future__ import annotations

import struct
import zlib
from array import array
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from native_log.records import Damage, DecodeOptions, decode, scan
from native_log.segment.chunks import BatchCursor
from native_log.segment.damage import damage_in, damaged_range, skipped_ranges
from native_log.segment.scan import int32s, int64s
from native_log.segment.search import BatchSearch
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from native_log.records import Decoded
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment
    from native_log.storage import FaultyFile

UNREADABLE = "unreadable"
_LEGACY_CRC_AT = 12
"""Where a message of magic 0 or 1 has its checksum, which covers the bytes after it."""


class ReadPart(NamedTuple):
    """A part of a segment.

    Attributes:
        data: the bytes of the valid batches, without those between them. They are valid until the next step.
        batches: the valid batches (BATCH_SCHEMA). There may be none.
        damaged: the ranges of bytes between them and after the last one, by position.
        end_position: where the part ends.
    """

    data: memoryview
    batches: pa.RecordBatch
    damaged: Sequence[DamagedRange]
    end_position: int


def read_valid_batches(
    file: FaultyFile,
    segment: LogSegment,
    max_batch_bytes: int,
    on_repair: Callable[[int, int, int, str], None],
) -> Iterator[ReadPart]:
    """Read the valid batches of a segment, several at a time.

    A batch is valid if a reader with mode dropMalformed returns its records: its checksum is right, all its
    records can be decoded, and its offsets follow those before it.

    Args:
        file: the .log file of the segment.
        segment: the segment.
        max_batch_bytes: a batch that claims more bytes, or decompresses to more, counts as damaged.
        on_repair: called with position, size, last offset and fault of each batch that gets the right
            checksum. It is a compressed message set of magic 0 or 1: readers rely on the checksums of the
            messages in it, but brokers check that of the set when they recover a log.

    Raises LogTruncatedError if the file becomes shorter meanwhile.
    """
    search = BatchSearch(file, file.size_bytes, max_batch_bytes)
    options = DecodeOptions(control=True, max_batch_bytes=max_batch_bytes, skipper=search.skipper)
    order = segment.offset_order(file)
    cursor, window = BatchCursor(file, 0, file.size_bytes, order, search=search), Window()
    while cursor.has_more:
        view, start = cursor.view(window), cursor.position
        if file.faults:
            options = replace(options, skipper=None)  # it does not know which bytes are unreadable
        # To decode a single column is enough: the choice of columns does not affect what counts as damaged.
        chunk = decode(view, ["offset"], options, base_position=start, order=cursor.order)
        data, batches = _valid_batches(view, start, chunk)
        fault = file.fault_within(start, chunk.position) if batches.num_rows else None
        if fault is not None:
            chunk, batches = _before(fault.position, chunk, batches)
            data = data[: sum(int32s(batches, "sizeInBytes"))]
        chunk = cursor.advance(chunk, len(view))
        if batches.num_rows:
            data = _repair(data, batches, on_repair)
        if chunk.skipped:
            search.restart()
        damaged = skipped_ranges(file.path, chunk.skipped)
        damage = damage_in(cursor, chunk, max_batch_bytes)
        if damage is not None:
            order = cursor.order or order
            last = damaged_range(search, damage, order, order.next_offset)
            damaged.append(_with_fault(file, last))
            cursor.skip_to(last.end_position)
        yield ReadPart(data, batches, damaged, cursor.position)


def _valid_batches(view: memoryview, start: int, decoded: Decoded) -> tuple[memoryview, pa.RecordBatch]:
    """Return the batches in `view`, which begins at position `start`, without the damage between them."""
    if not decoded.skipped:
        data = view[: decoded.position - start]
        return data, scan(data, base_position=start).batches
    ranges = []
    for _, position, end_position, *_ in decoded.skipped:
        ranges.append((start, position))
        start = end_position
    ranges.append((start, decoded.position))
    first = ranges[0][0]
    data = memoryview(b"".join(view[begin - first : end - first] for begin, end in ranges))
    batches = scan(data).batches
    sizes, positions = iter(int32s(batches, "sizeInBytes")), array("q")
    for position, end in ranges:
        while position < end:
            positions.append(position)
            position += next(sizes)
    index = batches.schema.get_field_index("position")
    return data, batches.set_column(index, batches.schema.field(index), pa.array(positions, pa.int64()))


def _repair(
    data: memoryview, batches: pa.RecordBatch, on_repair: Callable[[int, int, int, str], None]
) -> memoryview:
    """Return the bytes with the right checksum in each batch of magic 0 or 1.

    Args:
        data: the bytes of the batches, without those between them.
    """
    if min(int32s(batches, "magic")) >= 2:
        return data
    is_valid = scan(data, check_crcs=True).batches.column("isValid").to_pylist()
    positions, sizes = int64s(batches, "position"), int32s(batches, "sizeInBytes")
    crcs, last_offsets = int64s(batches, "crc"), int64s(batches, "lastOffset")
    starts = [0, *accumulate(sizes)]
    for index in (index for index, valid in enumerate(is_valid) if not valid):
        if data.readonly:
            data = memoryview(bytearray(data))
        start = starts[index]
        body = data[start + _LEGACY_CRC_AT + 4 : start + sizes[index]]
        crc = zlib.crc32(body)
        struct.pack_into(">I", data, start + _LEGACY_CRC_AT, crc)
        fault = f"expected CRC-32 {crcs[index]:#010x} by the header of the message set, found {crc:#010x}"
        on_repair(positions[index], sizes[index], last_offsets[index], fault)
    return data


def _before(position: int, chunk: Decoded, batches: pa.RecordBatch) -> tuple[Decoded, pa.RecordBatch]:
    """Return the batches that end at or before `position`, and the next one as the damage that follows them.

    Zeros in the place of unreadable bytes may leave a header valid, because no checksum covers its offset.
    """
    ends = pc.add(batches.column("position"), batches.column("sizeInBytes"))
    count = pc.index(pc.greater(ends, position), True).as_py()
    at = int64s(batches, "position")[count]
    next_offset = int64s(batches, "lastOffset")[count - 1] + 1 if count else None
    damage = Damage(UNREADABLE, at, 0, None, "the system cannot read the batch")
    stopped = replace(chunk, status="damaged", position=at, next_offset=next_offset, damage=damage)
    return stopped, batches.slice(0, count)


def _with_fault(file: FaultyFile, damaged: DamagedRange) -> DamagedRange:
    """Return the range with the reason that bytes in it are unreadable, if that is the reason."""
    fault = file.fault_within(damaged.position, damaged.end_position)
    if fault is None:
        return damaged
    reason = f"the system cannot read the bytes from position {fault.position} on: {fault.reason}"
    return damaged._replace(kind=UNREADABLE, reason=reason)
