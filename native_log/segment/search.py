"""Find valid batches after damage, in time proportional to the bytes of the file."""

from __future__ import annotations

import struct
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from native_log.records import Damage, DamageSkipper, DecodeOptions, decode, find_batch
from native_log.records.range_checksums import RangeChecksums
from native_log.storage import Window

if TYPE_CHECKING:
    from native_log.records import OffsetOrder
    from native_log.storage import DataFile

SEARCH_BYTES = 4 << 20
"""How much of a file a search for the next batch holds in memory."""
NEAR_BYTES = 64 << 10
"""How much a search reads first: in a log with much damage the next batch is usually near."""
FIRST_CHUNK_BYTES = 16 << 10
"""How much a reader reads first after damage."""
_MOST_CHUNK_BYTES = 16 << 20
_UNCHECKED_FACTOR = 8
"""Batches with a wrong CRC are read nevertheless, where a caller asks for it, until they have taken this many
times the bytes of the file."""
_CODEC_MASK = 0x07
_HEADER = struct.Struct(">qi4xb")
"""Offset, size and magic."""
_CRCS = {
    0: (struct.Struct(">12xIxB"), 16, 26),
    1: (struct.Struct(">12xIxB"), 16, 34),
    2: (struct.Struct(">17xIxB"), 21, 61),
}
"""By magic: CRC and attributes, the first byte that the CRC covers, the least size of a batch."""
_LARGEST_HEADER_BYTES = 61


class ValidBatch(NamedTuple):
    """A whole batch with a valid CRC. `base_offset` is its first offset."""

    position: int
    size_bytes: int
    base_offset: int


class _Claim(NamedTuple):
    """What a header says of its batch."""

    position: int
    size_bytes: int
    offset: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int

    @property
    def is_wrapper(self) -> bool:
        return self.magic < 2 and bool(self.attributes & _CODEC_MASK)


class BatchSearch:
    """Tells valid batches from claims, during one pass over a file.

    Any bytes may look like the header of a batch, and only a CRC proves that they are one. To read the bytes
    of each claim would take as long as claims are many and large. So CRCs are computed from checksums of the
    file's first bytes (see RangeChecksums), and readers ask here before they read a large batch after damage.

    Attributes:
        file: the .log file.
        end: where the batches end, exclusive.
        max_batch_bytes: a batch that claims more bytes is not valid.
        chunk_bytes: how much a reader may read at once; None: there was no damage yet. It grows while
            batches are valid, so that bytes are not read again after each of many damaged ranges.
    """

    def __init__(self, file: DataFile, end: int, max_batch_bytes: int) -> None:
        self.file = file
        self.end = end
        self.max_batch_bytes = max_batch_bytes
        self.chunk_bytes: int | None = None
        self._near, self._far = Window(NEAR_BYTES), Window(SEARCH_BYTES)
        self._unchecked_bytes = _UNCHECKED_FACTOR * end

    def find(self, position: int, order: OffsetOrder, end: int | None = None) -> ValidBatch | None:
        """Return the first batch at or after `position`; None if there is none before `end`, or the end.

        The batch is whole, has a valid CRC, and an offset within `order`. At most SEARCH_BYTES, or one valid
        batch, are held in memory.
        """
        end = self.end if end is None else end
        window = self._near
        while position < end:
            view = window.at(self.file, position, end, _LARGEST_HEADER_BYTES)
            candidate = find_batch(
                view,
                base_position=position,
                min_offset=order.next_offset,
                max_offset=order.end_offset,
                max_batch_bytes=min(self.max_batch_bytes, end - position),
            )
            if candidate is None:
                if position + len(view) >= end:
                    return None
                # Search a header again that the view cuts off.
                position += len(view) - _LARGEST_HEADER_BYTES + 1
                window = self._far
                continue
            claim = self._claim_at(candidate)
            position, window = candidate + 1, self._near
            if claim is not None and candidate + claim.size_bytes <= end and self._has_valid_crc(claim):
                base_offset = self._base_offset(claim)
                if base_offset is not None:
                    return ValidBatch(candidate, claim.size_bytes, base_offset)
                # Nothing within a batch with a valid CRC is a batch of the log, even if it cannot be read.
                position = candidate + claim.size_bytes
        return None

    def batch_at(self, position: int) -> ValidBatch | None:
        """Return the batch at `position`; None unless it is whole and has a valid CRC."""
        claim = self._claim_at(position)
        if claim is None or not self._has_valid_crc(claim):
            return None
        base_offset = self._base_offset(claim)
        return None if base_offset is None else ValidBatch(position, claim.size_bytes, base_offset)

    def has_valid_crc(self, position: int) -> bool:
        """Return whether a whole batch with a valid CRC begins at `position`. Its records may be damaged."""
        claim = self._claim_at(position)
        return claim is not None and self._has_valid_crc(claim)

    def is_readable(self, position: int) -> bool:
        """Return whether the batch at `position` is whole, and valid for a reader that checks CRCs."""
        claim = self._claim_at(position)
        if claim is None or self._has_valid_crc(claim):
            return claim is not None
        if not claim.is_wrapper:
            return False
        # Readers ignore the CRC of a wrapper.
        options = DecodeOptions(max_batch_bytes=self.max_batch_bytes)
        return decode(self.file.read(position, claim.size_bytes), [], options).status == "end"

    def last_offset(self, position: int) -> int | None:
        """Return the last offset that the header at `position` claims; None if it is not a header."""
        claim = self._claim_at(position)
        return None if claim is None else claim.offset + claim.last_offset_delta

    def reject(self, position: int, *, check_crcs: bool) -> Damage | None:
        """Return why the large batch at `position` must not be read; None if it may be.

        Args:
            check_crcs: whether batches with a wrong CRC are damaged. If not, and for compressed messages of
                magic 0 or 1, whose own CRC readers ignore, only so many of them may be read.
        """
        claim = self._claim_at(position)
        if claim is None or self._has_valid_crc(claim):
            return None
        reason = (
            f"expected the checksum {claim.crc:#010x} by the header, found {self._crc_of(claim):#010x}; "
            "the batch changed after it was written"
        )
        if not check_crcs or claim.is_wrapper:
            self._unchecked_bytes -= claim.size_bytes
            if self._unchecked_bytes >= 0:
                return None
            reason += (
                ". Its records were not examined: batches with wrong checksums have already taken "
                f"{_UNCHECKED_FACTOR} times the time that the file should"
            )
        return Damage("crc", position, claim.size_bytes, claim.offset, reason)

    @cached_property
    def skipper(self) -> DamageSkipper:
        """Lets the kernel continue after damage within a call, by the rules of `segment.damage`."""
        return DamageSkipper(self.end, self.file.has_all_bytes)

    def restart(self) -> None:
        """Let the next chunk be small, because a reader found damage."""
        self.chunk_bytes = FIRST_CHUNK_BYTES

    def advanced(self) -> None:
        """Let the next chunk be larger, because the last one had only valid batches."""
        if self.chunk_bytes is not None:
            self.chunk_bytes = min(2 * self.chunk_bytes, _MOST_CHUNK_BYTES)

    def _claim_at(self, position: int) -> _Claim | None:
        """Return what the header at `position` says; None if no whole batch can begin there."""
        if not 0 <= position <= self.end - _CRCS[0][2]:
            return None
        header = self.file.read(position, min(_LARGEST_HEADER_BYTES, self.end - position))
        offset, size, magic = _HEADER.unpack_from(header)
        size_bytes = size + 12
        if magic not in _CRCS or size_bytes > min(self.max_batch_bytes, self.end - position):
            return None
        fields, _, least_bytes = _CRCS[magic]
        if size_bytes < least_bytes:
            return None
        crc, attributes = fields.unpack_from(header)
        delta = int.from_bytes(header[23:27], "big", signed=True) if magic == 2 else 0
        return _Claim(position, size_bytes, offset, magic, crc, attributes, delta)

    def _has_valid_crc(self, claim: _Claim) -> bool:
        return self._crc_of(claim) == claim.crc

    def _crc_of(self, claim: _Claim) -> int:
        checksums = self._crc32c if claim.magic == 2 else self._crc32
        return checksums.of(claim.position + _CRCS[claim.magic][1], claim.position + claim.size_bytes)

    @cached_property
    def _crc32c(self) -> RangeChecksums:
        return RangeChecksums.crc32c(self.file.read)

    @cached_property
    def _crc32(self) -> RangeChecksums:
        return RangeChecksums.crc32(self.file.read)

    def _base_offset(self, claim: _Claim) -> int | None:
        """Return the first offset of the batch. That of a compressed message only its records have."""
        if not claim.is_wrapper:
            return claim.offset
        options = DecodeOptions(check_crcs=False, max_batch_bytes=self.max_batch_bytes)
        inner = decode(self.file.read(claim.position, claim.size_bytes), ["batchOffset"], options).batch
        return inner.column(0)[0].as_py() if inner.num_rows else None
