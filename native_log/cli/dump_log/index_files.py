"""Print index files and producer snapshots, and compare indexes with their .log."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from native_log.cli.dump_log.file_names import base_offset_of
from native_log.errors import CorruptIndexError
from native_log.records import DecodeOptions, decode
from native_log.segment.entries import OFFSET_ENTRY, TIME_ENTRY
from native_log.segment.files import INDEX, LOG
from native_log.segment.scan import scan_file
from native_log.segment.transaction_index import ABORTED_ENTRY
from native_log.storage import DataFile, Window, read_file

if TYPE_CHECKING:
    import struct

    from native_log.cli.dump_log.mismatches import IndexMismatches


def dump_index(path: str, verify_only: bool, sanity_check: bool, mismatches: IndexMismatches) -> None:
    """Print the entries. Compare each with the batch at its position."""
    base, entries = _read_entries(path, OFFSET_ENTRY)
    if not entries:
        click.echo(f"{path} is empty.")
    elif sanity_check:
        _check_sanity(path, base, entries[-1][0])
    else:
        batches = _Batches.of_log_beside(path)
        for number, (relative, position) in enumerate(entries):
            if relative == 0 and number:  # The rest of a preallocated file is zeros.
                return
            log_offset = batches.last_offset_at(position)
            if log_offset != base + relative:
                mismatches.offsets.setdefault(_absolute(path), []).append((base + relative, log_offset))
            if not verify_only:
                click.echo(f"offset: {base + relative} position: {position}")


def dump_time_index(path: str, verify_only: bool, sanity_check: bool, mismatches: IndexMismatches) -> None:
    """Print the entries. Compare each with the batch that ends at its offset."""
    base, entries = _read_entries(path, TIME_ENTRY)
    if sanity_check:
        if entries and entries[-1][0] < entries[0][0]:
            raise CorruptIndexError(
                "expected timestamps that increase, found a last one below the first one", path=path
            )
        _check_sanity(path, base, entries[-1][1] if entries else 0)
        return
    batches = _Batches.of_log_beside(path)
    index = Path(path).with_suffix(f".{INDEX}")
    index_entries = _read_entries(str(index), OFFSET_ENTRY)[1] if index.exists() else []
    before = -1
    for number, (timestamp, relative) in enumerate(entries):
        if relative == 0 and number:
            return
        offset = base + relative
        below = bisect_right(index_entries, relative, key=lambda entry: entry[0])
        log_offset, log_timestamp = batches.first_that_reaches(
            offset, index_entries[below - 1][1] if below else 0
        )
        if log_offset != offset:
            mismatches.not_found.setdefault(_absolute(path), []).append((offset, log_offset))
        else:
            if log_timestamp != timestamp:
                mismatches.timestamps.setdefault(_absolute(path), []).append((timestamp, log_timestamp))
            if before >= timestamp:
                mismatches.out_of_order.setdefault(_absolute(path), []).append((timestamp, before))
        if not verify_only:
            click.echo(f"timestamp: {timestamp} offset: {offset}")
        before = timestamp


def dump_transaction_index(path: str) -> None:
    """Print the aborted transactions of a .txnindex."""
    for entry in ABORTED_ENTRY.iter_unpack(_drop_incomplete_entry(read_file(path), ABORTED_ENTRY)):
        version, producer_id, first, last, stable = entry
        click.echo(
            f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} "
            f"lastStableOffset: {stable}"
        )


def dump_snapshot(path: str) -> None:
    """Print the producers of a .snapshot."""
    from native_log.log.producers.producer_state import parse_snapshot  # imports all that reads logs

    try:
        producers = parse_snapshot(read_file(path))
    except CorruptIndexError as error:
        raise CorruptIndexError(error.message, path=path) from None
    for producer in producers:
        first = f"OptionalLong[{producer.current_txn_first_offset}]"
        text = (
            f"producerId: {producer.producer_id} producerEpoch: {producer.producer_epoch} "
            f"coordinatorEpoch: {producer.coordinator_epoch} currentTxnFirstOffset: "
            f"{first if producer.current_txn_first_offset >= 0 else 'OptionalLong.empty'} "
            f"lastTimestamp: {producer.timestamp_ms} "
        )
        if producer.last_offset >= 0:
            sequence = producer.last_sequence - producer.offset_delta
            text += (
                f"firstSequence: {sequence if sequence >= 0 else sequence + 2**31} "
                f"lastSequence: {producer.last_sequence} lastOffset: {producer.last_offset} "
                f"offsetDelta: {producer.offset_delta} timestamp: {producer.timestamp_ms}"
            )
        click.echo(text)


@dataclass(frozen=True, slots=True)
class _Batches:
    """The batches of a .log by position, up to the first damaged one."""

    path: str
    positions: list[int]
    sizes: list[int]
    last_offsets: list[int]

    @classmethod
    def of_log_beside(cls, index_path: str) -> _Batches:
        """Scan the .log beside an index."""
        name = Path(index_path)
        path = str(name.with_name(f"{name.name.split('.')[0]}.{LOG}"))
        positions: list[int] = []
        sizes: list[int] = []
        last_offsets: list[int] = []
        with DataFile(path) as file:
            for scanned in scan_file(file, 0, file.size_bytes, Window()):
                positions += scanned.batches.column("position").to_pylist()
                sizes += scanned.batches.column("sizeInBytes").to_pylist()
                last_offsets += scanned.batches.column("lastOffset").to_pylist()
        return cls(path, positions, sizes, last_offsets)

    def last_offset_at(self, position: int) -> int:
        """Return the last offset of the batch that begins at `position`; -1 if no batch begins there."""
        number = bisect_left(self.positions, position)
        there = number < len(self.positions) and self.positions[number] == position
        return self.last_offsets[number] if there else -1

    def first_that_reaches(self, offset: int, position: int) -> tuple[int, int]:
        """Find the first batch at or after `position` whose last offset is at least `offset`.

        Returns:
            Its last offset and the largest timestamp of its records, in ms; -1 and -1 if there is none.
        """
        for number in range(bisect_left(self.positions, position), len(self.positions)):
            if (last := self.last_offsets[number]) >= offset:
                with DataFile(self.path) as file:
                    data = file.read(self.positions[number], self.sizes[number])
                options = DecodeOptions(control=True, check_crcs=False)
                times = decode(data, ["timestamp"], options).batch.column(0)
                import pyarrow.compute as pc  # slow to import

                largest = pc.max(times.cast(pa.int64())).as_py()
                return last, -1 if largest is None else largest // 1000
        return -1, -1


def _read_entries(path: str, layout: struct.Struct) -> tuple[int, list[tuple[int, int]]]:
    data = read_file(path)
    return base_offset_of(Path(path)), list(layout.iter_unpack(_drop_incomplete_entry(data, layout)))


def _drop_incomplete_entry(data: bytes, layout: struct.Struct) -> bytes:
    return data[: len(data) - len(data) % layout.size]


def _check_sanity(path: str, base: int, last: int) -> None:
    if last < 0:
        raise CorruptIndexError(f"expected offsets from {base} on, found {base + last} at the end", path=path)
    click.echo(f"{path} passed sanity check.")


def _absolute(path: str) -> str:
    return str(Path(path).absolute())
