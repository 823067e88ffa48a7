"""Offsets for the batches of staged files: 12 bytes of each, which its checksum does not cover."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.publish.staging import STAGED_EPOCH
from native_log.records import write_prefixes
from native_log.segment.scan import int32s, int64s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.publish.staging import StagedFile

_PREFIX = struct.Struct(">qii")
"""baseOffset, batchLength, partitionLeaderEpoch: how a batch begins."""

Part = tuple["StagedFile", pa.RecordBatch]
"""A file, and a row of BATCH_SCHEMA (some columns) for each of its batches, with their final offsets."""


def assign_offsets(files: Sequence[StagedFile], offset: int, leader_epoch: int) -> list[Part]:
    """Write offsets from `offset` on, and the leader epoch, into the files. They are flushed as parts of
    segments.

    Each batch makes a page to be written to the disk once more; the first file of a new log needs none.
    """
    parts = []
    for file in files:
        headers = file.headers()
        shift = offset - headers.column("baseOffset")[0].as_py()
        for index, name in enumerate(headers.schema.names):
            if name in ("baseOffset", "lastOffset"):
                headers = headers.set_column(index, name, pc.add(headers.column(name), shift))
        if shift or leader_epoch != STAGED_EPOCH:
            _write_prefixes(file.path, headers, leader_epoch)
        parts.append((file, headers))
        offset += file.records
    return parts


def seal(parts: Sequence[Part]) -> None:
    """Let the first batch begin with zeros.

    A broker that recovers a log ends it at such a batch, and drops what comes behind: so even one that is
    started after a crash finds nothing of these files, or all.
    """
    if parts:
        _write_at(parts[0][0].path, 0, bytes(_PREFIX.size))


def break_seal(path: str, position: int, parts: Sequence[Part], leader_epoch: int) -> None:
    """Complete the first batch, which lies in the file `path` at `position` now."""
    headers = parts[0][1]
    size, offset = int32s(headers, "sizeInBytes")[0], int64s(headers, "baseOffset")[0]
    _write_at(path, position, _PREFIX.pack(offset, size - 12, leader_epoch), flush=True)


def _write_prefixes(path: str, headers: pa.RecordBatch, leader_epoch: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        write_prefixes(descriptor, headers, leader_epoch=leader_epoch)
    finally:
        os.close(descriptor)


def _write_at(path: str, position: int, data: bytes, *, flush: bool = False) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, data, position)
        if flush:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
