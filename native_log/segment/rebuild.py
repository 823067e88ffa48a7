"""Check all batches of a segment and rebuild its indexes (Kafka: LogSegment.recover).

The .log file is not changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.records import MAX_BATCH_BYTES, Checked, Damage, OffsetOrder
from native_log.segment.damage import DamagedRange, crc_damage, damage_of, damaged_range, skipped_ranges
from native_log.segment.files import INDEX, TIME_INDEX, TRANSACTION_INDEX, file_name
from native_log.segment.indexing import ORDER, IndexBuilder, InvalidOffsetError
from native_log.segment.offset_index import MAX_RELATIVE_OFFSET
from native_log.segment.scan import check_batches, int32s, int64s, row
from native_log.segment.search import BatchSearch
from native_log.segment.transaction_index import transaction_index_bytes
from native_log.storage import DataFile, read_file
from native_log.storage.writing import remove_file, replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from native_log.segment.segment import LogSegment
    from native_log.segment.transaction_index import AbortedTxn


@dataclass(frozen=True, slots=True)
class CheckedSegment:
    """The result of checking a segment.

    Attributes:
        segment: the segment.
        valid_bytes: size of the valid batches at its beginning.
        next_offset: the offset after the last valid batch; the base offset if there is none.
        damage: the damage at `valid_bytes`; None if the file ends there.
        out_of_order: the first batch whose offsets do not follow those before it. Readers treat it as
            damaged. Brokers keep it, unless they empty the segment because of it (then `damage` is set too).
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
    """The content of the offset index and the time index of a segment."""

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
            content: bytes | None
            try:
                content = read_file(f"{segment.directory}/{file_name(segment.base_offset, kind)}")
            except FileNotFoundError:
                content = b"" if kind == TRANSACTION_INDEX else None
            if content != data:
                return True
        return False

    def write(self, segment: LogSegment, aborted: Sequence[AbortedTxn]) -> None:
        """Replace the index files of the segment, including a `.txnindex` with the aborted transactions."""
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
    """Check all batches and their CRCs, and rebuild the indexes. Stop at the first invalid batch.

    A batch may have any size if its CRC is valid. As in a broker, a magic above 2 counts as magic 2. Brokers
    do not compare the offsets of batches. But if an index entry cannot follow the previous one
    (InvalidOffsetException), they empty the whole segment.

    Args:
        on_batches: called with the file and valid batches (BATCH_SCHEMA), in order.

    Raises OSError.
    """
    base = segment.base_offset
    indexes = IndexBuilder(base, index_interval_bytes)
    valid_bytes, next_offset = 0, base
    damage = out_of_order = None
    with segment.open() as file:
        end = min(file.size_bytes, segment.size_bytes)
        for checked in _in_any_order(file, end, segment):
            batches, damage = _valid_batches(checked.batches, base)
            if damage is None and checked.damage is not None and checked.damage.kind == ORDER:
                out_of_order = checked.damage
            try:
                indexes.add(batches)
            except InvalidOffsetError as error:
                return _empty_segment(segment, error.damage, out_of_order), SegmentIndexes(b"", b"")
            if batches.num_rows:
                on_batches(file, batches)
                last = batches.num_rows - 1
                valid_bytes = int64s(batches, "position")[last] + int32s(batches, "sizeInBytes")[last]
                next_offset = int64s(batches, "lastOffset")[last] + 1
            if damage is not None:
                break
        if damage is None and valid_bytes < end:
            damage = damage_of(checked, end)
    try:
        indexes.finish()
    except InvalidOffsetError as error:
        return _empty_segment(segment, error.damage, out_of_order), SegmentIndexes(b"", b"")
    content = SegmentIndexes(indexes.offset_index, indexes.time_index)
    return CheckedSegment(segment, valid_bytes, next_offset, damage, out_of_order), content


@dataclass(frozen=True, slots=True)
class ValidBatches:
    """Valid batches of a segment.

    Attributes:
        batches: rows of BATCH_SCHEMA; at least one.
        invalid_records: positions of batches whose records may be invalid: see `check_file`.
        damaged: the damaged ranges before the last batch, by position.
    """

    batches: pa.RecordBatch
    invalid_records: Sequence[int]
    damaged: Sequence[DamagedRange]


def read_all_batches(
    segment: LogSegment, position: int = 0, *, check_records: bool = True
) -> Iterator[ValidBatches | DamagedRange]:
    """Check all batches with their CRCs by the rules of `rebuild`, and continue after damage.

    In contrast to `rebuild`, a batch whose offsets do not follow those before it is damaged.

    Yields:
        the valid batches and the damaged ranges, by position.

    Args:
        segment: the segment.
        position: where to start: at a batch, or at damage.
        check_records: whether to check the records, too.
    """
    base = segment.base_offset
    with segment.open() as file:
        search = BatchSearch(file, file.size_bytes, MAX_BATCH_BYTES)
        order = segment.offset_order(file)
        while position < file.size_bytes:
            damage = None
            for checked in check_batches(
                file,
                position,
                check_records=check_records,
                order=order,
                accept_newer=True,
                search=search,
                skipper=search.skipper,
            ):
                batches, damage = _valid_batches(checked.batches, base)
                skipped = skipped_ranges(file.path, checked.skipped)
                if damage is not None:
                    skipped = [each for each in skipped if each.position < damage.position]
                if batches.num_rows:
                    last = batches.num_rows - 1
                    position = int64s(batches, "position")[last] + int32s(batches, "sizeInBytes")[last]
                    # A wrapper of magic 1 without an offset of its own has a lower one than those before it.
                    order = order.after(max(int64s(batches, "lastOffset")) + 1)
                    before_last = [each for each in skipped if each.position < position]
                    yield ValidBatches(batches, checked.invalid_records, before_last)
                    skipped = skipped[len(before_last) :]
                yield from skipped
                if damage is not None:
                    break
                position = checked.position
            if damage is None and position < file.size_bytes:
                damage = damage_of(checked, file.size_bytes)
            if damage is not None:
                damaged = damaged_range(search, damage, order, order.next_offset)
                yield damaged
                position = damaged.end_position


def _empty_segment(segment: LogSegment, damage: Damage, out_of_order: Damage | None) -> CheckedSegment:
    return CheckedSegment(segment, 0, segment.base_offset, damage, out_of_order)


def _in_any_order(file: DataFile, end: int, segment: LogSegment) -> Iterator[Checked]:
    """Check all batches, in any order of offsets. The first one out of order is the damage of one Checked."""
    order: OffsetOrder | None = segment.offset_order(file)
    position = 0
    while True:
        for checked in check_batches(file, position, end_position=end, order=order, accept_newer=True):
            yield checked
        if checked.damage is None or checked.damage.kind != ORDER:
            return
        position, order = checked.position, None


def _valid_batches(batches: pa.RecordBatch, base_offset: int) -> tuple[pa.RecordBatch, Damage | None]:
    """Return the batches before the first one with a wrong CRC or an offset that the segment cannot have."""
    is_valid = batches.column("isValid")
    last_offsets = int64s(batches, "lastOffset")
    greatest = base_offset + MAX_RELATIVE_OFFSET
    if not is_valid.false_count and (
        not last_offsets or (base_offset <= min(last_offsets) and max(last_offsets) <= greatest)
    ):
        return batches, None
    wrong = (
        not (valid and base_offset <= last_offset <= greatest)
        for valid, last_offset in zip(is_valid.to_pylist(), last_offsets, strict=True)
    )
    first = list(wrong).index(True)
    batch = row(batches, first)
    if not batch["isValid"]:
        return batches.slice(0, first), crc_damage(batch, batch["sizeInBytes"])
    message = (
        f"expected an offset from {base_offset} to {greatest}, which a segment of this base offset can have, "
        f"found {batch['lastOffset']}"
    )
    damage = Damage("records", batch["position"], batch["sizeInBytes"], batch["lastOffset"], message)
    return batches.slice(0, first), damage
