"""Recover a log after an unclean shutdown (Kafka: LogLoader.recoverLog)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import (
    EpochEntry,
    assign_newer,
    drop_contradicted,
    read_leader_epochs,
    truncate_from_end,
    truncate_from_start,
    update_leader_epochs,
)
from native_log.errors import CorruptIndexError
from native_log.log.listing import list_log
from native_log.log.producers.producer_state import parse_snapshot
from native_log.log.producers.producer_states import ProducerStates, newest_snapshot, read_batch
from native_log.log.replacing.interrupted import finish_interrupted, leftover_files
from native_log.records import MAX_BATCH_BYTES
from native_log.segment.files import INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX, file_name
from native_log.segment.rebuild import CheckedSegment, SegmentIndexes, rebuild
from native_log.segment.writer import SegmentWriter
from native_log.storage import read_file
from native_log.storage.hard_links import check_only_link
from native_log.storage.writing import AppendFile, flush_files, fsync_directory, remove_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from native_log.checkpoints.partition_checkpoints import EndBeforeWrite
    from native_log.config import LogConfig
    from native_log.records import Damage
    from native_log.segment.segment import LogSegment
    from native_log.segment.transaction_index import AbortedTxn
    from native_log.storage import DataFile


@dataclass(frozen=True, slots=True)
class LogRecovery:
    """The result of recovering a log, or what it would be.

    Attributes:
        path: the partition directory.
        checked: the segments that were read, in order.
        removed: the segments that are removed, because they follow damage, or because the log ends before its
            start offset.
        left_behind: the names of files that no longer belong to the log.
        log_start_offset, log_end_offset: the offsets of the log after the recovery, end exclusive.
        leader_epochs: the entries of leader-epoch-checkpoint after the recovery.
    """

    path: Path
    checked: tuple[CheckedSegment, ...]
    removed: tuple[LogSegment, ...]
    left_behind: tuple[str, ...]
    log_start_offset: int
    log_end_offset: int
    leader_epochs: tuple[EpochEntry, ...]

    @property
    def truncated(self) -> tuple[CheckedSegment, ...]:
        """The segments that are truncated: at most one, except for those that have lost their indexes."""
        return tuple(segment for segment in self.checked if segment.truncated_bytes)

    @property
    def out_of_order(self) -> tuple[tuple[LogSegment, Damage], ...]:
        """The first batch of each segment whose offsets do not increase. It is kept, as by a broker."""
        return tuple(
            (checked.segment, checked.out_of_order)
            for checked in self.checked
            if checked.out_of_order is not None and checked.out_of_order.position < checked.valid_bytes
        )

    @property
    def is_emptied(self) -> bool:
        """Whether the log is emptied, because it ends before its start offset or has no segments."""
        return not self.checked

    @property
    def loses_data(self) -> bool:
        """Whether any data of the log is removed."""
        return bool(self.truncated or self.removed)

    @property
    def lost_bytes(self) -> int:
        """The number of bytes of .log files that are removed."""
        truncated = sum(segment.truncated_bytes for segment in self.checked)
        return truncated + sum(segment.size_bytes for segment in self.removed)

    @property
    def last_base_offset(self) -> int:
        """The base offset of the last segment after the recovery."""
        return self.checked[-1].segment.base_offset if self.checked else self.log_start_offset

    @property
    def reason(self) -> str | None:
        """Why data is removed; None if none is."""
        for segment in self.truncated:
            if segment.damage is not None:
                return segment.damage.message
        return f"the log ends before its start offset {self.log_start_offset}" if self.removed else None


def recover_log(
    path: Path,
    *,
    recovery_point: int,
    log_start_offset: int,
    config: LogConfig,
    before_write: EndBeforeWrite | None = None,
    dry_run: bool = False,
    before_cut: Callable[[LogRecovery], None] = lambda _: None,
) -> LogRecovery:
    """Recover the log in `path` as a broker does when it starts. The caller must hold the directory's lock.

    The segments from the one with `recovery_point` on are read with checksums. The first invalid or
    incomplete batch ends the log: its segment is truncated there, and later segments are removed. A segment
    that has lost its indexes is read wherever it lies; it may be truncated too, but the log continues after
    it. Indexes, producer state and leader epochs are rebuilt from the batches that were read. Idempotent:
    safe to rerun after a crash.

    Args:
        path: the partition directory.
        recovery_point: the offset up to which (exclusive) the log was flushed to disk.
        log_start_offset: the first offset of the log.
        config: the log's settings.
        before_write: in a dry run, where the log ended before an unfinished write; None: there is none.
        dry_run: change nothing, and only return what the recovery would do.
        before_cut: called before data is removed (in a dry run: if data would be removed). If it raises an
            error, no data is removed.

    Raises IrregularFileError, also in a dry run, if a file to truncate has other hard links; OSError.
    """
    left_behind = leftover_files(path)
    if not dry_run:
        finish_interrupted(path, MAX_BATCH_BYTES)
    segments = list_log(str(path), MAX_BATCH_BYTES).before_write(before_write).segments
    checker = _Checker(path, segments, log_start_offset, config, dry_run=dry_run)
    removed: tuple[LogSegment, ...] = ()
    first = _first_to_check(segments, recovery_point)
    for index, segment in enumerate(segments):
        has_lost_indexes = _has_lost_indexes(segment)
        if index >= first or has_lost_indexes:
            checked = checker.check(index, has_lost_indexes=has_lost_indexes)
            if checked.truncated_bytes and not has_lost_indexes:
                removed = segments[index + 1 :]
                break
    start, end = checker.offsets()
    if end < log_start_offset or not segments:
        checker.clear()
        start = end = log_start_offset
        removed = segments
    epochs = truncate_from_start(checker.epochs_up_to(end), log_start_offset)
    recovery = LogRecovery(path, tuple(checker.checked), removed, left_behind, start, end, epochs)
    for checked in recovery.truncated:
        check_only_link(str(checked.segment.path))
    if recovery.loses_data:
        before_cut(recovery)
    if not dry_run:
        _remove(recovery)
        checker.write_postponed_indexes()
        if recovery.is_emptied:
            SegmentWriter.create(path, start, config).close()
        checker.write_last_snapshot(start, end)
        update_leader_epochs(path, epochs)
        fsync_directory(path)
    return recovery


def _first_to_check(segments: tuple[LogSegment, ...], recovery_point: int) -> int:
    """Return the index of the segment with the recovery point, the first that may not be flushed to disk."""
    return max(0, bisect_right([segment.base_offset for segment in segments], recovery_point) - 1)


def _has_lost_indexes(segment: LogSegment) -> bool:
    """Return whether a broker recovers the segment because of its indexes (Kafka: LogSegment.sanityCheck).

    It reads whole entries of the transaction index. So a torn last entry does not count.
    """
    return segment.index is None or segment.load_transaction_index().health.status == "corrupt"


class _Checker:
    """Check segments one after the other, and rebuild indexes, producer state and leader epochs.

    Attributes:
        checked: the segments checked so far.
    """

    def __init__(
        self,
        path: Path,
        segments: tuple[LogSegment, ...],
        log_start_offset: int,
        config: LogConfig,
        *,
        dry_run: bool,
    ) -> None:
        self.checked: list[CheckedSegment] = []
        self._path = path
        self._segments = segments
        self._log_start_offset = log_start_offset
        self._config = config
        self._dry_run = dry_run
        self._states: ProducerStates | None = None
        """The producer state after the last segment that was checked; None: no segment was."""
        self._next_index = 0
        """The index of the segment after that one."""
        self._snapshots: set[int] = set()
        self._epochs: tuple[EpochEntry, ...] = ()
        self._postponed: list[tuple[CheckedSegment, SegmentIndexes, list[AbortedTxn]]] = []

    def check(self, index: int, *, has_lost_indexes: bool) -> CheckedSegment:
        """Check the segment with this index, and rebuild its indexes.

        The indexes are written at once, because later segments do not affect them. There is one exception:
        lost indexes of a damaged segment are written after the segment was truncated. If the recovery is
        interrupted before that, the missing indexes show that the segment must be checked again.
        """
        segment = self._segments[index]
        states = self._states_at(index)
        before, epochs = states.copy(), self._epochs
        aborted: list[AbortedTxn] = []

        def take(file: DataFile, batches: pa.RecordBatch) -> None:
            aborted.extend(states.apply(batches, partial(read_batch, file)))
            self._assign_epochs(batches)

        checked, indexes = rebuild(segment, self._config.index_interval_bytes, take)
        if checked.valid_bytes == 0:
            states, self._epochs = before, epochs
            aborted.clear()
        self._states, self._next_index = states, index + 1
        self.checked.append(checked)
        if checked.truncated_bytes and has_lost_indexes:
            self._postponed.append((checked, indexes, aborted))
        elif not self._dry_run:
            indexes.write(segment, aborted)
        return checked

    def offsets(self) -> tuple[int, int]:
        """Return log start and log end offset, from the segments checked."""
        if not self.checked:
            return self._log_start_offset, self._log_start_offset
        last = self.checked[-1]
        start = max(self._segments[0].base_offset, self._log_start_offset)
        return start, max(last.next_offset, last.segment.base_offset)

    def epochs_up_to(self, end: int) -> tuple[EpochEntry, ...]:
        """Return the leader epochs of the checkpoint and of the batches read, for a log that ends at `end`.

        Entries of the checkpoint at or above `end` are removed first. (A broker removes them last. Until then
        it ignores lower epochs of batches, and only adds them when it recovers the log again.)
        """
        if self._segments and not self.checked:
            return ()
        entries = truncate_from_end(drop_contradicted(read_leader_epochs(self._path)), end)
        for entry in self._epochs:
            entries = assign_newer(entries, entry.epoch, entry.start_offset)
        return truncate_from_end(entries, end)

    def clear(self) -> None:
        """Discard what the segments checked so far contain: the log is emptied."""
        self.checked, self._postponed = [], []
        self._states = None

    def write_postponed_indexes(self) -> None:
        """Write the indexes that `check` has not written, after the segments were truncated."""
        for checked, indexes, aborted in self._postponed:
            indexes.write(checked.segment, aborted)

    def write_last_snapshot(self, start: int, end: int) -> None:
        """Write a producer state snapshot at the log end offset, and remove outdated snapshots.

        Snapshots at the base offsets of segments that were not checked are kept, and those that this recovery
        wrote.
        """
        if end > start:
            self._write_snapshot(end)
        first = self.checked[0].segment.base_offset if self.checked else start
        bases = {segment.base_offset for segment in self._segments if segment.base_offset <= first}
        for offset, name in list_log(str(self._path), MAX_BATCH_BYTES).snapshots:
            is_kept = start < offset <= end and offset in bases | self._snapshots
            if not (is_kept and _is_readable(self._path / name)):
                remove_file(self._path / name)

    def _states_at(self, index: int) -> ProducerStates:
        """Return the producer state at a segment's base offset.

        It comes from the segments checked before, or from the newest snapshot and the segments after it.
        Producer state begins at the log start offset, and a snapshot at that offset is not used (Kafka:
        ProducerStateManager.truncateAndReload).
        """
        base, start = self._segments[index].base_offset, self._log_start_offset
        if base <= start:
            return ProducerStates(base)
        states, next_index = self._states, self._next_index
        if states is None:
            listed = list_log(str(self._path), MAX_BATCH_BYTES).snapshots
            snapshots = [snapshot for snapshot in listed if snapshot[0] > start]
            states, next_index = newest_snapshot(self._path, snapshots, start, base), 0
            if states.end_offset == base:
                self._snapshots.add(base)
                return states
        if next_index:
            # A broker takes a snapshot after each segment that it recovers, and loads it for the next one. A
            # snapshot up to the log start offset is removed instead.
            if states.end_offset <= start:
                states = ProducerStates()
            states.end_offset = max(start, self._segments[next_index].base_offset)
        states.replay(self._segments[next_index:index], base)
        self._states = states
        self._write_snapshot(base)
        return states

    def _write_snapshot(self, offset: int) -> None:
        self._snapshots.add(offset)
        states = self._states or ProducerStates()
        states.end_offset = offset
        if not self._dry_run:
            states.write_snapshot(self._path)

    def _assign_epochs(self, batches: pa.RecordBatch) -> None:
        names = ("magic", "leaderEpoch", "baseOffset")
        for magic, epoch, base in zip(*(batches.column(name).to_pylist() for name in names), strict=True):
            if magic >= 2:
                self._epochs = assign_newer(self._epochs, epoch, base)


def _remove(recovery: LogRecovery) -> None:
    # Remove segments from the end, and flush this before truncating: after a crash, no segment may follow a
    # truncated one.
    for segment in reversed(recovery.removed):
        for kind in (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX):
            remove_file(recovery.path / file_name(segment.base_offset, kind))
    if recovery.removed:
        fsync_directory(recovery.path)
    for checked in recovery.truncated:
        AppendFile(str(checked.segment.path), checked.valid_bytes).close()
    flush_files([str(checked.segment.path) for checked in recovery.checked])


def _is_readable(snapshot: Path) -> bool:
    try:
        parse_snapshot(read_file(str(snapshot)))
    except CorruptIndexError:
        return False
    return True
