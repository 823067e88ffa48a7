"""A whole batch of any magic: its CRC and its records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.records.reference import legacy, record_batch
from native_log.records.reference.damage import DamagedBatchError
from native_log.records.reference.entry import wrap64

if TYPE_CHECKING:
    from native_log.records.reference.entry import BatchHeader
    from native_log.records.reference.record import Record


@dataclass(frozen=True, slots=True)
class Batch:
    header: BatchHeader
    records: list[Record]
    base_offset: int
    """Of a wrapper: the offset of the first message in it."""
    next_offset: int
    """The last offset of the batch + 1. Compaction may have removed the last record."""


def has_valid_crc(header: BatchHeader, batch: memoryview) -> bool:
    crc = record_batch.crc_of(batch) if header.magic == 2 else legacy.crc_of(batch)
    return header.crc == crc


def check_crc(header: BatchHeader, batch: memoryview) -> None:
    """Check the CRC of a batch of magic 2. Raise DamagedBatchError."""
    crc = record_batch.crc_of(batch)
    if crc != header.crc:
        raise DamagedBatchError(
            "crc",
            f"expected CRC-32C {header.crc:#010x} by the header, found {crc:#010x}",
        )


def read_batch(header: BatchHeader, batch: memoryview, check_crcs: bool, max_batch_bytes: int) -> Batch:
    """Return all records of a batch. Raise DamagedBatchError if one of them is damaged."""
    if header.magic == 2:
        if check_crcs:
            check_crc(header, batch)
        records = list(record_batch.read_records(header, batch, max_batch_bytes))
        return Batch(header, records, header.offset, wrap64(header.last_offset + 1))
    if header.is_wrapper:
        records = legacy.read_wrapper(header, batch, check_crcs, max_batch_bytes)
        last_offset = records[-1].offset if header.lacks_offset else header.offset
        return Batch(header, records, records[0].offset, wrap64(last_offset + 1))
    records = [legacy.read_message(header, batch, check_crcs)]
    return Batch(header, records, header.offset, wrap64(header.offset + 1))
