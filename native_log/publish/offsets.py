"""Give the batches of staged files their offsets: 12 bytes of each batch, which its CRC does not cover."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.publish.staging import STAGED_LEADER_EPOCH
from native_log.records import write_prefixes
from native_log.segment.scan import int32s, int64s
from native_log.storage.writing import open_to_overwrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.publish.staging import StagedFile

_PREFIX = struct.Struct(">qii")
"""The first fields of a batch: baseOffset, batchLength, partitionLeaderEpoch."""

FileBatches = tuple["StagedFile", pa.RecordBatch]
"""A staged file with one row (some columns of BATCH_SCHEMA) for each batch, which has its final offsets."""


def assign_offsets(files: Sequence[StagedFile], offset: int, leader_epoch: int) -> list[FileBatches]:
    """Write the final offsets, beginning at `offset`, and the leader epoch into the batches of files.

    The files are not flushed here but later, as segments. Each changed batch costs one more page to flush. A
    file that already has these offsets and this epoch, as the first of a new log, is not changed.
    """
    parts = []
    for file in files:
        headers = file.headers()
        shift = offset - headers.column("baseOffset")[0].as_py()
        for index, name in enumerate(headers.schema.names):
            if name in ("baseOffset", "lastOffset"):
                headers = headers.set_column(index, name, pc.add(headers.column(name), shift))
        if shift or leader_epoch != STAGED_LEADER_EPOCH:
            _write_prefixes(file.path, headers, leader_epoch)
        parts.append((file, headers))
        offset += file.records
    return parts


def zero_first_prefix(parts: Sequence[FileBatches]) -> None:
    """Overwrite the prefix of the first batch with zeros.

    A broker that recovers a log truncates it at such a batch. So a broker that is started after a crash
    keeps either none of the files or, after `write_first_prefix`, all of them.
    """
    if parts:
        _write_at(parts[0][0].path, 0, bytes(_PREFIX.size))


def write_first_prefix(path: str, position: int, parts: Sequence[FileBatches], leader_epoch: int) -> None:
    """Write the prefix of the first batch, which is now at `position` of the file `path`, and flush it."""
    headers = parts[0][1]
    size, offset = int32s(headers, "sizeInBytes")[0], int64s(headers, "baseOffset")[0]
    _write_at(path, position, _PREFIX.pack(offset, size - 12, leader_epoch), flush=True)


def _write_prefixes(path: str, headers: pa.RecordBatch, leader_epoch: int) -> None:
    with open_to_overwrite(path) as descriptor:
        write_prefixes(descriptor, headers, leader_epoch=leader_epoch)


def _write_at(path: str, position: int, data: bytes, *, flush: bool = False) -> None:
    with open_to_overwrite(path) as descriptor:
        os.pwrite(descriptor, data, position)
        if flush:
            os.fsync(descriptor)
