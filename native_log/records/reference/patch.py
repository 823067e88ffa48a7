"""The fields of batches that a leader assigns, set where the batches lie."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from native_log.records.encode import batch_positions, raise_no_batch
from native_log.records.reference.entry import V2_HEADER

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from typing_extensions import Buffer

_OFFSET, _EPOCH = struct.Struct(">q"), struct.Struct(">i")
_PREFIX = struct.Struct(">qii")
_UNCOUNTED = 12
"""Bytes of base offset and length, which the length does not count."""


def patch(
    data: Buffer,
    batches: pa.RecordBatch | pa.Array | Sequence[int],
    *,
    base_offset: int,
    leader_epoch: int,
    base_position: int = 0,
) -> None:
    """Give batches of magic 2 their offsets and their leader epoch, in place: neither is covered by a
    checksum, so that compressed batches are moved to a log's end without looking into them.

    Args:
        data: writable; the batches, or at least their headers at their places.
        batches: their rows of BATCH_SCHEMA, or their positions (int64).
        base_offset: added to the base offset that each batch has: with batches encoded from offset 0 on, that
            of the first record.
        leader_epoch: of all.
        base_position: position of the first byte of `data`.

    Raises:
        InvalidRecordError: at one of the positions there is no batch of magic 2, or offsets would not be from
            0 to 2^63 - 1. Nothing is changed then.
    """
    view = memoryview(data).cast("B")
    found = []
    for position in batch_positions(batches, base_position).to_pylist():
        if position < 0 or position + V2_HEADER.size > len(view) or view[position + 16] != 2:
            raise_no_batch(position + base_position, base_offset)
        offset = _OFFSET.unpack_from(view, position)[0] + base_offset
        if not 0 <= offset < 2**63:
            raise_no_batch(position + base_position, base_offset)
        found.append((position, offset))
    for position, offset in found:
        _OFFSET.pack_into(view, position, offset)
        _EPOCH.pack_into(view, position + 12, leader_epoch)


def write_prefixes(descriptor: int, batches: pa.RecordBatch, *, leader_epoch: int) -> None:
    """Write how batches of an open file begin: base offset, length, leader epoch. No checksum covers these,
    and no batch is read. An OSError leaves some of them written.

    Args:
        batches: their rows of BATCH_SCHEMA, of which position, sizeInBytes and baseOffset are looked at, with
            the offsets that they are to have.
        leader_epoch: of all.
    """
    columns = (batches.column(name).to_pylist() for name in ("position", "baseOffset", "sizeInBytes"))
    for position, base_offset, size_bytes in zip(*columns, strict=True):
        os.pwrite(descriptor, _PREFIX.pack(base_offset, size_bytes - _UNCOUNTED, leader_epoch), position)
