"""Damaged bytes of a .log file: what they are reported as, and where reading goes on behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from native_log.errors import CorruptRecordError
from native_log.records import Damage, OffsetOrder, Scanned, find_batch
from native_log.segment.offset_index import MAX_RELATIVE_OFFSET
from native_log.segment.scan import Batch, has_right_crc, int64s, row, scan_file, valid_batch_at
from native_log.storage import Window

if TYPE_CHECKING:
    from native_log.segment.chunks import BatchCursor, Chunk
    from native_log.storage import DataFile

LEFT_ALONE = "The partition is left as it was: take the file from another replica"
SEARCH_BYTES = 4 << 20
NEAR_BYTES = 64 << 10
"""How much a search reads first: in a log with much damage the next batch is near most of the time."""
_LARGEST_HEADER_BYTES = 61
_READ_AGAIN = 8
"""A search reads no more than so many times the bytes searched to check batches larger than its window."""


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Bytes of a file that could not be read, and the offsets that may have been lost with them.

    Attributes:
        path: the file.
        position, end_position: the bytes, end exclusive.
        offset: first offset that may be lost: what follows the batch before, or what the damaged header
        claims.
        next_offset: first offset behind the range; None if nothing that can be read follows in the file.
        reason: what was expected and what was found.
        kind: see Damage.kind.
    """

    path: str
    position: int
    end_position: int
    offset: int | None
    next_offset: int | None
    reason: str
    kind: str

    def __str__(self) -> str:
        behind = "nothing readable follows" if self.next_offset is None else f"goes on at {self.next_offset}"
        return (
            f"{self.path}, positions {self.position} to {self.end_position}, from offset {self.offset} on "
            f"({behind}): {self.reason}"
        )

    def error(self) -> CorruptRecordError:
        """What a reader says."""
        return self._error(
            "Take the file from another replica, or read with mode dropMalformed to go on behind the "
            f"damage at position {self.end_position}"
        )

    def fail(self) -> NoReturn:
        """What mode failFast does about it."""
        raise self.error()

    def refuse(self) -> NoReturn:
        """What whoever would change the log does about it."""
        raise self._error(LEFT_ALONE)

    def _error(self, advice: str) -> CorruptRecordError:
        return CorruptRecordError(
            f"{self.reason}. {advice}", path=self.path, position=self.position, offset=self.offset
        )


def damage_in(cursor: BatchCursor, chunk: Chunk, max_batch_bytes: int) -> Damage | None:
    """Return what stopped `cursor`, just advanced by `chunk`, before its end; None if it can continue."""
    if cursor.has_more or cursor.position == cursor.end:
        return None
    if cursor.position < cursor.end:
        return damage_of(chunk, cursor.end)
    # The last batch was skipped by its header, and goes on after the end: find where it begins.
    *_, last = scan_file(
        cursor.file, cursor.chunk_position, cursor.end, Window(), max_batch_bytes=max_batch_bytes
    )
    return damage_of(last, cursor.end)


def reject_damage(cursor: BatchCursor, chunk: Chunk, max_batch_bytes: int) -> None:
    """Raise CorruptRecordError, for a caller that changes the log, if damage stopped `cursor`."""
    damage = damage_in(cursor, chunk, max_batch_bytes)
    if damage is not None:
        offset = chunk.next_offset if chunk.damage is None else damage.offset
        raise CorruptRecordError(
            f"{damage.message}. {LEFT_ALONE}", path=cursor.file.path, position=damage.position, offset=offset
        )


def damage_of(found: Chunk, end: int) -> Damage:
    """Why a scan or decode stopped before byte `end`, where it should not have."""
    left, needed = end - found.position, found.needed_bytes
    if found.damage is not None:
        # A batch that claims more than there is cannot be read with any max_batch_bytes.
        if found.damage.kind != "too-large" or found.damage.size_bytes <= left:
            return found.damage
        needed = found.damage.size_bytes
    if found.status == "zeros":
        message = f"expected a batch, found nothing but zeros in the {left} bytes up to the segment's end"
        return Damage("size", found.position, 0, None, message)
    message = f"expected a batch of {needed} bytes, found only {left} up to the segment's end"
    offset = None if found.damage is None else found.damage.offset
    return Damage("size", found.position, needed, offset, message)


def up_to_wrong_crc(found: Scanned) -> Scanned:
    """What was scanned, with CRCs, before the first batch with a wrong one."""
    is_valid = found.batches.column("isValid")
    if not is_valid.false_count:
        return found
    index = is_valid.to_pylist().index(False)
    batch = row(found.batches, index)
    next_offset = int64s(found.batches, "lastOffset")[index - 1] + 1 if index else None
    damage = wrong_crc(batch, batch["sizeInBytes"])
    return Scanned(found.batches.slice(0, index), "damaged", batch["position"], next_offset, 0, damage)


def wrong_crc(batch: Batch, size_bytes: int) -> Damage:
    """`size_bytes`: 0 where what the batch says of its size cannot be right."""
    offset = batch["lastOffset"] if batch["baseOffset"] is None else batch["baseOffset"]
    message = "the checksum of the batch is not that of its bytes; it was altered after it was written"
    return Damage("crc", batch["position"], size_bytes, offset, message)


def damaged_range(
    file: DataFile,
    damage: Damage,
    end: int,
    order: OffsetOrder,
    expected_offset: int | None,
    max_batch_bytes: int,
) -> DamagedRange:
    """How far the damage reaches: to the next batch that is whole, has a right CRC and begins behind the
    batches before the damage; or to `end`. A batch whose CRC is right is damaged as a whole: batches that its
    records may look like are not part of the log.

    Args:
        order: what is known of the offsets at the damage.
        expected_offset: what follows the batch before, if one was seen.
    """
    window = Window()
    behind, search_from = None, damage.position + 1
    if damage.size_bytes:
        # The size may be right and only the content wrong: then the next batch begins just after it.
        batch_end = damage.position + damage.size_bytes
        behind = valid_batch_at(file, batch_end, end, window, max_batch_bytes=max_batch_bytes)
        if behind is not None and not order.next_offset <= behind["baseOffset"] < order.end_offset:
            behind = None
        # A right CRC proves the size: nothing within is a batch of the log. Otherwise batches nested in each
        # other would be searched once for each level.
        if (
            behind is None
            and damage.kind != "crc"
            and has_right_crc(file, damage.position, end, window, max_batch_bytes=max_batch_bytes)
        ):
            search_from = batch_end
    if behind is None:
        found = find_next_batch(file, search_from, end, order, max_batch_bytes)
        if found is not None:
            behind = valid_batch_at(file, found, end, window, max_batch_bytes=max_batch_bytes)
    return DamagedRange(
        file.path,
        damage.position,
        end if behind is None else behind["position"],
        damage.offset if expected_offset is None else expected_offset,
        None if behind is None else behind["baseOffset"],
        damage.message,
        damage.kind,
    )


def find_next_batch(
    file: DataFile, position: int, end: int, order: OffsetOrder, max_batch_bytes: int
) -> int | None:
    """Where the first whole batch with a right CRC and an offset within `order` begins at or behind
    `position`.

    None if there is none before `end`. No more is held of the file than SEARCH_BYTES and one batch. A header
    that claims more than SEARCH_BYTES has to be checked over all that it claims. Once many were wrong, as
    only in crafted bytes, the search is for smaller batches alone.
    """
    near, far, whole = Window(NEAR_BYTES), Window(SEARCH_BYTES), Window()
    window = near
    budget = _READ_AGAIN * (end - position)
    while position < end:
        view = window.at(file, position, end, _LARGEST_HEADER_BYTES)
        found = find_batch(
            view,
            base_position=position,
            min_offset=order.next_offset,
            max_offset=min(order.next_offset + MAX_RELATIVE_OFFSET + 1, order.end_offset),
            max_batch_bytes=min(max_batch_bytes, end - position) if budget > 0 else 0,
        )
        if found is None:
            if position + len(view) == end:
                return None
            position += len(view) - _LARGEST_HEADER_BYTES + 1  # a header on the view's end comes again, whole
            window = far
            continue
        size_at = found - position + 8
        size_bytes = 12 + int.from_bytes(view[size_at : size_at + 4], "big")
        if window is near and found + size_bytes > position + len(view):
            # It may lie wholly in the larger window, where checksums of overlapping batches cost little.
            position, window = found, far
        elif valid_batch_at(file, found, end, whole, max_batch_bytes=max_batch_bytes) is None:
            budget -= max(size_bytes, SEARCH_BYTES)
            position = found + 1
        else:
            return found
    return None
