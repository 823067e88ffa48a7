"""Print a .log or .checkpoint file: batches, and records on request.

Threads format ranges of whole batches; their texts are written in the order of the file. Batches of magic 2
are formatted by `native_log.records`, control batches, older ones and decoded records here. The reference
implementation is imported where it is needed, because that takes as long as to print half a million records.
"""

from __future__ import annotations

import re
import struct
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from native_log.cli.dump_log.control_records import format_control_record
from native_log.cli.dump_log.index_files import base_offset_of
from native_log.errors import CorruptRecordError
from native_log.prefetch import map_ahead
from native_log.records import (
    MAX_BATCH_BYTES,
    DecodeOptions,
    Formatted,
    TextOptions,
    decode,
    format_batches,
    scan,
)
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
from native_log.segment.chunks import HEADER_PREFIX_BYTES
from native_log.segment.damage import damage_of
from native_log.segment.scan import int64s, scan_file
from native_log.storage import DataFile, Window
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.cli.dump_log.dump import DumpOptions
    from native_log.records import Damage, Scanned

Decoder = Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]]
"""Turn offset, key and value of a record into the texts of key and payload; None: print nothing."""

_CHECKPOINT = re.compile(r"([0-9]+)-([0-9]+)")
_COLUMNS = ("offset", "timestamp", "timestampType", "sequence", "key", "value", "headers")
_DECODE_OPTIONS = DecodeOptions(control=True, check_crcs=False, max_batch_bytes=MAX_BATCH_BYTES)
_CRC = struct.Struct(">I")
_RANGE_BYTES = 512 << 10
"""How much of a file a thread formats at a time: a range and its text stay in the CPU cache."""


def dump_log_file(path: str, options: DumpOptions) -> list[tuple[int, int]]:
    """Print the batches of a .log or .checkpoint file, and their records if the options require them.

    Returns:
        Pairs of offsets of consecutive records between which there is a gap.

    Raises:
        CorruptRecordError: the file is damaged. What precedes the damage has been printed.
    """
    gaps: list[tuple[int, int]] = []
    previous = None
    with DataFile(path) as file:
        click.echo(_title(Path(path)))
        output = sys.stdout.buffer
        end = file.size_bytes if options.max_bytes is None else min(file.size_bytes, options.max_bytes)
        ranges = _WholeBatches(file, end)
        formatted = map_ahead(_Formatter(file, options).format, ranges, available_cores())
        for part in chain.from_iterable(formatted):
            output.write(part.text)
            if part.first_offset is not None:
                if previous is not None and part.first_offset != previous + 1:
                    gaps.append((previous, part.first_offset))
                gaps += part.gaps
                previous = part.last_offset
            if part.damage is not None:
                output.flush()
                raise _corrupt_record_error(path, part.damage)
        output.flush()
        scanned = ranges.last
        if scanned.status in ("damaged", "zeros") and not _is_incomplete_batch(file, scanned.position, end):
            raise _corrupt_record_error(path, damage_of(scanned, end))
        if options.max_bytes is None and scanned.position < end:
            click.echo(f"Found {end - scanned.position} invalid bytes at the end of {Path(path).name}")
    return gaps


class _WholeBatches:
    """The byte ranges of a file that threads format: start and end (exclusive), with whole batches each.

    Attributes:
        last: after the iteration, why the batches end.
    """

    last: Scanned

    def __init__(self, file: DataFile, end: int) -> None:
        self._file = file
        self._end = end

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for scanned in scan_file(self._file, 0, self._end, Window(), max_batch_bytes=MAX_BATCH_BYTES):
            self.last = scanned
            yield from divide(int64s(scanned.batches, "position"), scanned.position, _RANGE_BYTES)


def divide(positions: memoryview, end: int, range_bytes: int) -> Iterator[tuple[int, int]]:
    """Divide consecutive batches into ranges of up to `range_bytes`, or of one batch that is larger.

    Args:
        positions: where each batch begins.
        end: where the last one ends, exclusive.
    """
    first = 0
    while first < len(positions):
        start = positions[first]
        if end - start <= range_bytes:
            first = len(positions)
        else:
            first = max(bisect_right(positions, start + range_bytes, first) - 1, first + 1)
        yield start, positions[first] if first < len(positions) else end


class _ThreadWindow(threading.local):
    """A window of each thread."""

    def __init__(self) -> None:
        self.window = Window()


class _Formatter:
    """Formats ranges of a file. Threads may share it."""

    def __init__(self, file: DataFile, options: DumpOptions) -> None:
        self._file = file
        self._decoder = options.decoder
        self._of_thread = _ThreadWindow()
        self._options = TextOptions(
            records=options.deep_iteration or options.print_data_log or options.decoder is not None,
            record_metadata=not options.skip_record_metadata,
            contents=options.print_data_log,
            max_batch_bytes=MAX_BATCH_BYTES,
        )

    def format(self, range_: tuple[int, int]) -> list[Formatted]:
        """Return the texts of a range of whole batches, up to the first damaged batch."""
        start, end = range_
        data = self._of_thread.window.at(self._file, start, end, end - start)
        if self._decoder is not None:
            return list(self._format_all(data, start))
        parts, position = [], start
        while position < end:
            part = format_batches(data[position - start :], self._options, base_position=position)
            if part.status == "limit":
                batch = _first_batch(data[part.position - start :])
                parts += [part, *self._format_all(batch, part.position)]
                position = part.position + len(batch)
            else:
                parts.append(part)
                position = end
            if parts[-1].damage is not None:
                break
        return parts

    def _format_all(self, data: memoryview, position: int) -> Iterator[Formatted]:
        """Yield the text of each batch. Decode records with the decoder, if there is one."""
        scanned = scan(data, base_position=position, check_crcs=True, max_batch_bytes=MAX_BATCH_BYTES)
        for batch in scanned.batches.to_pylist():
            at = batch["position"] - position
            lines, offsets, damage = [batch_line(batch)], [], None
            if self._options.records:
                body = data[at : at + batch["sizeInBytes"]]
                decoded = decode(body, _COLUMNS, _DECODE_OPTIONS, base_position=batch["position"])
                damage = decoded.damage
                if damage is None:
                    offsets = decoded.batch.column("offset").to_pylist()
                    lines += self._record_lines(batch, body, decoded.batch)
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


def _first_batch(data: memoryview) -> memoryview:
    """Return the batch with which `data` begins."""
    return data[: 12 + int.from_bytes(data[8:12], "big")]


def _is_incomplete_batch(file: DataFile, position: int, end: int) -> bool:
    """Return whether kafka-dump-log treats what begins at `position` as a batch that continues after `end`.

    The tool decides this by the size field alone (Kafka: FileLogInputStream).
    """
    from native_log.records.reference.entry import MIN_SIZE, PREFIX_BYTES

    left = end - position
    if left <= HEADER_PREFIX_BYTES:
        return True
    size = int.from_bytes(file.read(position + 8, 4), "big", signed=True)
    return size >= MIN_SIZE and PREFIX_BYTES + size > left


def _title(path: Path) -> str:
    if path.suffix == ".log":
        return f"Log starting offset: {base_offset_of(path)}"
    match = _CHECKPOINT.match(path.name)
    return (
        f"Snapshot end offset: {int(match[1])}, epoch: {int(match[2])}"
        if match
        else "KRaft bootstrap snapshot"
    )


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


def _corrupt_record_error(path: str, damage: Damage) -> CorruptRecordError:
    return CorruptRecordError(damage.message, path=path, position=damage.position, offset=damage.offset)
