"""Format batches of magic 0 and 1, control batches, and records with a decoder.

The reference implementation is imported where it is needed, because that takes as long as to print half a
million records.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log.cli.dump_log.control_records import format_control_record
from native_log.records import MAX_BATCH_BYTES, DecodeOptions, Formatted, decode, scan
from native_log.records.java_utf8 import java_utf8
from native_log.records.text import (
    batch_line,
    bool_text,
    contents_text,
    find_gaps,
    metadata_text,
    record_line,
    sequence_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.cli.dump_log.decoders import Decoder
    from native_log.records import TextOptions
    from native_log.records.reference.record import Record

_COLUMNS = ("offset", "timestamp", "timestampType", "sequence", "key", "value", "headers")
_DECODE_OPTIONS = DecodeOptions(control=True, check_crcs=False, max_batch_bytes=MAX_BATCH_BYTES)
_CRC = struct.Struct(">I")


class BatchFormatter:
    """Formats batches of any magic. Threads may share it."""

    def __init__(self, options: TextOptions, decoder: Decoder | None) -> None:
        self._options = options
        self._decoder = decoder

    def format(self, data: memoryview, position: int) -> Iterator[Formatted]:
        """Yield the text of each of the whole batches in `data`, up to the first damage.

        Args:
            data: bytes of a .log file.
            position: the position of these bytes in the file.
        """
        scanned = scan(data, base_position=position, check_crcs=True, max_batch_bytes=MAX_BATCH_BYTES)
        for batch in scanned.batches.to_pylist():
            at = batch["position"] - position
            lines, offsets, damage = [batch_line(batch)], [], None
            if self._options.records:
                body = data[at : at + batch["sizeInBytes"]]
                decoded = decode(body, _COLUMNS, _DECODE_OPTIONS, base_position=batch["position"])
                damage = decoded.damage
                records = decoded.batch if damage is None else _records_before_damage(body)
                offsets = records.column("offset").to_pylist()
                lines += self._record_lines(batch, body, records)
            yield Formatted(
                memoryview("".join(f"{line}\n" for line in lines).encode()),
                offsets[0] if offsets else None,
                offsets[-1] if offsets else None,
                find_gaps(offsets),
                "end" if damage is None else "damaged",
                batch["position"] + batch["sizeInBytes"],
                None,
                0,
                damage,
            )
            if damage is not None:
                return

    def _record_lines(
        self, batch: dict[str, Any], data: memoryview, records: pa.RecordBatch
    ) -> Iterator[str]:
        """Yield the line of each record of a batch, even if its CRC is wrong."""
        if not records.num_rows:
            return
        legacy = _legacy_checksums(batch, data) if batch["magic"] < 2 else None
        rows = records.set_column(1, "timestamp", records.column("timestamp").cast(pa.int64())).to_pylist()
        for number, row in enumerate(rows):
            parts = []
            if self._options.record_metadata:
                timestamp_ms = row["timestamp"] // 1000
                fields = (row["offset"], row["timestampType"], timestamp_ms, row["key"], row["value"])
                parts.append(metadata_text(*fields))
                if legacy is not None:
                    is_valid, crc = legacy[number]
                    # kafka-dump-log prints this brace, too.
                    parts.append(f"isValid: {bool_text(is_valid)} crc: {crc}}}")
                else:
                    names = (header["key"] for header in row["headers"] or ())
                    parts.append(sequence_text(row["sequence"], names))
                if batch["isControl"]:
                    parts.append(format_control_record(row["key"], row["value"]))
            if not batch["isControl"]:
                parts += contents_text(*self._decode(row["offset"], row["key"], row["value"]))
            yield record_line(parts)

    def _decode(self, offset: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
        if self._decoder is not None:
            return self._decoder(offset, key, value)
        if not self._options.contents:
            return None, None
        return None if key is None else java_utf8(key), None if value is None else java_utf8(value)


def _records_before_damage(data: memoryview) -> pa.RecordBatch:
    """Return the records of a damaged batch before the damage.

    There are none for magic 0 and 1, because kafka-dump-log reads all messages of a wrapper before it prints
    the first.
    """
    from native_log.records.reference.batch import Batch
    from native_log.records.reference.columns import RecordColumns
    from native_log.records.reference.damage import DamagedBatchError
    from native_log.records.reference.entry import parse_header
    from native_log.records.reference.record_batch import read_records

    header = parse_header(data, 0, 0)
    records: list[Record] = []
    if header.magic == 2:
        with suppress(DamagedBatchError):
            records.extend(read_records(header, data, MAX_BATCH_BYTES))  # keeps those read before the error
    columns = RecordColumns(_COLUMNS, {})
    columns.add(Batch(header, records, header.offset, header.last_offset + 1), records)
    return columns.finish()


def _legacy_checksums(batch: dict[str, Any], data: memoryview) -> list[tuple[bool, int]]:
    """Return for each message of magic 0 or 1 whether its CRC-32 is correct, and the CRC-32.

    Messages in a wrapper have a CRC of their own.
    """
    if batch["compression"] == "none":
        return [(batch["isValid"], batch["crc"])]
    from native_log.records.reference.codec import decompress
    from native_log.records.reference.entry import parse_header
    from native_log.records.reference.legacy import crc_of, key_and_value, messages

    header = parse_header(data, 0, 0)
    content = decompress(header, memoryview(key_and_value(header, data)[1] or b""), MAX_BATCH_BYTES)
    stored = [(message, _CRC.unpack_from(message, 12)[0]) for message in messages(content)]
    return [(crc_of(message) == crc, crc) for message, crc in stored]
