"""`kafkalog dump-log`: the batches and records of a .log, line by line as kafka-dump-log 4.1 prints them
(Kafka: DumpLogSegments)."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from native_log.cli.control_records import control_text
from native_log.cli.dump_index import (
    IndexFindings,
    base_offset_of,
    dump_index,
    dump_snapshot,
    dump_time_index,
    dump_transactions,
)
from native_log.errors import CorruptRecordError, NotALogDirError
from native_log.messages.cluster_metadata import decode_metadata_record
from native_log.messages.groups import decode_group_record
from native_log.messages.remote_log import decode_remote_log_record
from native_log.messages.share_groups import decode_share_record
from native_log.messages.transaction_log import decode_transaction_record
from native_log.records import MAX_BATCH_BYTES, DecodeOptions, decode
from native_log.records.java_utf8 import java_utf8
from native_log.records.reference.codec import decompress
from native_log.records.reference.entry import MIN_SIZE, PREFIX_BYTES, parse_header
from native_log.records.reference.legacy import crc_of, key_and_value, messages
from native_log.segment.chunks import HEADER_PREFIX_BYTES
from native_log.segment.damage import damage_of
from native_log.segment.files import LOG
from native_log.segment.scan import scan_file
from native_log.storage import DataFile, Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from native_log.records import Damage

Decoder = Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]]
"""(offset, key, value) -> what is printed as key and as payload; None: nothing."""

_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
_CHECKPOINT = re.compile(r"([0-9]+)-([0-9]+)")
_COLUMNS = ("offset", "timestamp", "sequence", "key", "value", "headers")
_DECODE_OPTIONS = DecodeOptions(control=True, check_crcs=False, max_batch_bytes=MAX_BATCH_BYTES)
_CRC = struct.Struct(">I")


DECODERS: dict[str, Decoder] = {
    "offsets": decode_group_record,
    "transactions": decode_transaction_record,
    "cluster": decode_metadata_record,
    "shares": decode_share_record,
    "remote": decode_remote_log_record,
}


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """The options of kafka-dump-log, by its names. With a `decoder` records are printed, each with its key
    and value as the decoder says."""

    deep_iteration: bool = False
    print_data_log: bool = False
    skip_record_metadata: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_bytes: int | None = None
    decoder: Decoder | None = None


@dataclass(slots=True)
class Findings:
    """What is said on stderr once all files are dumped."""

    index: IndexFindings = field(default_factory=IndexFindings)
    not_consecutive: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        yield from self.index.lines()
        for path, pairs in self.not_consecutive.items():
            yield f"Non-consecutive offsets in {path}"
            for before, offset in reversed(pairs):
                yield f"  {before} is followed by {offset}"


def dump(paths: Sequence[str], options: DumpOptions) -> Findings:
    """Print the files, one after the other; a partition directory stands for its .log files.

    Raises:
        CorruptRecordError: damage in a .log, after what comes before it was printed. CorruptIndexError.
        NotALogDirError: a directory without logs. click.UsageError: a name without an offset. OSError.
    """
    findings = Findings()
    for file in (file for path in paths for file in _files_of(path)):
        click.echo(f"Dumping {file}")
        kind = Path(file).suffix
        if kind in (".log", ".checkpoint"):
            _dump_log(file, options, findings)
        elif kind == ".index":
            dump_index(file, options.verify_index_only, options.index_sanity_check, findings.index)
        elif kind == ".timeindex":
            dump_time_index(file, options.verify_index_only, options.index_sanity_check, findings.index)
        elif kind == ".txnindex":
            dump_transactions(file)
        elif kind == ".snapshot":
            dump_snapshot(file)
        else:
            click.echo(f"Ignoring unknown file {file}", err=True)
    return findings


def _files_of(path: str) -> Sequence[str]:
    if not Path(path).is_dir():
        return [path]
    files = sorted(map(str, Path(path).glob(f"*.{LOG}")))
    if not files:
        raise NotALogDirError("expected a partition directory with logs in it, or a file of one", path=path)
    return files


def _dump_log(path: str, options: DumpOptions, findings: Findings) -> None:
    is_deep = options.deep_iteration or options.print_data_log or options.decoder is not None
    previous = None
    with DataFile(path) as file:
        click.echo(_title(Path(path)))
        end = file.size_bytes if options.max_bytes is None else min(file.size_bytes, options.max_bytes)
        for found in scan_file(file, 0, end, Window(), check_crcs=True, max_batch_bytes=MAX_BATCH_BYTES):
            for batch in found.batches.to_pylist():
                click.echo(batch_line(batch))
                if is_deep:
                    data = memoryview(file.read(batch["position"], batch["sizeInBytes"]))
                    for offset, line in _records(path, batch, data, options):
                        click.echo(line)
                        if previous is not None and offset != previous + 1:
                            pairs = findings.not_consecutive.setdefault(str(Path(path).absolute()), [])
                            pairs.append((previous, offset))
                        previous = offset
        if found.status in ("damaged", "zeros") and not _goes_beyond(file, found.position, end):
            raise _error(path, damage_of(found, end))
        if options.max_bytes is None and found.position < end:
            click.echo(f"Found {end - found.position} invalid bytes at the end of {Path(path).name}")


def _goes_beyond(file: DataFile, position: int, end: int) -> bool:
    """Whether the tool takes what begins at `position` for an unfinished batch (Kafka: FileLogInputStream).

    It looks at the size field alone, at all else only in a batch that is whole.
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


def batch_line(batch: dict[str, Any]) -> str:
    """A row of BATCH_SCHEMA with its CRC checked."""
    if batch["magic"] >= 2:
        horizon = batch["deleteHorizonMs"]
        text = (
            f"baseOffset: {batch['baseOffset']} lastOffset: {batch['lastOffset']} "
            f"count: {batch['recordCount']} baseSequence: {batch['baseSequence']} "
            f"lastSequence: {batch['lastSequence']} producerId: {batch['producerId']} "
            f"producerEpoch: {batch['producerEpoch']} partitionLeaderEpoch: {batch['leaderEpoch']} "
            f"isTransactional: {_java(batch['isTransactional'])} isControl: {_java(batch['isControl'])} "
            f"deleteHorizonMs: {optional_long(horizon)}"
        )
    else:
        text = f"offset: {batch['lastOffset']}"
    return (
        f"{text} position: {batch['position']} {_TYPES[batch['timestampType']]}: {batch['maxTimestamp']} "
        f"size: {batch['sizeInBytes']} magic: {batch['magic']} compresscodec: {batch['compression']} "
        f"crc: {batch['crc']} isvalid: {_java(batch['isValid'])}"
    )


def _records(
    path: str, batch: dict[str, Any], data: memoryview, options: DumpOptions
) -> Iterator[tuple[int, str]]:
    """Offset and line of each record of a batch, whatever its checksum says."""
    decoded = decode(data, _COLUMNS, _DECODE_OPTIONS)
    if decoded.damage is not None:
        raise _error(path, decoded.damage, batch["position"])
    rows = decoded.batch.set_column(1, "timestamp", decoded.batch.column("timestamp").cast(pa.int64()))
    legacy = _legacy_checksums(batch, data) if batch["magic"] < 2 else None
    label = _TYPES[batch["timestampType"]]
    decode_data = options.decoder or (_as_strings if options.print_data_log else None)
    for number, row in enumerate(rows.to_pylist()):
        text = []
        if not options.skip_record_metadata:
            text.append(
                f"offset: {row['offset']} {label}: {row['timestamp'] // 1000} "
                f"keySize: {_size(row['key'])} valueSize: {_size(row['value'])}"
            )
            if legacy is not None:
                is_valid, crc = legacy[number]
                text.append(f"isValid: {_java(is_valid)} crc: {crc}}}")  # the brace is the tool's
            else:
                names = ",".join(header["key"] for header in row["headers"] or ())
                text.append(f"sequence: {row['sequence']} headerKeys: [{names}]")
            if batch["isControl"]:
                text.append(control_text(row["key"], row["value"]))
        if decode_data is not None and not batch["isControl"]:
            key, payload = decode_data(row["offset"], row["key"], row["value"])
            text += [f"key: {key}"] if key is not None else []
            text += [f"payload: {payload}"] if payload is not None else []
        yield row["offset"], f"| {' '.join(text)}" if text else ""


def _as_strings(_: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    return None if key is None else java_utf8(key), None if value is None else java_utf8(value)


def _legacy_checksums(batch: dict[str, Any], data: memoryview) -> list[tuple[bool, int]]:
    """(whether it is right, CRC-32) of each message of magic 0 or 1: it has its own, within a wrapper too."""
    if batch["compression"] == "none":
        return [(batch["isValid"], batch["crc"])]
    header = parse_header(data, 0, 0)
    content = decompress(header, memoryview(key_and_value(header, data)[1] or b""), MAX_BATCH_BYTES)
    stored = [(one, _CRC.unpack_from(one, 12)[0]) for one in messages(content)]
    return [(crc_of(one) == crc, crc) for one, crc in stored]


def optional_long(value: int | None) -> str:
    """As Java prints an OptionalLong."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _java(value: bool) -> str:
    return "true" if value else "false"


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def _error(path: str, damage: Damage, position: int = 0) -> CorruptRecordError:
    return CorruptRecordError(
        damage.message, path=path, position=position + damage.position, offset=damage.offset
    )
