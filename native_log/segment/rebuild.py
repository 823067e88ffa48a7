"""A segment read from its first batch to its last good one, and the indexes that follow from it (Kafka:
LogSegment.recover). Nothing is changed."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from native_log.records import DEFAULT_MAX_BATCH_BYTES, Damage
from native_log.segment.damage import damage_of, wrong_crc
from native_log.segment.offset_index import MAX_RELATIVE_OFFSET
from native_log.segment.scan import int32s, int64s, row, scan_file
from native_log.storage import DataFile, Window

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from native_log.segment.segment import LogSegment

_ENTRY, _TIME_ENTRY = struct.Struct(">ii"), struct.Struct(">qi")


@dataclass(frozen=True, slots=True)
class RebuiltSegment:
    """What a segment holds.

    Attributes:
        segment: whose.
        valid_bytes: up to where it is whole.
        next_offset: the offset after the last good batch; the base offset if there is none.
        offset_index, time_index: the content of its index files.
        damage: what lies at `valid_bytes`; None if the file ends there.
    """

    segment: LogSegment
    valid_bytes: int
    next_offset: int
    offset_index: bytes
    time_index: bytes
    damage: Damage | None

    @property
    def truncated_bytes(self) -> int:
        return self.segment.size_bytes - self.valid_bytes


def rebuild(
    segment: LogSegment,
    index_interval_bytes: int,
    on_batches: Callable[[DataFile, pa.RecordBatch], None],
    *,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> RebuiltSegment:
    """Read the whole segment with checksums; stop at the first batch that is not whole and right.

    Args:
        on_batches: called with the file and the good batches (BATCH_SCHEMA), in order.
    """
    base = segment.base_offset
    entries, time_entries = bytearray(), bytearray()
    max_ms, max_offset, indexed_ms = -1, base, -1
    last_indexed = valid = 0
    next_offset, damage = base, None
    with DataFile(str(segment.path)) as file:
        end = file.size_bytes
        for found in scan_file(file, 0, end, Window(), check_crcs=True, max_batch_bytes=max_batch_bytes):
            good, damage = _good(found.batches, base)
            if damage is None and found.position < end and found.status in ("damaged", "zeros", "partial"):
                damage = damage_of(found, end) if _is_last(found.status, found, end) else None
            positions, sizes = int64s(good, "position"), int32s(good, "sizeInBytes")
            last_offsets, times = int64s(good, "lastOffset"), int64s(good, "maxTimestamp")
            for i in range(good.num_rows):
                if times[i] > max_ms:
                    max_ms, max_offset = times[i], last_offsets[i]
                if positions[i] - last_indexed > index_interval_bytes:
                    if entries and last_offsets[i] - base <= _ENTRY.unpack_from(entries, len(entries) - 8)[0]:
                        # Brokers then give up the whole segment (InvalidOffsetException).
                        message = (
                            f"expected offsets that increase, found {last_offsets[i]} behind a greater one"
                        )
                        repeated = Damage("records", 0, segment.size_bytes, last_offsets[i], message)
                        return RebuiltSegment(segment, 0, base, b"", b"", repeated)
                    entries += _ENTRY.pack(last_offsets[i] - base, positions[i])
                    if max_ms > indexed_ms:
                        time_entries += _TIME_ENTRY.pack(max_ms, max_offset - base)
                        indexed_ms = max_ms
                    last_indexed = positions[i]
            if good.num_rows:
                on_batches(file, good)
                valid = positions[good.num_rows - 1] + sizes[good.num_rows - 1]
                next_offset = last_offsets[good.num_rows - 1] + 1
            if damage is not None:
                break
    if max_ms > indexed_ms:
        time_entries += _TIME_ENTRY.pack(max_ms, max_offset - base)
    return RebuiltSegment(segment, valid, next_offset, bytes(entries), bytes(time_entries), damage)


def _is_last(status: str, found: object, end: int) -> bool:
    """Whether the scan stopped for good, not for the next read."""
    return status in ("damaged", "zeros") or found.position + found.needed_bytes > end  # type: ignore[attr-defined]


def _good(batches: pa.RecordBatch, base_offset: int) -> tuple[pa.RecordBatch, Damage | None]:
    """The batches before the first with a wrong checksum, or an offset that the segment cannot hold."""
    if batches.num_rows == 0:
        return batches, None
    last_offsets = batches.column("lastOffset")
    fits = pc.and_(
        pc.greater_equal(last_offsets, base_offset),
        pc.less_equal(last_offsets, base_offset + MAX_RELATIVE_OFFSET),
    )
    first = pc.index(pc.and_(batches.column("isValid"), fits), False).as_py()
    if first < 0:
        return batches, None
    batch = row(batches, first)
    if not batch["isValid"]:
        return batches.slice(0, first), wrong_crc(batch, batch["sizeInBytes"])
    message = (
        f"expected an offset from {base_offset} on, the segment's base offset, found {batch['lastOffset']}"
    )
    damage = Damage("records", batch["position"], batch["sizeInBytes"], batch["lastOffset"], message)
    return batches.slice(0, first), damage
