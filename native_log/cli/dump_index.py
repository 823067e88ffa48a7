"""The files beside a .log, dumped and compared with it as kafka-dump-log 4.1 does (Kafka:
DumpLogSegments)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow as pa
import pyarrow.compute as pc

from native_log.errors import CorruptIndexError
from native_log.log.producers.producer_state import parse_snapshot
from native_log.records import DecodeOptions, decode
from native_log.segment.entries import OFFSET_ENTRY, TIME_ENTRY
from native_log.segment.files import INDEX, LOG
from native_log.segment.scan import scan_file
from native_log.segment.transaction_index import ABORTED_ENTRY
from native_log.storage import DataFile, Window, read_file

if TYPE_CHECKING:
    import struct
    from collections.abc import Iterator


@dataclass(slots=True)
class IndexFindings:
    """Where indexes and logs differ. By path, pairs: of the index, of the log."""

    offsets: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    timestamps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    order: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    not_found: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        for path, pairs in self.offsets.items():
            yield f"Mismatches in :{path}"
            for offset, found in reversed(pairs):
                yield f"  Index offset: {offset}, log offset: {found}"
        for path, pairs in self.timestamps.items():
            yield f"Found timestamp mismatch in :{path}"
            for timestamp, found in pairs:
                yield f"  Index timestamp: {timestamp}, log timestamp: {found}"
        for path, pairs in self.order.items():
            yield f"Found out of order timestamp in :{path}"
            for timestamp, before in pairs:
                yield f"  Index timestamp: {timestamp}, Previously indexed timestamp: {before}"
        for pairs in self.not_found.values():
            yield "The following indexed offsets are not found in the log."
            for offset, found in pairs:
                yield f"Indexed offset: {offset}, found log offset: {found}"


def dump_index(path: str, verify_only: bool, sanity_check: bool, findings: IndexFindings) -> None:
    """Its entries, each compared with the batch that it points to."""
    base, entries = _entries(path, OFFSET_ENTRY)
    if not entries:
        click.echo(f"{path} is empty.")
    elif sanity_check:
        _check_sanity(path, base, entries[-1][0])
    else:
        batches = _Batches.of(path, base)
        for number, (relative, position) in enumerate(entries):
            if relative == 0 and number:  # the zeros of a preallocated file
                return
            found = batches.last_offset_at(position)
            if found != base + relative:
                findings.offsets.setdefault(_name(path), []).append((base + relative, found))
            if not verify_only:
                click.echo(f"offset: {base + relative} position: {position}")


def dump_time_index(path: str, verify_only: bool, sanity_check: bool, findings: IndexFindings) -> None:
    """Its entries, each compared with the batch that ends at its offset."""
    base, entries = _entries(path, TIME_ENTRY)
    if sanity_check:
        if entries and entries[-1][0] < entries[0][0]:
            raise CorruptIndexError(
                "expected timestamps that increase, found the last below the first", path=path
            )
        _check_sanity(path, base, entries[-1][1] if entries else 0)
        return
    batches = _Batches.of(path, base)
    index = Path(path).with_suffix(f".{INDEX}")
    index_entries = _entries(str(index), OFFSET_ENTRY)[1] if index.exists() else []
    before = -1
    for number, (timestamp, relative) in enumerate(entries):
        if relative == 0 and number:
            return
        offset = base + relative
        below = bisect_right(index_entries, relative, key=lambda entry: entry[0])
        found, found_ms = batches.reaching(offset, index_entries[below - 1][1] if below else 0)
        if found != offset:
            findings.not_found.setdefault(_name(path), []).append((offset, found))
        else:
            if found_ms != timestamp:
                findings.timestamps.setdefault(_name(path), []).append((timestamp, found_ms))
            if before >= timestamp:
                findings.order.setdefault(_name(path), []).append((timestamp, before))
        if not verify_only:
            click.echo(f"timestamp: {timestamp} offset: {offset}")
        before = timestamp


def dump_transactions(path: str) -> None:
    """The aborted transactions of a .txnindex."""
    for entry in ABORTED_ENTRY.iter_unpack(_whole(read_file(path), ABORTED_ENTRY)):
        version, producer_id, first, last, stable = entry
        click.echo(
            f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} "
            f"lastStableOffset: {stable}"
        )


def dump_snapshot(path: str) -> None:
    """The producers of a .snapshot."""
    for one in parse_snapshot(read_file(path)):
        first = f"OptionalLong[{one.current_txn_first_offset}]"
        text = (
            f"producerId: {one.producer_id} producerEpoch: {one.producer_epoch} "
            f"coordinatorEpoch: {one.coordinator_epoch} currentTxnFirstOffset: "
            f"{first if one.current_txn_first_offset >= 0 else 'OptionalLong.empty'} "
            f"lastTimestamp: {one.timestamp_ms} "
        )
        if one.last_offset >= 0:
            sequence = one.last_sequence - one.offset_delta
            text += (
                f"firstSequence: {sequence if sequence >= 0 else sequence + 2**31} "
                f"lastSequence: {one.last_sequence} lastOffset: {one.last_offset} "
                f"offsetDelta: {one.offset_delta} timestamp: {one.timestamp_ms}"
            )
        click.echo(text)


@dataclass(frozen=True, slots=True)
class _Batches:
    """The batches of a .log up to damage, by position."""

    path: str
    positions: list[int]
    sizes: list[int]
    last_offsets: list[int]

    @classmethod
    def of(cls, index_path: str, base_offset: int) -> _Batches:
        """Of the .log beside an index."""
        name = Path(index_path)
        path = str(name.with_name(f"{name.name.split('.')[0]}.{LOG}"))
        positions: list[int] = []
        sizes: list[int] = []
        last_offsets: list[int] = []
        with DataFile(path) as file:
            for found in scan_file(file, 0, file.size_bytes, Window()):
                positions += found.batches.column("position").to_pylist()
                sizes += found.batches.column("sizeInBytes").to_pylist()
                last_offsets += found.batches.column("lastOffset").to_pylist()
        return cls(path, positions, sizes, last_offsets)

    def last_offset_at(self, position: int) -> int:
        """Of the batch that begins at `position`; -1 if none does."""
        number = bisect_left(self.positions, position)
        there = number < len(self.positions) and self.positions[number] == position
        return self.last_offsets[number] if there else -1

    def reaching(self, offset: int, position: int) -> tuple[int, int]:
        """Last offset and greatest timestamp of the records of the first batch from `position` on that
        reaches `offset`; -1 if none does."""
        for number in range(bisect_left(self.positions, position), len(self.positions)):
            if (last := self.last_offsets[number]) >= offset:
                with DataFile(self.path) as file:
                    data = file.read(self.positions[number], self.sizes[number])
                options = DecodeOptions(control=True, check_crcs=False)
                times = decode(data, ["timestamp"], options).batch.column(0)
                greatest = pc.max(times.cast(pa.int64())).as_py()
                return last, -1 if greatest is None else greatest // 1000
        return -1, -1


def base_offset_of(path: Path) -> int:
    """The offset in the name of a segment's file. Raises click.UsageError."""
    digits = path.name.split(".")[0]
    if not (digits.isascii() and digits.isdigit()):
        raise click.UsageError(
            f"{path}: expected a name like {42:020d}{path.suffix}, with the segment's first offset; "
            "rename the file"
        )
    return int(digits)


def _entries(path: str, layout: struct.Struct) -> tuple[int, list[tuple[int, int]]]:
    data = read_file(path)
    return base_offset_of(Path(path)), list(layout.iter_unpack(_whole(data, layout)))


def _whole(data: bytes, layout: struct.Struct) -> bytes:
    return data[: len(data) - len(data) % layout.size]


def _check_sanity(path: str, base: int, last: int) -> None:
    if last < 0:
        raise CorruptIndexError(f"expected offsets from {base} on, found {base + last} at the end", path=path)
    click.echo(f"{path} passed sanity check.")


def _name(path: str) -> str:
    return str(Path(path).absolute())
