"""A segment read from its first batch to its last good one, and the indexes that follow from it (Kafka:
LogSegment.recover). The .log is not changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from native_log.records import MAX_BATCH_BYTES, Damage, OffsetOrder, Scanned, scan
from native_log.segment.damage import crc_damage, damage_of, damaged_range
from native_log.segment.files import INDEX, TIME_INDEX, TRANSACTION_INDEX, file_name
from native_log.segment.indexing import ORDER, IndexBuilder, InvalidOffsetError
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
        out_of_order: the first batch that is not in the order of offsets: readers take it for damaged,
            brokers keep it unless they have to empty the segment for it (then it is `damage` too).
    """

    segment: LogSegment
    valid_bytes: int
    next_offset: int
    damage: Damage | None
    out_of_order: Damage | None

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
    one of magic 2, as brokers do. Nor do brokers compare the offsets of batches: only where an index entry
    cannot follow the one before it (InvalidOffsetException) they notice, and empty the whole segment.

    Args:
        on_batches: called with the file and the good batches (BATCH_SCHEMA), in order.
    """
    base = segment.base_offset
    indexes = IndexBuilder(base, index_interval_bytes)
    valid, next_offset = 0, base
    damage = out_of_order = None
    with DataFile(str(segment.path)) as file:
        for found in _in_any_order(file, segment):
            good, damage = _good(found.batches, base)
            if damage is None and found.damage is not None and found.damage.kind == ORDER:
                out_of_order = found.damage
            try:
                indexes.add(good)
            except InvalidOffsetError as error:
                return _emptied(segment, error.damage, out_of_order), SegmentIndexes(b"", b"")
            if good.num_rows:
                on_batches(file, good)
                last = good.num_rows - 1
                valid = int64s(good, "position")[last] + int32s(good, "sizeInBytes")[last]
                next_offset = int64s(good, "lastOffset")[last] + 1
            if damage is not None:
                break
        if damage is None and valid < file.size_bytes:
            damage = damage_of(found, file.size_bytes)
    try:
        indexes.finish()
    except InvalidOffsetError as error:
        return _emptied(segment, error.damage, out_of_order), SegmentIndexes(b"", b"")
    content = SegmentIndexes(indexes.offset_index, indexes.time_index)
    return CheckedSegment(segment, valid, next_offset, damage, out_of_order), content


def read_all_batches(
    segment: LogSegment,
    on_batches: Callable[[DataFile, pa.RecordBatch], None],
    on_damage: Callable[[DamagedRange], None],
) -> None:
    """Read the whole segment with checksums, also behind damage, by the rules of `rebuild`; but a batch that
    is not in the order of offsets is damaged.

    Args:
        on_batches: called with the file and good batches (BATCH_SCHEMA), in order.
        on_damage: called with what lies between them, or behind the last.
    """
    base, position = segment.base_offset, 0
    with DataFile(str(segment.path)) as file:
        order = OffsetOrder(base, segment.end_offset, file.fileno())
        while position < file.size_bytes:
            damage = None
            for found in _scanned(file, position, order):
                good, damage = _good(found.batches, base)
                if good.num_rows:
                    on_batches(file, good)
                    last = good.num_rows - 1
                    position = int64s(good, "position")[last] + int32s(good, "sizeInBytes")[last]
                    order = order.after(int64s(good, "lastOffset")[last] + 1)
                if damage is not None:
                    break
            if damage is None and position < file.size_bytes:
                damage = damage_of(found, file.size_bytes)
            if damage is not None:
                damaged = damaged_range(
                    file, damage, file.size_bytes, order, order.next_offset, MAX_BATCH_BYTES
                )
                on_damage(damaged)
                position = damaged.end_position


def _emptied(segment: LogSegment, damage: Damage, out_of_order: Damage | None) -> CheckedSegment:
    return CheckedSegment(segment, 0, segment.base_offset, damage, out_of_order)


def _in_any_order(file: DataFile, segment: LogSegment) -> Iterator[Scanned]:
    """All batches, also behind one that is not in order; the first such one is the damage of a Scanned."""
    order: OffsetOrder | None = OffsetOrder(segment.base_offset, segment.end_offset, file.fileno())
    position = 0
    while True:
        for found in _scanned(file, position, order):
            yield found
        if found.damage is None or found.damage.kind != ORDER:
            return
        position, order = found.position, None


def _scanned(file: DataFile, position: int, order: OffsetOrder | None) -> Iterator[Scanned]:
    end = file.size_bytes
    while True:
        for found in scan_file(
            file, position, end, Window(), check_crcs=True, max_batch_bytes=MAX_BATCH_BYTES, order=order
        ):
            newer = None
            if found.damage is not None and found.damage.kind == "magic":
                newer = _of_newer_magic(file, found.position)
            if order is not None:
                order = order.after(found.next_offset)
            yield found if newer is None else replace(found, damage=None)
        if newer is None:
            return
        yield newer
        if order is not None:
            order = order.after(newer.next_offset)
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
        return batches.slice(0, first), crc_damage(batch, batch["sizeInBytes"])
    message = (
        f"expected an offset from {base_offset} on, the segment's base offset, found {batch['lastOffset']}"
    )
    damage = Damage("records", batch["position"], batch["sizeInBytes"], batch["lastOffset"], message)
    return batches.slice(0, first), damage
