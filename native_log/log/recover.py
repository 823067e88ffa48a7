"""Making a log whole that a crash left (Kafka: LogLoader.recoverLog). First a plan, which only reads."""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.log.interrupted import finish_interrupted
from native_log.log.leader_epochs import (
    EpochEntry,
    assign,
    read_leader_epochs,
    truncate_from_end,
    truncate_from_start,
    write_leader_epochs,
)
from native_log.log.listing import list_log
from native_log.log.producer_state import snapshot_bytes
from native_log.log.producers import newest_snapshot
from native_log.records import DEFAULT_MAX_BATCH_BYTES
from native_log.segment.files import INDEX, LOG, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX, file_name
from native_log.segment.lookup import SegmentLookup
from native_log.segment.rebuild import RebuiltSegment, rebuild
from native_log.segment.writer import SegmentWriter, transaction_index_bytes
from native_log.storage import Window
from native_log.storage.writing import AppendFile, fsync_directory, remove_file, replace_file

if TYPE_CHECKING:
    import pyarrow as pa

    from native_log.config import LogConfig
    from native_log.segment.segment import LogSegment
    from native_log.segment.transaction_index import AbortedTxn
    from native_log.storage import DataFile

_PER_SEGMENT = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)


@dataclass(frozen=True, slots=True)
class LogRecovery:
    """What recovery comes to; `apply` does it.

    Attributes:
        path: the partition's directory.
        recovered: the segments read, each with what it holds.
        removed: those that go, being behind damaged bytes or below the log's start.
        log_start_offset, log_end_offset: of the log afterwards.
        leader_epochs: the entries of its leader-epoch-checkpoint.
        aborted: entries of the `.txnindex` of each segment read, by base offset.
        snapshots: content of `.snapshot` files, by their offset.
    """

    path: Path
    recovered: tuple[RebuiltSegment, ...]
    removed: tuple[LogSegment, ...]
    log_start_offset: int
    log_end_offset: int
    leader_epochs: tuple[EpochEntry, ...]
    aborted: dict[int, list[AbortedTxn]]
    snapshots: dict[int, bytes]
    begins_anew: bool
    config: LogConfig
    max_batch_bytes: int

    @property
    def truncated_bytes(self) -> int:
        """Bytes cut off, those of removed segments not counted."""
        return sum(one.truncated_bytes for one in self.recovered)

    @property
    def damaged_path(self) -> Path | None:
        """The file with the damage, None without any."""
        return next((one.segment.path for one in self.recovered if one.truncated_bytes), None)

    @property
    def damaged_position(self) -> int | None:
        return next((one.valid_bytes for one in self.recovered if one.truncated_bytes), None)

    @property
    def reason(self) -> str | None:
        """Why anything is cut off or removed; None if nothing is."""
        for one in self.recovered:
            if one.truncated_bytes:
                return one.damage.message if one.damage else "less than a batch is left at the end"
        return f"the log ends before its start offset {self.log_start_offset}" if self.removed else None

    def apply(self) -> None:
        """Change the files. Whatever stops it, doing it again (from a new plan) comes to the same."""
        finish_interrupted(self.path, self.max_batch_bytes)
        # From the end, so that no later segment is ever found behind a truncated one.
        for segment in reversed(self.removed):
            for kind in _PER_SEGMENT:
                remove_file(self.path / file_name(segment.base_offset, kind))
        for name in os.listdir(self.path):  # noqa: PTH208
            file = Path(name)
            if file.suffix == f".{SNAPSHOT}" and file.stem.isdigit() and int(file.stem) > self.log_end_offset:
                remove_file(self.path / name)
        for one in self.recovered:
            self._write(one)
        if self.begins_anew:
            SegmentWriter.create(self.path, self.log_start_offset, self.config).close()
        for offset, data in self.snapshots.items():
            replace_file(self.path / file_name(offset, SNAPSHOT), data)
        if self.leader_epochs != read_leader_epochs(self.path):
            write_leader_epochs(self.path, self.leader_epochs)
        fsync_directory(self.path)

    def _write(self, one: RebuiltSegment) -> None:
        base = one.segment.base_offset
        log = AppendFile(str(self.path / file_name(base, LOG)), one.valid_bytes)
        try:
            log.flush()
        finally:
            log.close()
        replace_file(self.path / file_name(base, INDEX), one.offset_index)
        replace_file(self.path / file_name(base, TIME_INDEX), one.time_index)
        if self.aborted.get(base):
            data = transaction_index_bytes(self.aborted[base])
            replace_file(self.path / file_name(base, TRANSACTION_INDEX), data)
        else:
            remove_file(self.path / file_name(base, TRANSACTION_INDEX))


def plan_recovery(
    path: Path,
    *,
    recovery_point: int,
    log_start_offset: int,
    config: LogConfig,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> LogRecovery:
    """What a broker's recovery would make of the log in `path`: read, not changed.

    The segments from the one with `recovery_point` on are read with checksums. The first batch that is not
    whole and right ends the log: its segment is cut there, later ones go. Indexes, producers' state and
    leader epochs of what was read follow from the batches.
    """
    listing = list_log(str(path), max_batch_bytes)
    segments = listing.segments
    bases = [segment.base_offset for segment in segments]
    start = max(bases[0] if bases else 0, log_start_offset)
    first = max(0, bisect_right(bases, recovery_point) - 1)
    begin = bases[first] if bases else start
    epochs = truncate_from_end(read_leader_epochs(path), begin)
    states = newest_snapshot(path, listing.snapshots, min(start, begin), begin)
    aborted: list[AbortedTxn] = []

    def take(file: DataFile, batches: pa.RecordBatch) -> None:
        nonlocal epochs
        aborted.extend(states.apply(batches, partial(_read, file)))
        names = ("magic", "leaderEpoch", "baseOffset")
        for magic, epoch, base in zip(*(batches.column(name).to_pylist() for name in names), strict=True):
            if magic < 2:
                epochs = ()
            elif epoch >= 0:
                epochs = assign(epochs, epoch, base)

    for segment in segments[:first]:  # between the snapshot and what is recovered
        if _end(bases, segment) > states.end_offset and segment.size_bytes:
            with SegmentLookup(segment, segment.size_bytes, Window()) as lookup:
                for scanned in lookup.batches(0, lambda _: None):
                    later = _from(scanned.batches, states.end_offset)
                    states.apply(later, partial(_read, lookup.file))
    states.end_offset = begin
    recovered: list[RebuiltSegment] = []
    snapshots: dict[int, bytes] = {}
    aborted_by_base: dict[int, list[AbortedTxn]] = {}
    removed: tuple[LogSegment, ...] = ()
    end = start
    for index, segment in enumerate(segments[first:], first):
        if recovered:
            snapshots[segment.base_offset] = snapshot_bytes(states.entries.values())
        aborted.clear()
        one = rebuild(segment, config.index_interval_bytes, take, max_batch_bytes=max_batch_bytes)
        aborted_by_base[segment.base_offset] = list(aborted)
        recovered.append(one)
        end = max(one.next_offset, segment.base_offset)
        if one.truncated_bytes:
            removed = segments[index + 1 :]
            break
    begins_anew = not segments or end < start
    if begins_anew:
        removed, recovered, end, epochs = segments, [], start, ()
        states.entries.clear()
        snapshots = {}
    snapshots[end] = snapshot_bytes(states.entries.values())
    return LogRecovery(
        path,
        tuple(recovered),
        removed,
        start,
        end,
        truncate_from_start(truncate_from_end(epochs, end), start),
        aborted_by_base,
        snapshots,
        begins_anew,
        config,
        max_batch_bytes,
    )


def _read(file: DataFile, position: int, size_bytes: int) -> memoryview:
    return memoryview(file.read(position, size_bytes))


def _end(bases: list[int], segment: LogSegment) -> int:
    following = bisect_right(bases, segment.base_offset)
    return bases[following] if following < len(bases) else 2**63 - 1


def _from(batches: pa.RecordBatch, offset: int) -> pa.RecordBatch:
    last_offsets = batches.column("lastOffset").to_pylist()
    return batches.slice(
        next((i for i, last in enumerate(last_offsets) if last >= offset), len(last_offsets))
    )
