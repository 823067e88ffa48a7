"""Which batches of a segment get entries in its indexes: the append rule of Kafka 4.1 (KAFKA-806). Decisions
only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.segment.entries import OFFSET_ENTRY, TIME_ENTRY
from native_log.segment.scan import int32s, int64s

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class IndexState:
    """What the next entries depend on.

    Attributes:
        max_timestamp_ms, offset_of_max_timestamp: greatest timestamp so far, and the last offset of the first
            batch that has it; -1 and the segment's base offset before there is one.
        last_indexed_ms: of the last entry of the time index; -1 before there is one.
        bytes_since_entry: how many bytes of batches came since the last entry's batch, or since the segment
            was opened.
    """

    max_timestamp_ms: int
    offset_of_max_timestamp: int
    last_indexed_ms: int = -1
    bytes_since_entry: int = 0

    def last_time_entry(self, base_offset: int) -> bytes:
        """What a segment's time index gets when the segment is complete; nothing if it is there already."""
        if self.max_timestamp_ms <= self.last_indexed_ms:
            return b""
        return TIME_ENTRY.pack(self.max_timestamp_ms, self.offset_of_max_timestamp - base_offset)


def entries_of(
    batches: pa.RecordBatch,
    state: IndexState,
    *,
    base_offset: int,
    position: int,
    interval_bytes: int,
    room: int,
) -> tuple[bytes, bytes, IndexState]:
    """Entries of the offset index and of the time index that batches make, and the state after them.

    For each batch: first it counts for the greatest timestamp; then, if more than `interval_bytes` lie
    between the last entry's batch and it, it gets an entry.

    Args:
        batches: rows of BATCH_SCHEMA; `position`, where the first one lies, is not theirs.
        room: how many entries the indexes can still take.
    """
    since, indexed_ms = state.bytes_since_entry, state.last_indexed_ms
    max_ms, max_offset = state.max_timestamp_ms, state.offset_of_max_timestamp
    entries, time_entries = bytearray(), bytearray()
    for size, last_offset, timestamp_ms in zip(
        int32s(batches, "sizeInBytes").tolist(),
        int64s(batches, "lastOffset").tolist(),
        int64s(batches, "maxTimestamp").tolist(),
        strict=True,
    ):
        if timestamp_ms > max_ms:
            max_ms, max_offset = timestamp_ms, last_offset
        if since > interval_bytes and room > 0:
            entries += OFFSET_ENTRY.pack(last_offset - base_offset, position)
            if max_ms > indexed_ms:
                time_entries += TIME_ENTRY.pack(max_ms, max_offset - base_offset)
                indexed_ms = max_ms
            since = 0
            room -= 1
        position += size
        since += size
    return bytes(entries), bytes(time_entries), IndexState(max_ms, max_offset, indexed_ms, since)
