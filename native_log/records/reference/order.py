"""Whether the batches of a segment come in the order of their offsets, which no CRC covers."""

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
    from native_log.records.schema import OffsetOrder

DELTA_AT, DELTA_END = 23, 27
"""Where a batch of magic 2 has the difference of its last and its base offset."""


class Order:
    """Checks one batch after the other."""

    def __init__(self, known: OffsetOrder) -> None:
        self._next_offset, self._end_offset, self._descriptor = known

    def check(self, header: BatchHeader, rest: memoryview) -> None:
        """Check the batch that `rest`, the buffer from there on, begins with.

        A wrapper is judged by its last offset, the only one that its header has. See check_wrapped.

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
            expected = f"from {least} to before {self._end_offset}, where the next segment begins"
        elif (behind := self._leapt_over(header, rest)) is not None:
            expected = f"from {least} to before {behind}, where the next batch begins"
        else:
            return
        raise _out_of_order(header, expected, first, last)

    def check_wrapped(self, header: BatchHeader, first: int, last: int) -> None:
        """Check the offsets of the records in a wrapper, which only they tell.

        Raises:
            Stop: as check.
        """
        if first < self._next_offset:
            expected = f"from {self._next_offset} on, after the previous batch"
            raise _out_of_order(header, expected, first, last)

    def accept(self, next_offset: int) -> None:
        """The batch was accepted; the one behind it begins at `next_offset` or later."""
        self._next_offset = max(self._next_offset, next_offset)

    def _leapt_over(self, header: BatchHeader, rest: memoryview) -> int | None:
        """The offset of the batch behind, if the one at hand has leapt over it: that one fits to what came
        before, and has no room between the one at hand and what follows."""
        if header.offset == self._next_offset:
            return None
        second = self._header(header, rest, header.size_bytes)
        if second is None or second.offset > header.last_offset or second.offset == header.offset:
            return None  # in order; or there twice
        if second.offset < self._next_offset:
            return None
        third = self._header(header, rest, header.size_bytes + second.size_bytes)
        has_room = third is not None and third.offset - header.last_offset > second.offsets
        return None if has_room else second.offset

    def _header(self, header: BatchHeader, rest: memoryview, at: int) -> _Behind | None:
        """The header that stands `at` bytes behind the beginning of the batch; None if no batch can begin
        so."""
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
            return _Behind(offset, size_bytes, 1)
        delta = data[DELTA_AT:DELTA_END]
        if len(delta) < DELTA_END - DELTA_AT:
            return None
        return _Behind(offset, size_bytes, max(0, int.from_bytes(delta, "big", signed=True)) + 1)


def _out_of_order(header: BatchHeader, expected: str, first: int, last: int) -> Stop:
    message = f"expected a batch with offsets {expected}, found {first} to {last}"
    return Stop.damaged(
        DamagedBatchError("order", message), header.position, header.size_bytes, header.offset
    )


class _Behind(NamedTuple):
    """What is asked of a header behind the batch at hand.

    A wrapper is taken for one offset: it does not tell how many.
    """

    offset: int
    size_bytes: int
    offsets: int
