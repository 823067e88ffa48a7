"""A segment read from its first batch to its last good one, and the indexes that follow from it (Kafka:
LogSegment.recover). The .log is not changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from native_log.records import MAX_BATCH_BYTES, Damage, Scanned, scan
from native_log.segment.damage import damage_of, damaged_range, wrong_crc
from native_log.segment.entries import OFFSET_ENTRY, TIME_ENTRY
from native_log.segment.files import INDEX, TIME_INDEX, TRANSACTION_INDEX, file_name
from native_log.segment.offset_index import MAX_RELATIVE_OFFSET
from native_log.segment.scan import int32s, int64s, row, scan_file
from native_log.segment.transaction_index import transaction_index_bytes
from native_log.storage import DataFile, Window, read_file
from native_log.storage.writing import remove_file, replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment
    from native_log.segment.transaction_index import AbortedTxn

_MAGIC_AT, _NEWEST_MAGIC = 16, 2


@dataclass(frozen=True, slots=True)
class CheckedSegment:
    """What a segment holds.

    Attributes:
        segment: whose.
        valid_bytes: up to where it is whole.
        next_offset: the offset after the last good batch; the base offset if there is none.
        damage: what lies at `valid_bytes`; None if the file ends there.
    """

    segment: LogSegment
    valid_bytes: int
    next_offset: int
    damage: Damage | None

    @property
    def truncated_bytes(self) -> int:
        return self.segment.size_bytes - self.valid_bytes


@dataclass(frozen=True, slots=True)
class SegmentIndexes:
    """The content of the index files of a segment: offset index, time index."""

    offset_index: bytes
    time_index: bytes

    def differs(self, segment: LogSegment, aborted: Sequence[AbortedTxn]) -> bool:
        """Return whether `write` would change the content of an index file; an empty one may be missing."""
        expected = {
            INDEX: self.offset_index,
            TIME_INDEX: self.time_index,
            TRANSACTION_INDEX: transaction_index_bytes(aborted),
        }
        for kind, data in expected.items():
            found: bytes | None
            try:
                found = read_file(f"{segment.directory}/{file_name(segment.base_offset, kind)}")
            except FileNotFoundError:
                found = b"" if kind == TRANSACTION_INDEX else None
            if found != data:
                return True
        return False

    def write(self, segment: LogSegment, aborted: Sequence[AbortedTxn]) -> None:
        """Put them, and a `.txnindex` of the aborted transactions, in the place of the segment's."""
        prefix = f"{segment.directory}/"
        base = segment.base_offset
        replace_file(prefix + file_name(base, INDEX), self.offset_index)
        replace_file(prefix + file_name(base, TIME_INDEX), self.time_index)
        transactions = prefix + file_name(base, TRANSACTION_INDEX)
        if aborted:
            replace_file(transactions, transaction_index_bytes(aborted))
        else:
            remove_file(transactions)


def rebuild(
    segment: LogSegment,
    index_interval_bytes: int,
    on_batches: Callable[[DataFile, pa.RecordBatch], None],
) -> tuple[CheckedSegment, SegmentIndexes]:
    """Read the whole segment with checksums; stop at the first batch that is not whole and right.

    A batch may be as large as it is: only its checksum decides. One of a magic above 2 is passed over like
    one of magic 2, as brokers do.

    Args:
        on_batches: called with the file and the good batches (BATCH_SCHEMA), in order.
    """
    base = segment.base_offset
    entries, time_entries = bytearray(), bytearray()
    max_ms, max_offset, indexed_ms = -1, base, -1
    last_indexed = valid = 0
    last_entry = next_offset = base
    damage = None
    with DataFile(str(segment.path)) as file:
        for found in _scanned(file):
            good, damage = _good(found.batches, base)
            positions, sizes = int64s(good, "position"), int32s(good, "sizeInBytes")
            last_offsets, times = int64s(good, "lastOffset"), int64s(good, "maxTimestamp")
            for i in range(good.num_rows):
                if times[i] > max_ms:
                    max_ms, max_offset = times[i], last_offsets[i]
                if positions[i] - last_indexed > index_interval_bytes:
                    if entries and last_offsets[i] <= last_entry:
                        # Brokers then give up the whole segment (InvalidOffsetException).
                        return _given_up(segment, last_offsets[i], last_entry), SegmentIndexes(b"", b"")
                    last_entry = last_offsets[i]
                    entries += OFFSET_ENTRY.pack(last_entry - base, positions[i])
                    if max_ms > indexed_ms:
                        time_entries += TIME_ENTRY.pack(max_ms, max_offset - base)
                        indexed_ms = max_ms
                    last_indexed = positions[i]
            if good.num_rows:
                on_batches(file, good)
                valid = positions[good.num_rows - 1] + sizes[good.num_rows - 1]
                next_offset = last_offsets[good.num_rows - 1] + 1
            if damage is not None:
                break
        if damage is None and valid < file.size_bytes:
            damage = damage_of(found, file.size_bytes)
    if max_ms > indexed_ms:
        time_entries += TIME_ENTRY.pack(max_ms, max_offset - base)
    checked = CheckedSegment(segment, valid, next_offset, damage)
    return checked, SegmentIndexes(bytes(entries), bytes(time_entries))


def read_through(
    segment: LogSegment,
    on_batches: Callable[[DataFile, pa.RecordBatch], None],
    on_damage: Callable[[DamagedRange], None],
) -> None:
    """Read the whole segment with checksums, behind damage too, by the rules of `rebuild`.

    Args:
        on_batches: called with the file and good batches (BATCH_SCHEMA), in order.
        on_damage: called with what lies between them, or behind the last.
    """
    base, position, next_offset = segment.base_offset, 0, segment.base_offset
    with DataFile(str(segment.path)) as file:
        while position < file.size_bytes:
            damage = None
            for found in _scanned(file, position):
                good, damage = _good(found.batches, base)
                if good.num_rows:
                    on_batches(file, good)
                    last = good.num_rows - 1
                    position = int64s(good, "position")[last] + int32s(good, "sizeInBytes")[last]
                    next_offset = int64s(good, "lastOffset")[last] + 1
                if damage is not None:
                    break
            if damage is None and position < file.size_bytes:
                damage = damage_of(found, file.size_bytes)
            if damage is not None:
                damaged = damaged_range(file, damage, file.size_bytes, next_offset, base, MAX_BATCH_BYTES)
                on_damage(damaged)
                position = damaged.end_position


def _given_up(segment: LogSegment, offset: int, previous: int) -> CheckedSegment:
    message = f"expected offsets that increase, found {offset} behind {previous}"
    damage = Damage("records", 0, segment.size_bytes, offset, message)
    return CheckedSegment(segment, 0, segment.base_offset, damage)


def _scanned(file: DataFile, position: int = 0) -> Iterator[Scanned]:
    end = file.size_bytes
    while True:
        for found in scan_file(
            file, position, end, Window(), check_crcs=True, max_batch_bytes=MAX_BATCH_BYTES
        ):
            newer = None
            if found.damage is not None and found.damage.kind == "magic":
                newer = _of_newer_magic(file, found.position)
            yield found if newer is None else replace(found, damage=None)
        if newer is None:
            return
        yield newer
        position = newer.position


def _of_newer_magic(file: DataFile, position: int) -> Scanned | None:
    """The batch at `position` if, taken for one of magic 2, it is right. (The magic has no checksum.)"""
    size = 12 + int.from_bytes(file.read(position + 8, 4), "big", signed=True)
    batch = bytearray(file.read(position, max(0, size)))
    if len(batch) < size or not _NEWEST_MAGIC < batch[_MAGIC_AT] < 128:
        return None
    batch[_MAGIC_AT] = _NEWEST_MAGIC
    found = scan(batch, base_position=position, check_crcs=True, max_batch_bytes=MAX_BATCH_BYTES)
    return found if found.status == "end" and found.batches.column("isValid").true_count == 1 else None


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
