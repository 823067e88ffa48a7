"""Which batches and records a call uses."""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from native_log.records.options import InputOptions
    from native_log.records.reference.entry import BatchHeader

TRIPLE = struct.Struct("=qqq")


class Aborted:
    """Aborted transactions: producer id, first offset, last offset (the marker's offset)."""

    def __init__(self, triples: Buffer) -> None:
        data = memoryview(triples).cast("B")
        if len(data) % TRIPLE.size:
            raise ValueError(f"aborted: expected triples of {TRIPLE.size} bytes, found {len(data)} bytes")
        self._triples = list(TRIPLE.iter_unpack(data))

    def covers(self, header: BatchHeader) -> bool:
        """Return whether the batch belongs to an aborted transaction."""
        if not self._triples or not header.is_transactional or header.is_control:
            return False
        assert header.offset is not None
        at = bisect_right(self._triples, (header.producer_id, header.offset, 1 << 63))
        if at == 0:
            return False
        producer_id, first_offset, last_offset = self._triples[at - 1]
        is_covered: bool = producer_id == header.producer_id and first_offset <= header.offset <= last_offset
        return is_covered


@dataclass(frozen=True, slots=True)
class RecordSelection:
    start_offset: int | None
    """Inclusive."""
    end_offset: int | None
    """Exclusive."""
    aborted: Aborted
    control: bool
    """Whether control batches have rows."""

    @classmethod
    def of(cls, options: InputOptions, *, control: bool = False) -> RecordSelection:
        return cls(options.start_offset, options.end_offset, Aborted(options.aborted), control)

    def skips(self, header: BatchHeader) -> bool:
        """Return whether the offsets in the header show that no record of the batch is selected."""
        return self._is_below(header) or self._is_above(header)

    def has_no_rows(self, header: BatchHeader) -> bool:
        """Return whether a batch has no rows although its offsets are selected."""
        is_hidden = (header.is_control and not self.control) or self.aborted.covers(header)
        return is_hidden or header.record_count == 0

    def has(self, offset: int) -> bool:
        """Return whether a record of a batch that is not skipped is selected."""
        return (self.start_offset is None or offset >= self.start_offset) and (
            self.end_offset is None or offset < self.end_offset
        )

    def _is_below(self, header: BatchHeader) -> bool:
        if self.start_offset is None or header.lacks_offset:
            return False
        # A negative delta is damage, which must be reported.
        return header.last_offset_delta >= 0 and header.last_offset < self.start_offset

    def _is_above(self, header: BatchHeader) -> bool:
        return self.end_offset is not None and not header.is_wrapper and header.offset >= self.end_offset
