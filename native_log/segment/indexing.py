"""Decide which batches of a segment get entries in its indexes, by two rules of Kafka 4.1.

`index_entries` implements the rule of appending (Kafka: LogSegment.append, KAFKA-806), `IndexBuilder` that of
recovery (Kafka: LogSegment.recover).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.records import Damage
from native_log.segment.entries import OFFSET_ENTRY, TIME_ENTRY
from native_log.segment.scan import int32s, int64s

if TYPE_CHECKING:
    import pyarrow as pa

ORDER = "order"
"""Kind of Damage: a batch whose offsets do not follow those of the batches before it."""


@dataclass(frozen=True, slots=True)
class IndexState:
    """The state of a segment that decides about its next index entries.

    Attributes:
        max_timestamp_ms, offset_of_max_timestamp: the maximum timestamp so far, and the last offset of the
            first batch that has it; -1 and the base offset of the segment if there is none.
        last_indexed_ms: the timestamp of the last entry of the time index; -1 if there is none.
        bytes_since_entry: size of the batches from the last batch with an entry on, or since the segment was
            opened.
    """

    max_timestamp_ms: int
    offset_of_max_timestamp: int
    last_indexed_ms: int = -1
    bytes_since_entry: int = 0

    def last_time_entry(self, base_offset: int) -> bytes:
        """Return the last entry of the time index of a complete segment; b"" if the index has it already."""
        if self.max_timestamp_ms <= self.last_indexed_ms:
            return b""
        return TIME_ENTRY.pack(self.max_timestamp_ms, self.offset_of_max_timestamp - base_offset)


def index_entries(
    batches: pa.RecordBatch,
    state: IndexState,
    *,
    base_offset: int,
    position: int,
    interval_bytes: int,
    room: int,
) -> tuple[bytes, bytes, IndexState]:
    """Return the entries of offset index and time index for appended batches, and the state after them.

    Each batch first updates the maximum timestamp. Then it gets an entry if more than `interval_bytes` lie
    between it and the last batch with an entry.

    Args:
        batches: rows of BATCH_SCHEMA. Their column `position` is not used.
        position: position of the first batch in the segment.
        room: number of entries for which the indexes have room.
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


class InvalidOffsetError(Exception):
    """The offset of an index entry does not follow that of the entry before (Kafka: InvalidOffsetException).

    Attributes:
        damage: the batch of the entry.
    """

    def __init__(self, position: int, size_bytes: int, offset: int, previous: int) -> None:
        super().__init__(position)
        message = (
            f"expected index entries with increasing offsets, found {offset} after {previous} for the batch "
            f"at position {position}: offsets in this segment go back, for which brokers empty it"
        )
        self.damage = Damage(ORDER, position, size_bytes, offset, message)


class IndexBuilder:
    """Rebuild the indexes of a segment from all its batches.

    A batch gets entries if it begins more than `interval_bytes` after the last batch that got entries.

    Attributes:
        offsets, positions: the entries of the offset index.
    """

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.offsets, self.positions = array("q"), array("q")
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._times, self._time_offsets = array("q"), array("q")
        self._max_ms, self._max_offset, self._indexed_ms = -1, base_offset, -1
        self._last_batch = 0, 0  # position and size

    def add(self, batches: pa.RecordBatch) -> None:
        """Add the batches (BATCH_SCHEMA) that follow. Raises InvalidOffsetError."""
        positions, sizes = int64s(batches, "position"), int32s(batches, "sizeInBytes")
        last_offsets, times = int64s(batches, "lastOffset"), int64s(batches, "maxTimestamp")
        last_indexed = self.positions[-1] if self.positions else 0
        for i in range(batches.num_rows):
            if times[i] > self._max_ms:
                self._max_ms, self._max_offset = times[i], last_offsets[i]
            if positions[i] - last_indexed > self._interval_bytes:
                self._last_batch = positions[i], sizes[i]
                self._add_entry(last_offsets[i], positions[i])
                self._add_time_entry()
                last_indexed = positions[i]
        if batches.num_rows:
            self._last_batch = positions[i], sizes[i]

    def finish(self) -> None:
        """Add the last entry of the time index. Raises InvalidOffsetError."""
        self._add_time_entry()

    @property
    def offset_index(self) -> bytes:
        """The content of the offset index."""
        content = bytearray()
        for offset, position in zip(self.offsets, self.positions, strict=True):
            content += OFFSET_ENTRY.pack(offset - self._base_offset, position)
        return bytes(content)

    @property
    def time_index(self) -> bytes:
        """The content of the time index."""
        content = bytearray()
        for timestamp_ms, offset in zip(self._times, self._time_offsets, strict=True):
            content += TIME_ENTRY.pack(timestamp_ms, offset - self._base_offset)
        return bytes(content)

    def _add_entry(self, offset: int, position: int) -> None:
        if self.offsets and offset <= self.offsets[-1]:
            raise InvalidOffsetError(*self._last_batch, offset, self.offsets[-1])
        self.offsets.append(offset)
        self.positions.append(position)

    def _add_time_entry(self) -> None:
        if self._times and self._max_offset < self._time_offsets[-1]:
            raise InvalidOffsetError(*self._last_batch, self._max_offset, self._time_offsets[-1])
        if self._max_ms > self._indexed_ms:
            self._indexed_ms = self._max_ms
            self._times.append(self._max_ms)
            self._time_offsets.append(self._max_offset)
