"""Decide whether the offset of a copy's last batch can be believed.

No checksum covers the base offset of a batch. If a changed bit raises it, the following batch shows that, but
the last batch of a log has none: its offset could make a damaged copy the longest one. A batch that follows
the previous one without a gap is right, and brokers leave a gap only where compaction removed batches. So an
offset after a gap is believed if another copy has the same batch there, or if checkpoints or indexes of the
copy have reached it. It is not if another copy has the same batch at a different offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.segment.lookup import SegmentLookup
from native_log.segment.scan import int32s, int64s, valid_batch_at
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Iterable

    from native_log.log.log_state import LogState
    from native_log.segment.damage import DamagedRange


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The last batch of a copy, with a gap before it.

    Attributes:
        path: its file.
        position, size_bytes, crc: its first byte, its size and its checksum.
        expected_offset: the offset after the previous batch.
        first_offset, last_offset: its offsets according to its header, both inclusive.
    """

    path: str
    position: int
    size_bytes: int
    crc: int
    expected_offset: int
    first_offset: int
    last_offset: int

    def __str__(self) -> str:
        return (
            f"{self.path}, position {self.position}: expected a batch with offset {self.expected_offset}, "
            f"after the previous batch, found {self.first_offset} to {self.last_offset}, which neither "
            "another copy nor a checkpoint or an index of this one confirms"
        )


def last_batch_after_gap(log: LogState) -> LastBatch | None:
    """Return the last batch of a log; None if it follows the previous batch, or if damage lies between them.

    Raises OSError.
    """
    position = log.tail.last_position
    if position is None or not log.segments:
        return None
    segment, end = log.segments[-1], log.end_position(log.segments[-1])
    with SegmentLookup(segment, end, Window(), max_batch_bytes=log.max_batch_bytes) as lookup:
        batch = valid_batch_at(lookup.file, position, end, Window(), max_batch_bytes=log.max_batch_bytes)
        if batch is None or batch["baseOffset"] <= segment.base_offset:
            return None
        place = lookup.find_offset(batch["baseOffset"] - 1)
        if place.position != position or place.next_offset >= batch["baseOffset"]:
            return None
        header = next(lookup.first_batches(position, _ignore, next_offset=place.next_offset)).batches
        return LastBatch(
            lookup.file.path,
            position,
            batch["sizeInBytes"],
            header.column("crc")[0].as_py(),
            place.next_offset,
            batch["baseOffset"],
            batch["lastOffset"],
        )


def is_believed(batch: LastBatch, log: LogState, others: Iterable[LogState]) -> bool:
    """Return whether the last batch of `log` has its offset there.

    Args:
        batch: the result of `last_batch_after_gap`.
        log: the log.
        others: the other copies.

    Raises OSError.
    """
    places = [_find_same(batch, other) for other in others]
    if batch.last_offset in places:
        return True
    has_moved = any(place is not None for place in places)
    return not has_moved and _reached_offset(log) > batch.first_offset


def believed_end(log: LogState, others: Iterable[LogState]) -> int:
    """Return the log end offset of a copy without a last batch that is not believed. Raises OSError."""
    batch = last_batch_after_gap(log)
    return log.log_end_offset if batch is None or is_believed(batch, log, others) else batch.expected_offset


def _find_same(batch: LastBatch, other: LogState) -> int | None:
    """Return the last offset of the same batch in another copy; None if that has no such batch.

    Size and checksum identify the batch. Its own last offset is preferred: a producer may repeat a batch.
    """
    if other.log_end_offset <= batch.expected_offset:
        return None
    found = None
    for _, scanned in other.headers(batch.expected_offset, _ignore):
        last_offsets = int64s(scanned.batches, "lastOffset")
        checksums = zip(int32s(scanned.batches, "sizeInBytes"), int64s(scanned.batches, "crc"), strict=True)
        for last_offset, identity in zip(last_offsets, checksums, strict=True):
            if last_offset > batch.last_offset:
                return found
            if identity == (batch.size_bytes, batch.crc):
                found = last_offset
    return found


def _reached_offset(log: LogState) -> int:
    """Return the greatest offset that the files beside the segments show; -1 if there is none.

    The log has had all offsets before it.
    """
    segment, checkpoints = log.segments[-1], log.checkpoints
    offsets = [checkpoints.high_watermark or -1, checkpoints.recovery_point or -1]
    offsets += [offset for offset, _ in log.snapshots[:1]]
    index, last_time = segment.load_offset_index(), segment.last_time_entry()
    if len(index):
        offsets.append(index.entry(len(index) - 1)[0] + 1)
    if last_time is not None:
        offsets.append(last_time[1] + 1)
    return max(offsets)


def _ignore(damaged: DamagedRange) -> None:
    """Ignore damage: a reader finds it where it reads."""
