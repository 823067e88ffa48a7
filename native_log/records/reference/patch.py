"""Set the fields of batches that a leader assigns, in place."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from native_log.records.encoding import batch_positions, raise_no_batch
from native_log.records.reference.entry import V2_HEADER

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from typing_extensions import Buffer

_OFFSET, _EPOCH = struct.Struct(">q"), struct.Struct(">i")
_PREFIX = struct.Struct(">qii")
_UNCOUNTED = 12
"""Bytes of base offset and size, which the size field does not include."""


def patch(
    data: Buffer,
    batches: pa.RecordBatch | pa.Array | Sequence[int],
    *,
    base_offset: int,
    leader_epoch: int,
    base_position: int = 0,
) -> None:
    """Set the offsets and the leader epoch of batches of magic 2, in place.

    No CRC covers these fields, so that encoded batches can be appended to a log without decoding them.

    Args:
        data: a writable buffer with the batches, or at least with their headers at their positions.
        batches: rows of BATCH_SCHEMA, or positions (int64).
        base_offset: added to the base offset of each batch. If the batches were encoded from offset 0 on,
            this is the offset of the first record.
        leader_epoch: of all batches.
        base_position: position of the first byte of `data`.

    Raises:
        InvalidRecordError: there is no batch of magic 2 at one of the positions, or an offset would not be in
            [0, 2^63). Nothing is changed then.
    """
    view = memoryview(data).cast("B")
    patches = []
    for position in batch_positions(batches, base_position).to_pylist():
        if position < 0 or position + V2_HEADER.size > len(view) or view[position + 16] != 2:
            raise_no_batch(position + base_position, base_offset)
        offset = _OFFSET.unpack_from(view, position)[0] + base_offset
        if not 0 <= offset < 2**63:
            raise_no_batch(position + base_position, base_offset)
        patches.append((position, offset))
    for position, offset in patches:
        _OFFSET.pack_into(view, position, offset)
        _EPOCH.pack_into(view, position + 12, leader_epoch)


def write_prefixes(descriptor: int, batches: pa.RecordBatch, *, leader_epoch: int) -> None:
    """Write the base offset, the size and the leader epoch of batches in an open file.

    No CRC covers these fields, so that no batch is read.

    Args:
        descriptor: of a file that is open for writing.
        batches: the columns position, sizeInBytes and baseOffset of BATCH_SCHEMA, with the offsets to write.
        leader_epoch: of all batches.

    Raises:
        OSError: some of the batches may have been written.
    """
    columns = (batches.column(name).to_pylist() for name in ("position", "baseOffset", "sizeInBytes"))
    for position, base_offset, size_bytes in zip(*columns, strict=True):
        os.pwrite(descriptor, _PREFIX.pack(base_offset, size_bytes - _UNCOUNTED, leader_epoch), position)
