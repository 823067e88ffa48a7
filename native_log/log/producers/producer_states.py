"""The state of all producers of a log, updated batch by batch (Kafka: ProducerStateManager)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from native_log.errors import CorruptIndexError, LogTruncatedError
from native_log.log.producers.open_transactions import ABORT, COMMIT
from native_log.log.producers.producer_state import ProducerStateEntry, parse_snapshot, snapshot_bytes
from native_log.records import DecodeOptions, decode
from native_log.segment.files import SNAPSHOT, file_name
from native_log.segment.lookup import SegmentLookup
from native_log.segment.scan import first_at_least, int64s
from native_log.segment.transaction_index import AbortedTxn
from native_log.storage import Window, read_file
from native_log.storage.writing import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pyarrow as pa

    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment
    from native_log.storage import DataFile

logger = logging.getLogger(__name__)

_NONE = -1
_REMEMBERED = 5
_MAGIC_AT = 16
_DECODE_OPTIONS = DecodeOptions(control=True, check_crcs=False)
_COLUMNS = (
    "producerId",
    "producerEpoch",
    "baseOffset",
    "lastOffset",
    "lastSequence",
    "maxTimestamp",
    "isTransactional",
    "isControl",
    "controlType",
    "position",
    "sizeInBytes",
)


@dataclass(slots=True)
class ProducerStates:
    """The state of all producers of a log up to `end_offset` (exclusive), by producer id."""

    end_offset: int = 0
    entries: dict[int, ProducerStateEntry] = field(default_factory=dict)
    recent: dict[int, tuple[ProducerStateEntry, ...]] = field(default_factory=dict)
    """The last five batches of each producer that `apply` saw, to recognize duplicates."""

    def copy(self) -> ProducerStates:
        """Return a copy that does not change when this object does."""
        return ProducerStates(self.end_offset, dict(self.entries), dict(self.recent))

    def expire(self, before_ms: int) -> None:
        """Remove producers whose last record is not newer than `before_ms`, unless a transaction is open.

        Kafka: producer.id.expiration.ms.
        """
        for producer_id, entry in list(self.entries.items()):
            if entry.timestamp_ms <= before_ms and entry.current_txn_first_offset < 0:
                del self.entries[producer_id]
                self.recent.pop(producer_id, None)

    def find_duplicate(self, producer_id: int, epoch: int, last_sequence: int, offset_delta: int) -> int:
        """Return the last offset of a recent batch with the same sequences; -1 if there is none.

        Kafka: ProducerStateEntry.findDuplicateBatch.
        """
        batch = epoch, last_sequence, offset_delta
        last = self.entries.get(producer_id)
        known = (*self.recent.get(producer_id, ()), *([last] if last else ()))
        duplicates = (
            entry.last_offset
            for entry in known
            if (entry.producer_epoch, entry.last_sequence, entry.offset_delta) == batch
        )
        return next(duplicates, _NONE)

    def apply(self, batches: pa.RecordBatch, read: Callable[[int, int], memoryview]) -> list[AbortedTxn]:
        """Apply the next batches (BATCH_SCHEMA). Return the transactions that they abort.

        Args:
            batches: the headers of the batches.
            read: returns the bytes of a control batch, given its position and size. They contain the
                coordinator epoch.
        """
        aborted: list[AbortedTxn] = []
        if batches.num_rows == 0:
            return aborted
        self.end_offset = int64s(batches, "lastOffset")[batches.num_rows - 1] + 1
        ids = _producer_ids(batches)
        if ids <= {None, _NONE}:
            return aborted
        if len(ids) == 1 and not _in_transactions(batches):
            # Only the newest batches of a producer remain in its state.
            batches = batches.slice(max(0, batches.num_rows - _REMEMBERED))
        columns = (batches.column(name).to_pylist() for name in _COLUMNS)
        for producer, epoch, base, last, sequence, time_ms, transactional, control, kind, at, size in zip(
            *columns, strict=True
        ):
            if producer is None or producer < 0:
                continue
            if not control:
                self._add(producer, epoch, base, last, sequence, time_ms, transactional)
            elif kind in (ABORT, COMMIT):
                marker = _read_marker(read(at, size), time_ms)
                first = self._end_transaction(producer, epoch, marker)
                if kind == ABORT and first >= 0:
                    aborted.append(AbortedTxn(producer, first, base, self._first_unstable(base + 1)))
            else:  # a control batch without records, after compaction: the epoch is unknown
                self.entries.setdefault(producer, _empty_entry(producer, _NONE))
        return aborted

    def replay(
        self,
        segments: Sequence[LogSegment],
        end_offset: int,
        on_damage: Callable[[DamagedRange], None] = lambda _: None,
    ) -> None:
        """Apply the batches of these segments, from the current end offset up to `end_offset`."""
        for segment, following in zip(segments, [*segments[1:], None], strict=False):
            is_before = following is not None and following.base_offset <= self.end_offset
            if is_before or segment.size_bytes == 0 or self.end_offset >= end_offset:
                continue
            with SegmentLookup(segment, segment.size_bytes, Window()) as lookup:
                is_within = self.end_offset > segment.base_offset
                position, next_offset = 0, segment.base_offset
                if is_within:
                    place = lookup.find_offset(self.end_offset)
                    position, next_offset = place.position, place.next_offset
                for scanned in lookup.batches(position, on_damage, next_offset=next_offset):
                    first = first_at_least(scanned.batches, "lastOffset", self.end_offset)
                    if first is not None:
                        self.apply(scanned.batches.slice(first), partial(read_batch, lookup.file))
        self.end_offset = end_offset

    def _add(
        self,
        producer_id: int,
        epoch: int,
        base_offset: int,
        last_offset: int,
        last_sequence: int,
        timestamp_ms: int,
        is_transactional: bool,
    ) -> None:
        before = self.entries.get(producer_id)
        first = before.current_txn_first_offset if before else _NONE
        entry = ProducerStateEntry(
            producer_id,
            epoch,
            last_sequence,
            last_offset,
            last_offset - base_offset,
            timestamp_ms,
            before.coordinator_epoch if before else _NONE,
            base_offset if is_transactional and first < 0 else first,
        )
        self.entries[producer_id] = entry
        self.recent[producer_id] = (*self.recent.get(producer_id, ())[1 - _REMEMBERED :], entry)

    def _end_transaction(self, producer_id: int, epoch: int, marker: _Marker) -> int:
        """Apply a marker. Return the first offset of the transaction that it ends; -1 if none was open."""
        before = self.entries.get(producer_id, _empty_entry(producer_id, epoch))
        if before.producer_epoch != epoch:  # a new epoch clears the batches of the previous one
            before = replace(
                before, producer_epoch=epoch, last_sequence=_NONE, last_offset=_NONE, offset_delta=0
            )
        self.entries[producer_id] = replace(
            before,
            timestamp_ms=marker.timestamp_ms,
            coordinator_epoch=marker.coordinator_epoch,
            current_txn_first_offset=_NONE,
        )
        return before.current_txn_first_offset

    def _first_unstable(self, none: int) -> int:
        first = (e.current_txn_first_offset for e in self.entries.values())
        return min((offset for offset in first if offset >= 0), default=none)

    def write_snapshot(self, directory: Path, *, flush: bool = True) -> Path:
        """Write the file `<end offset>.snapshot` and return its path. `flush`: see replace_file."""
        path = directory / file_name(self.end_offset, SNAPSHOT)
        replace_file(path, snapshot_bytes(self.entries.values()), flush=flush)
        return path


def _producer_ids(batches: pa.RecordBatch) -> set[int | None]:
    column = batches.column("producerId")
    # Each append comes here, and `to_pylist` takes about a microsecond for each batch.
    return set(column.to_pylist()) if column.null_count else set(int64s(batches, "producerId"))


def _in_transactions(batches: pa.RecordBatch) -> bool:
    """Return whether any batch is transactional or a control batch."""
    return any(batches.column(name).true_count for name in ("isTransactional", "isControl"))


def _empty_entry(producer_id: int, epoch: int) -> ProducerStateEntry:
    return ProducerStateEntry(producer_id, epoch, _NONE, _NONE, 0, _NONE, _NONE, _NONE)


def read_batch(file: DataFile, position: int, size_bytes: int) -> memoryview:
    """Read a batch of an open file, for `ProducerStates.apply`.

    Raises LogTruncatedError if the file ends before it. The headers may have been read from it when it was
    longer.
    """
    batch = memoryview(file.read(position, size_bytes))
    if len(batch) < size_bytes:
        raise LogTruncatedError(
            "the file has changed since its batch headers were read; open the log again",
            path=file.path,
            position=position,
        )
    return batch


def newest_snapshot(
    directory: Path, snapshots: Sequence[tuple[int, str]], least: int, most: int
) -> ProducerStates:
    """Return the state in the newest valid snapshot with an offset in [least, most].

    If there is none, return an empty state with end offset `least`.

    Args:
        directory: the partition directory.
        snapshots: (offset, file name), newest first.
        least, most: the range of offsets, both inclusive.
    """
    for offset, name in snapshots:
        if least <= offset <= most:
            try:
                entries = parse_snapshot(read_file(f"{directory}/{name}"))
            except (CorruptIndexError, FileNotFoundError) as error:
                logger.warning("%s/%s: ignored: %s", directory, name, error)
                continue
            return ProducerStates(offset, {entry.producer_id: entry for entry in entries})
    return ProducerStates(least)


class _Marker(NamedTuple):
    """The fields of a marker that are in its record, not in the batch header."""

    timestamp_ms: int
    coordinator_epoch: int


def _read_marker(batch: memoryview, max_timestamp_ms: int) -> _Marker:
    if batch[_MAGIC_AT] > 2:  # recovery keeps such batches, and brokers read them as magic 2
        batch = memoryview(bytes(batch[:_MAGIC_AT]) + b"\2" + batch[_MAGIC_AT + 1 :])
    records = decode(batch, ["timestamp", "value"], _DECODE_OPTIONS).batch
    if not records.num_rows:
        return _Marker(max_timestamp_ms, _NONE)
    value = records.column("value")[0].as_py() or b""
    epoch = int.from_bytes(value[2:6], "big", signed=True) if len(value) >= 6 else _NONE
    return _Marker(records.column("timestamp").cast("int64")[0].as_py() // 1000, epoch)
