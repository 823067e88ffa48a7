"""Print a .log or .checkpoint file: batches, and records on request."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from native_log.cli.dump_log.control_records import format_control_record
from native_log.cli.dump_log.index_files import base_offset_of
from native_log.errors import CorruptRecordError
from native_log.records import MAX_BATCH_BYTES, DecodeOptions, decode
from native_log.records.java_utf8 import java_utf8
from native_log.records.reference.codec import decompress
from native_log.records.reference.entry import MIN_SIZE, PREFIX_BYTES, parse_header
from native_log.records.reference.legacy import crc_of, key_and_value, messages
from native_log.segment.chunks import HEADER_PREFIX_BYTES
from native_log.segment.damage import damage_of
from native_log.segment.scan import scan_file
from native_log.storage import DataFile, Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.cli.dump_log.dump import DumpOptions
    from native_log.records import Damage

Decoder = Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]]
"""Turn offset, key and value of a record into the texts of key and payload; None: print nothing."""

_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
_CHECKPOINT = re.compile(r"([0-9]+)-([0-9]+)")
_COLUMNS = ("offset", "timestamp", "sequence", "key", "value", "headers")
_DECODE_OPTIONS = DecodeOptions(control=True, check_crcs=False, max_batch_bytes=MAX_BATCH_BYTES)
_CRC = struct.Struct(">I")


def dump_log_file(path: str, options: DumpOptions) -> list[tuple[int, int]]:
    """Print the batches of a .log or .checkpoint file, and their records if the options require them.

    Returns:
        Pairs of offsets of consecutive records between which there is a gap.

    Raises:
        CorruptRecordError: the file is damaged. What precedes the damage has been printed.
    """
    is_deep = options.deep_iteration or options.print_data_log or options.decoder is not None
    gaps = []
    previous = None
    with DataFile(path) as file:
        click.echo(_title(Path(path)))
        end = file.size_bytes if options.max_bytes is None else min(file.size_bytes, options.max_bytes)
        for scanned in scan_file(file, 0, end, Window(), check_crcs=True, max_batch_bytes=MAX_BATCH_BYTES):
            for batch in scanned.batches.to_pylist():
                click.echo(format_batch(batch))
                if is_deep:
                    data = memoryview(file.read(batch["position"], batch["sizeInBytes"]))
                    for offset, line in _format_records(path, batch, data, options):
                        click.echo(line)
                        if previous is not None and offset != previous + 1:
                            gaps.append((previous, offset))
                        previous = offset
        if scanned.status in ("damaged", "zeros") and not _is_incomplete_batch(file, scanned.position, end):
            raise _corrupt_record_error(path, damage_of(scanned, end))
        if options.max_bytes is None and scanned.position < end:
            click.echo(f"Found {end - scanned.position} invalid bytes at the end of {Path(path).name}")
    return gaps


def _is_incomplete_batch(file: DataFile, position: int, end: int) -> bool:
    """Return whether kafka-dump-log treats what begins at `position` as a batch that continues after `end`.

    The tool decides this by the size field alone (Kafka: FileLogInputStream).
    """
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


def format_batch(batch: dict[str, Any]) -> str:
    """Format a row of BATCH_SCHEMA whose CRC has been checked."""
    if batch["magic"] >= 2:
        horizon = batch["deleteHorizonMs"]
        text = (
            f"baseOffset: {batch['baseOffset']} lastOffset: {batch['lastOffset']} "
            f"count: {batch['recordCount']} baseSequence: {batch['baseSequence']} "
            f"lastSequence: {batch['lastSequence']} producerId: {batch['producerId']} "
            f"producerEpoch: {batch['producerEpoch']} partitionLeaderEpoch: {batch['leaderEpoch']} "
            f"isTransactional: {_bool(batch['isTransactional'])} isControl: {_bool(batch['isControl'])} "
            f"deleteHorizonMs: {_optional_long(horizon)}"
        )
    else:
        text = f"offset: {batch['lastOffset']}"
    return (
        f"{text} position: {batch['position']} {_TYPES[batch['timestampType']]}: {batch['maxTimestamp']} "
        f"size: {batch['sizeInBytes']} magic: {batch['magic']} compresscodec: {batch['compression']} "
        f"crc: {batch['crc']} isvalid: {_bool(batch['isValid'])}"
    )


def _format_records(
    path: str, batch: dict[str, Any], data: memoryview, options: DumpOptions
) -> Iterator[tuple[int, str]]:
    """Yield the offset and the line of each record of a batch, even if its CRC is wrong."""
    decoded = decode(data, _COLUMNS, _DECODE_OPTIONS)
    if decoded.damage is not None:
        raise _corrupt_record_error(path, decoded.damage, batch["position"])
    rows = decoded.batch.set_column(1, "timestamp", decoded.batch.column("timestamp").cast(pa.int64()))
    legacy = _legacy_checksums(batch, data) if batch["magic"] < 2 else None
    label = _TYPES[batch["timestampType"]]
    decode_data = options.decoder or (_decode_strings if options.print_data_log else None)
    for number, row in enumerate(rows.to_pylist()):
        text = []
        if not options.skip_record_metadata:
            text.append(
                f"offset: {row['offset']} {label}: {row['timestamp'] // 1000} "
                f"keySize: {_size(row['key'])} valueSize: {_size(row['value'])}"
            )
            if legacy is not None:
                is_valid, crc = legacy[number]
                text.append(
                    f"isValid: {_bool(is_valid)} crc: {crc}}}"
                )  # kafka-dump-log prints this brace, too
            else:
                names = ",".join(header["key"] for header in row["headers"] or ())
                text.append(f"sequence: {row['sequence']} headerKeys: [{names}]")
            if batch["isControl"]:
                text.append(format_control_record(row["key"], row["value"]))
        if decode_data is not None and not batch["isControl"]:
            key, payload = decode_data(row["offset"], row["key"], row["value"])
            text += [f"key: {key}"] if key is not None else []
            text += [f"payload: {payload}"] if payload is not None else []
        yield row["offset"], f"| {' '.join(text)}" if text else ""


def _decode_strings(_: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    return None if key is None else java_utf8(key), None if value is None else java_utf8(value)


def _legacy_checksums(batch: dict[str, Any], data: memoryview) -> list[tuple[bool, int]]:
    """Return for each message of magic 0 or 1 whether its CRC-32 is correct, and the CRC-32.

    Messages in a wrapper have a CRC of their own.
    """
    if batch["compression"] == "none":
        return [(batch["isValid"], batch["crc"])]
    header = parse_header(data, 0, 0)
    content = decompress(header, memoryview(key_and_value(header, data)[1] or b""), MAX_BATCH_BYTES)
    stored = [(message, _CRC.unpack_from(message, 12)[0]) for message in messages(content)]
    return [(crc_of(message) == crc, crc) for message, crc in stored]


def _optional_long(value: int | None) -> str:
    """Format like Java's OptionalLong.toString."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def _corrupt_record_error(path: str, damage: Damage, position: int = 0) -> CorruptRecordError:
    return CorruptRecordError(
        damage.message, path=path, position=position + damage.position, offset=damage.offset
    )
