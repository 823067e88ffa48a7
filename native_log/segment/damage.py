"""Describe damaged bytes of a .log file, and find the next batch after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from native_log.errors import CorruptRecordError
from native_log.records import Damage, OffsetOrder, Scanned, find_batch
from native_log.segment.scan import Batch, has_valid_crc, int64s, row, scan_file, valid_batch_at
from native_log.storage import Window

if TYPE_CHECKING:
    from native_log.segment.chunks import BatchCursor, Chunk
    from native_log.storage import DataFile

PARTITION_UNCHANGED = "The partition is left as it was: take the file from another replica"
"""Advice of errors that are raised before a log is changed."""
SEARCH_BYTES = 4 << 20
"""How much of a file a search for the next batch holds in memory."""
NEAR_BYTES = 64 << 10
"""How much a search reads first: in a log with much damage the next batch is usually near."""
_LARGEST_HEADER_BYTES = 61
_CHECK_FACTOR = 8
"""To check batches that are larger than its window, a search reads at most this many times the bytes that it
searches."""


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """A range of bytes that cannot be read, and the offsets that may be lost with it.

    Attributes:
        path: path of the file.
        position, end_position: the range, end exclusive.
        offset: the first offset that may be lost: the one after the previous batch or, if that is unknown,
            the one in the damaged header.
        next_offset: the first offset after the range; None if the file has no readable batch after it.
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
        following = (
            "nothing readable follows" if self.next_offset is None else f"continues at {self.next_offset}"
        )
        return (
            f"{self.path}, positions {self.position} to {self.end_position}, from offset {self.offset} on "
            f"({following}): {self.reason}"
        )

    def error(self) -> CorruptRecordError:
        """Return the error that mode failFast raises."""
        return self._error(
            "Take the file from another replica, or read with mode dropMalformed to continue after the "
            f"damage at position {self.end_position}"
        )

    def fail(self) -> NoReturn:
        """Raise `error()`, as mode failFast does."""
        raise self.error()

    def reject(self) -> NoReturn:
        """Raise CorruptRecordError before the log is changed."""
        raise self._error(PARTITION_UNCHANGED)

    def _error(self, advice: str) -> CorruptRecordError:
        return CorruptRecordError(
            f"{self.reason}. {advice}", path=self.path, position=self.position, offset=self.offset
        )


def damage_in(cursor: BatchCursor, chunk: Chunk, max_batch_bytes: int) -> Damage | None:
    """Return the damage that stopped a cursor before its end; None if there is none.

    Args:
        chunk: what `cursor.advance` returned last.
    """
    if cursor.has_more or cursor.position == cursor.end:
        return None
    if cursor.position < cursor.end:
        return damage_of(chunk, cursor.end)
    # The last batch was skipped by its header and extends beyond the end: find where it begins.
    *_, last = scan_file(
        cursor.file, cursor.chunk_position, cursor.end, Window(), max_batch_bytes=max_batch_bytes
    )
    return damage_of(last, cursor.end)


def reject_damage(cursor: BatchCursor, chunk: Chunk, max_batch_bytes: int) -> None:
    """Raise CorruptRecordError if damage stopped the cursor, before the log is changed."""
    damage = damage_in(cursor, chunk, max_batch_bytes)
    if damage is not None:
        offset = chunk.next_offset if chunk.damage is None else damage.offset
        raise CorruptRecordError(
            f"{damage.message}. {PARTITION_UNCHANGED}",
            path=cursor.file.path,
            position=damage.position,
            offset=offset,
        )


def damage_of(chunk: Chunk, end: int) -> Damage:
    """Return why a scan or a decode stopped before byte `end` although it should not have."""
    left, needed = end - chunk.position, chunk.needed_bytes
    if chunk.damage is not None:
        # A batch that claims more bytes than the file has cannot be read with any max_batch_bytes.
        if chunk.damage.kind != "too-large" or chunk.damage.size_bytes <= left:
            return chunk.damage
        needed = chunk.damage.size_bytes
    if chunk.status == "zeros":
        message = f"expected a batch, found only zeros in the {left} bytes up to the segment's end"
        return Damage("size", chunk.position, 0, None, message)
    message = f"expected a batch of {needed} bytes, found only {left} up to the segment's end"
    offset = None if chunk.damage is None else chunk.damage.offset
    return Damage("size", chunk.position, needed, offset, message)


def before_wrong_crc(scanned: Scanned) -> Scanned:
    """Return the batches before the first one with a wrong CRC, which is the damage.

    Args:
        scanned: the result of a scan with `check_crcs`.
    """
    is_valid = scanned.batches.column("isValid")
    if not is_valid.false_count:
        return scanned
    index = is_valid.to_pylist().index(False)
    batch = row(scanned.batches, index)
    next_offset = int64s(scanned.batches, "lastOffset")[index - 1] + 1 if index else None
    damage = crc_damage(batch, batch["sizeInBytes"])
    return Scanned(scanned.batches.slice(0, index), "damaged", batch["position"], next_offset, 0, damage)


def crc_damage(batch: Batch, size_bytes: int) -> Damage:
    """Return the damage of a batch with a wrong CRC.

    Args:
        size_bytes: size of the batch; 0 if the size in its header may be wrong.
    """
    offset = batch["lastOffset"] if batch["baseOffset"] is None else batch["baseOffset"]
    message = "expected the checksum of the header, found another one; the batch changed after it was written"
    return Damage("crc", batch["position"], size_bytes, offset, message)


def damaged_range(
    file: DataFile,
    damage: Damage,
    end: int,
    order: OffsetOrder,
    expected_offset: int | None,
    max_batch_bytes: int,
) -> DamagedRange:
    """Return the range from the damage to the next batch, or to `end` if there is none.

    The next batch is whole, has a valid CRC, and its offsets follow those before the damage. A batch with a
    valid CRC is damaged as a whole: if its records look like batches, these are not batches of the log.

    Args:
        order: what is known about the offsets at the damage.
        expected_offset: the offset after the previous batch; None if no batch was read before the damage.
    """
    window = Window()
    next_batch, search_from = None, damage.position + 1
    if damage.size_bytes:
        # The size may be right and only the content damaged: then the next batch begins right after it.
        batch_end = damage.position + damage.size_bytes
        next_batch = valid_batch_at(file, batch_end, end, window, max_batch_bytes=max_batch_bytes)
        if next_batch is not None and not order.next_offset <= next_batch["baseOffset"] < order.end_offset:
            next_batch = None
        # A valid CRC proves the size, so nothing within is a batch of the log. A search within would read
        # batches nested in each other once for each level.
        if (
            next_batch is None
            and damage.kind != "crc"
            and has_valid_crc(file, damage.position, end, window, max_batch_bytes=max_batch_bytes)
        ):
            search_from = batch_end
    if next_batch is None:
        position = find_next_batch(file, search_from, end, order, max_batch_bytes)
        if position is not None:
            next_batch = valid_batch_at(file, position, end, window, max_batch_bytes=max_batch_bytes)
    return DamagedRange(
        file.path,
        damage.position,
        end if next_batch is None else next_batch["position"],
        damage.offset if expected_offset is None else expected_offset,
        None if next_batch is None else next_batch["baseOffset"],
        damage.message,
        damage.kind,
    )


def find_next_batch(
    file: DataFile, position: int, end: int, order: OffsetOrder, max_batch_bytes: int
) -> int | None:
    """Return the position of the first batch at or after `position`; None if there is none before `end`.

    The batch is whole, has a valid CRC, and an offset within `order`.

    At most SEARCH_BYTES and one batch are held in memory. To check a header that claims more bytes, all of
    them are read. After many wrong headers, which only crafted files have, large batches are ignored.
    """
    near, far, whole = Window(NEAR_BYTES), Window(SEARCH_BYTES), Window()
    window = near
    budget = _CHECK_FACTOR * (end - position)
    while position < end:
        view = window.at(file, position, end, _LARGEST_HEADER_BYTES)
        candidate = find_batch(
            view,
            base_position=position,
            min_offset=order.next_offset,
            max_offset=order.end_offset,
            max_batch_bytes=min(max_batch_bytes, end - position) if budget > 0 else 0,
        )
        if candidate is None:
            if position + len(view) == end:
                return None
            position += len(view) - _LARGEST_HEADER_BYTES + 1  # search a header again that the view cuts off
            window = far
            continue
        size_at = candidate - position + 8
        size_bytes = 12 + int.from_bytes(view[size_at : size_at + 4], "big")
        if window is near and candidate + size_bytes > position + len(view):
            # It may fit into the larger window, where checksums of overlapping batches are cheap.
            position, window = candidate, far
        elif valid_batch_at(file, candidate, end, whole, max_batch_bytes=max_batch_bytes) is None:
            budget -= max(size_bytes, SEARCH_BYTES)
            position = candidate + 1
        else:
            return candidate
    return None
