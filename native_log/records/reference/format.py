"""Batches and records as kafka-dump-log prints them (Kafka: DumpLogSegments)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.records.java_utf8 import java_utf8
from native_log.records.reference.batch import has_valid_crc
from native_log.records.reference.damage import DamagedBatchError, Stop
from native_log.records.reference.entry import BatchHeader, header_at, wrap64
from native_log.records.reference.record_batch import read_records
from native_log.records.reference.scan import row
from native_log.records.results import Formatted
from native_log.records.text import (
    batch_line,
    contents_text,
    find_gaps,
    metadata_text,
    record_line,
    sequence_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from native_log.records.options import TextOptions
    from native_log.records.reference.record import Record


def format_batches(buffer: Buffer, options: TextOptions, *, base_position: int = 0) -> Formatted:
    """Print the batches in `buffer`, up to the first batch of magic 0 or 1 or control batch.

    A wrong CRC does not end this. A damaged batch is printed up to the damage.

    Args:
        buffer: bytes of a .log file, from the beginning of a batch.
        base_position: position of the buffer's first byte in the file.
    """
    data = memoryview(buffer).cast("B")
    lines: list[str] = []
    offsets: list[int] = []
    index = 0
    next_offset = None
    while True:
        try:
            header = header_at(data, index, base_position, options.max_batch_bytes)
            if header.magic < 2 or header.is_control:
                raise Stop("limit")
            if header.size_bytes > len(data) - index:
                raise Stop("partial", header.size_bytes)
            batch = data[index : index + header.size_bytes]
            lines.append(batch_line(row(header, batch, has_valid_crc(header, batch))))
            for record in _read_records(header, batch, options):
                offsets.append(record.offset)
                lines.append(_record_line(record, options))
        except Stop as stop:
            text = "".join(f"{line}\n" for line in lines).encode()
            return Formatted(
                memoryview(text),
                offsets[0] if offsets else None,
                offsets[-1] if offsets else None,
                find_gaps(offsets),
                stop.status,
                base_position + index,
                next_offset,
                stop.needed_bytes,
                stop.damage,
            )
        index += header.size_bytes
        next_offset = wrap64(header.last_offset + 1)


def _read_records(header: BatchHeader, batch: memoryview, options: TextOptions) -> Iterator[Record]:
    if not options.records or header.record_count == 0:
        return
    try:
        yield from read_records(header, batch, options.max_batch_bytes)
    except DamagedBatchError as error:
        raise Stop.damaged(error, header.position, header.size_bytes, header.offset) from None


def _record_line(record: Record, options: TextOptions) -> str:
    parts = []
    if options.record_metadata:
        parts.append(
            metadata_text(record.offset, record.timestamp_type, record.timestamp, record.key, record.value)
        )
        parts.append(sequence_text(record.sequence, (name for name, _ in record.headers)))
    if options.contents:
        parts += contents_text(
            *(None if field is None else java_utf8(field) for field in (record.key, record.value))
        )
    return record_line(parts)
