"""Check that batches come in the order of their offsets, which no CRC covers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from native_log.records.reference.damage import DamagedBatchError, Stop
from native_log.records.reference.entry import (
    MAGIC_AT,
    MAX_ENTRY_BYTES,
    MIN_ENTRY_BYTES,
    PREFIX,
    check_claims,
)

if TYPE_CHECKING:
    from native_log.records.reference.entry import BatchHeader
    from native_log.records.results import OffsetOrder

DELTA_AT, DELTA_END = 23, 27
"""Where a header of magic 2 has its lastOffsetDelta."""


class OrderCheck:
    """Checks one batch after the other."""

    def __init__(self, known: OffsetOrder) -> None:
        self._next_offset, self._end_offset, self._descriptor = known

    def check(self, header: BatchHeader, rest: memoryview) -> None:
        """Check the batch at the beginning of `rest`, the remaining bytes of the buffer.

        The header of a wrapper has only its last offset, so only that is checked. See check_wrapped.

        Raises:
            Stop: "damaged", of kind "order".
        """
        if header.lacks_offset:
            return
        first, last, least = header.offset, header.last_offset, self._next_offset
        if first < least:
            expected = f"from {least} on, after the previous batch"
        elif last < first:
            expected = f"from {first} on"
        elif last >= self._end_offset:
            expected = f"from {least} to before {self._end_offset}, the limit of its segment"
        elif (next_batch := self._skipped_offset(header, rest)) is not None:
            expected = f"from {least} to before {next_batch}, where the next batch begins"
        else:
            return
        raise _out_of_order(header, expected, first, last)

    def check_wrapped(self, header: BatchHeader, first: int, last: int) -> None:
        """Check the offsets of the first and the last record in a wrapper.

        Raises:
            Stop: "damaged", of kind "order".
        """
        if first < self._next_offset:
            expected = f"from {self._next_offset} on, after the previous batch"
            raise _out_of_order(header, expected, first, last)

    def accept(self, next_offset: int) -> int:
        """Require the offsets of the next batch to be `next_offset` or greater.

        Returns:
            Where the next batch may begin: an earlier batch may end at a greater offset.
        """
        self._next_offset = max(self._next_offset, next_offset)
        return self._next_offset

    def _skipped_offset(self, header: BatchHeader, rest: memoryview) -> int | None:
        """Return the offset of the next batch if this batch skips its offsets, else None: see OffsetOrder."""
        if header.offset == self._next_offset:
            return None
        second = self._header(header, rest, header.size_bytes)
        if second is None or second.offset > header.last_offset or second.offset == header.offset:
            return None  # in order, or a duplicate
        if second.offset < self._next_offset:
            return None
        third = self._header(header, rest, header.size_bytes + second.size_bytes)
        has_room = third is not None and third.offset - header.last_offset > second.offsets
        return None if has_room else second.offset

    def _header(self, header: BatchHeader, rest: memoryview, at: int) -> _FollowingHeader | None:
        """Return the header `at` bytes after the beginning of the batch; None if it is not a header."""
        data = bytes(rest[at : at + DELTA_END])
        if len(data) < DELTA_END:
            data = os.pread(self._descriptor, DELTA_END, header.position + at)
        if len(data) < MIN_ENTRY_BYTES:
            return None
        offset, size = PREFIX.unpack_from(data)
        magic = int.from_bytes(data[MAGIC_AT:MIN_ENTRY_BYTES], "big", signed=True)
        try:
            size_bytes = check_claims(size, magic, MAX_ENTRY_BYTES)
        except DamagedBatchError:
            return None
        if magic < 2:
            return _FollowingHeader(offset, size_bytes, 1)
        delta = data[DELTA_AT:DELTA_END]
        if len(delta) < DELTA_END - DELTA_AT:
            return None
        return _FollowingHeader(offset, size_bytes, max(0, int.from_bytes(delta, "big", signed=True)) + 1)


def _out_of_order(header: BatchHeader, expected: str, first: int, last: int) -> Stop:
    message = f"expected a batch with offsets {expected}, found {first} to {last}"
    return Stop.damaged(
        DamagedBatchError("order", message), header.position, header.size_bytes, header.offset
    )


class _FollowingHeader(NamedTuple):
    """Fields of the header of a following batch.

    A wrapper counts as one offset: its header does not tell how many it has.
    """

    offset: int
    size_bytes: int
    offsets: int
