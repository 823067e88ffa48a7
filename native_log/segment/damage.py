"""Describe damaged bytes of a .log file, up to the next batch after them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, NoReturn

from native_log.errors import CorruptRecordError
from native_log.records import Damage, OffsetOrder, Scanned
from native_log.segment.files import LOG, MAX_OFFSET, file_name
from native_log.segment.scan import Batch, int64s, row, scan_file
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.records import SkippedDamage
    from native_log.segment.chunks import BatchCursor, Chunk
    from native_log.segment.search import BatchSearch, ValidBatch

PARTITION_UNCHANGED = "The partition is left as it was: take the file from another replica"
"""Advice of errors that are raised before a log is changed."""


class DamagedRange(NamedTuple):
    """A range of bytes that cannot be read, and the offsets that may be lost with it.

    A tuple, because each MiB of a damaged log can have thousands of them.

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
        cursor.file, cursor.read_position, cursor.end, Window(), max_batch_bytes=max_batch_bytes
    )
    return damage_of(last, cursor.end)


def first_damage(
    cursor: BatchCursor, damage: Damage, order: OffsetOrder, search: BatchSearch
) -> tuple[Damage, OffsetOrder]:
    """Return where damage really begins, and what is known of the offsets there.

    A reader skips batches by the sizes in their headers. If the size of the batch before `damage` is wrong,
    `damage` lies in the middle of a batch that may be intact. Then that batch before is the damaged one.

    Args:
        order: what is known of the offsets at `damage`.
    """
    before = cursor.read_order
    if before is None or damage.position <= cursor.read_position:
        return damage, order
    last, last_offsets = None, [before.next_offset - 1]
    for scanned in scan_file(
        cursor.file, cursor.read_position, damage.position, Window(), max_batch_bytes=search.max_batch_bytes
    ):
        if scanned.batches.num_rows:
            last_offsets = [last_offsets[-1], *int64s(scanned.batches, "lastOffset")]
            last = row(scanned.batches, scanned.batches.num_rows - 1)
    if last is None or search.is_readable(last["position"]):
        return damage, order
    return crc_damage(last, size_bytes=0), before.after(last_offsets[-2] + 1)


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


def skipped_ranges(path: str, skipped: Sequence[SkippedDamage]) -> list[DamagedRange]:
    """Return the damage in the file `path` after which a call of the kernel continued."""
    return [
        DamagedRange(path, position, end_position, offset, next_offset, reason, kind)
        for _, position, end_position, offset, next_offset, reason, kind in skipped
    ]


def damaged_range(
    search: BatchSearch, damage: Damage, order: OffsetOrder, expected_offset: int | None
) -> DamagedRange:
    """Return the range from the damage to the next batch, or to the end if there is none.

    The next batch is whole, has a valid CRC, and its offsets follow those before the damage. A batch with a
    valid CRC is damaged as a whole: if its records look like batches, these are not batches of the log.

    Args:
        search: the search of this pass over the file.
        damage: what stopped the pass.
        order: what is known about the offsets at the damage.
        expected_offset: the offset after the previous batch; None if no batch was read before the damage.
    """
    search.restart()
    following = next_batch(search, damage, order)
    return DamagedRange(
        search.file.path,
        damage.position,
        search.end if following is None else following.position,
        damage.offset if expected_offset is None else expected_offset,
        None if following is None else following.base_offset,
        damage.message + _overlap(search, damage, order),
        damage.kind,
    )


def _overlap(search: BatchSearch, damage: Damage, order: OffsetOrder) -> str:
    """Return what to add to the message if the batch is whole, but has offsets of the next segment."""
    if damage.kind != "order" or not search.has_valid_crc(damage.position):
        return ""
    last = search.last_offset(damage.position)
    if last is None or last < order.end_offset or order.end_offset == MAX_OFFSET:
        return ""
    return (
        f". {file_name(order.end_offset, LOG)} begins with offset {order.end_offset}: either the batch has a "
        "wrong offset, or the segments overlap, as in a copy that was made without deleting the files that a "
        "broker has replaced (aws s3 sync without --delete)"
    )


def next_batch(search: BatchSearch, damage: Damage, order: OffsetOrder) -> ValidBatch | None:
    """Return the first batch of the log after the damage; None if there is none."""
    if not damage.size_bytes:
        return search.find(damage.position + 1, order)
    # A valid CRC proves the size, so nothing within is a batch of the log. A search within would read batches
    # nested in each other once for each level.
    batch_end = damage.position + damage.size_bytes
    is_whole = damage.kind != "crc" and search.has_valid_crc(damage.position)
    following = search.batch_at(batch_end)
    if following is None or not order.next_offset <= following.base_offset < order.end_offset:
        return search.find(batch_end if is_whole else damage.position + 1, order)
    # If only the content is damaged, the next batch begins right after it. But a wrong size may lead to some
    # later batch. Then the offsets between belong to batches before it.
    if is_whole or search.last_offset(damage.position) == following.base_offset - 1:
        return following
    before = order._replace(end_offset=following.base_offset)
    return search.find(damage.position + 1, before, following.position) or following
