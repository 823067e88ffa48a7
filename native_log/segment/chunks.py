"""Read the batches of a file chunk by chunk: the one loop that scanning, decoding and rewriting share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from native_log.records import Checked, Damage, Decoded, Divided, MapProgress, Rewritten, Scanned

if TYPE_CHECKING:
    from native_log.records import OffsetOrder
    from native_log.segment.search import BatchSearch
    from native_log.storage import DataFile, Window

HEADER_PREFIX_BYTES = 17
"""Size of a batch's first fields, up to and including the magic, which says how to read the others."""

Chunk = TypeVar("Chunk", Checked, Decoded, Divided, MapProgress, Rewritten, Scanned)
"""What one call that reads batches returns."""


class BatchCursor:
    """The position of a reader between the batches of a file.

        cursor = BatchCursor(file, start, end)
        while cursor.has_more:
            view = cursor.view(window)
            chunk = cursor.advance(decode(view, ..., base_position=cursor.position), len(view))

    Attributes:
        file: the .log file.
        position: the first byte of the next chunk.
        end: where to stop reading, exclusive.
        needed_bytes: the least size of the next chunk: that of a batch which did not fit into the last one.
        order: what is known of the offsets at `position`; None: batches may come in any order.
        has_more: whether another chunk can be read: False at `end`, and at bytes that are not a whole batch
            (see segment.damage.damage_in).
        read_position: where the last call began, or went on after the last damage that it skipped.
        read_order: what was known of the offsets at `read_position`.
        search: what finds valid batches after damage; None: the reader stops there, or reads only headers.
        check_crcs: whether the reader treats batches with a wrong CRC as damaged.
    """

    __slots__ = (
        "check_crcs",
        "end",
        "file",
        "has_more",
        "needed_bytes",
        "order",
        "position",
        "read_order",
        "read_position",
        "search",
    )

    def __init__(
        self,
        file: DataFile,
        position: int,
        end: int,
        order: OffsetOrder | None = None,
        *,
        search: BatchSearch | None = None,
        check_crcs: bool = True,
    ) -> None:
        self.file = file
        self.end = end
        self.order = order
        self.search = search
        self.check_crcs = check_crcs
        self.skip_to(position)

    def skip_to(self, position: int) -> None:
        """Continue at `position`, where a batch begins."""
        self.position = self.read_position = position
        self.read_order = self.order
        self.needed_bytes = 1
        self.has_more = position < self.end

    def stop(self, chunk_bytes: int) -> int:
        """Return where a chunk of `chunk_bytes`, or of one batch that is larger, ends.

        After damage, chunks are smaller.
        """
        if self.search is not None and self.search.chunk_bytes is not None:
            chunk_bytes = min(chunk_bytes, self.search.chunk_bytes)
        chunk_bytes = min(chunk_bytes, self.file.step_from(self.position))
        return min(self.end, self.position + max(chunk_bytes, self.needed_bytes))

    def view(self, window: Window) -> memoryview:
        """Return the next chunk, of the size that `window` has. It is valid until `window` is used again."""
        return window.at(self.file, self.position, self.stop(self.end), self.needed_bytes)

    def advance(self, chunk: Chunk, size_bytes: int) -> Chunk:
        """Continue after the batches of `chunk`, which was read from `size_bytes` bytes at `position`.

        Returns `chunk`, with the status that it has in view of the whole file. A few zeros at its end may be
        the first bytes of an offset ("partial"); many are damage if not all bytes up to `end` are zero.
        """
        stop = self.position + size_bytes
        if chunk.status == "zeros":
            if stop < self.end and stop - chunk.position < HEADER_PREFIX_BYTES:
                chunk = replace(chunk, status="partial", needed_bytes=HEADER_PREFIX_BYTES)
            elif not self.file.is_zero(chunk.position, self.end):
                chunk = replace(chunk, status="damaged", damage=_zero_size(chunk.position))
        elif chunk.status == "partial" and (damage := self._unproven(chunk)) is not None:
            chunk = replace(chunk, status="damaged", damage=damage)
        if self.search is not None and chunk.position > self.position:
            self.search.advanced()
        if chunk.position > self.position:
            self.read_position, self.read_order = self.position, self.order
        if isinstance(chunk, Checked | Decoded) and chunk.skipped:
            _, _, self.read_position, _, next_offset, *_ = chunk.skipped[-1]
            self.read_order = self.order and self.order.after(next_offset)
        self.position = chunk.position
        self.needed_bytes = max(1, chunk.needed_bytes)
        if self.order is not None:
            self.order = self.order.after(chunk.next_offset)
        self.has_more = chunk.position < self.end and (
            chunk.status in ("end", "limit")
            or (chunk.status == "partial" and chunk.position + chunk.needed_bytes <= self.end)
        )
        return chunk

    def _unproven(self, chunk: Chunk) -> Damage | None:
        """Return why the batch that did not fit into the chunk must not be read; None if it may be."""
        search = self.search
        if search is None or search.chunk_bytes is None or chunk.needed_bytes <= search.chunk_bytes:
            return None
        return search.reject(chunk.position, check_crcs=self.check_crcs)


def _zero_size(position: int) -> Damage:
    message = "expected a size field of at least 14, found 0 before bytes that are not all zero"
    return Damage("size", position, 0, None, message)
