"""Making a log whole that a crash left (Kafka: LogLoader.recoverLog)."""

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
from native_log.log.replacing.interrupted import finish_interrupted, left_behind
from native_log.records import MAX_BATCH_BYTES
from native_log.segment.files import INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX, file_name
from native_log.segment.rebuild import CheckedSegment, SegmentIndexes, rebuild
from native_log.segment.writer import SegmentWriter
from native_log.storage import read_file
from native_log.storage.writing import AppendFile, fsync_directory, remove_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from native_log.config import LogConfig
    from native_log.records import Damage
    from native_log.segment.segment import LogSegment
    from native_log.segment.transaction_index import AbortedTxn
    from native_log.storage import DataFile


@dataclass(frozen=True, slots=True)
class LogRecovery:
    """What the recovery of a log comes to.

    Attributes:
        path: the partition's directory.
        checked: the segments read, in order.
        removed: those that go, being behind damaged bytes, or below the log's start.
        left_behind: names of files that are no part of the log any more.
        log_start_offset, log_end_offset: of the log afterwards.
        leader_epochs: the entries of its leader-epoch-checkpoint.
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
        """The segments that are cut: one, unless others have lost their offset index."""
        return tuple(one for one in self.checked if one.truncated_bytes)

    @property
    def out_of_order(self) -> tuple[tuple[LogSegment, Damage], ...]:
        """The first batch of each segment that is not in the order of offsets, and kept as by a broker."""
        return tuple(
            (one.segment, one.out_of_order)
            for one in self.checked
            if one.out_of_order is not None and one.out_of_order.position < one.valid_bytes
        )

    @property
    def begins_anew(self) -> bool:
        """Whether the log is emptied, for it ends before its start."""
        return not self.checked

    @property
    def cuts(self) -> bool:
        """Whether anything of the log's data goes."""
        return bool(self.truncated or self.removed)

    @property
    def lost_bytes(self) -> int:
        """How many bytes of .log files go."""
        return sum(one.truncated_bytes for one in self.checked) + sum(one.size_bytes for one in self.removed)

    @property
    def last_base_offset(self) -> int:
        """Of the last segment afterwards."""
        return self.checked[-1].segment.base_offset if self.checked else self.log_start_offset

    @property
    def reason(self) -> str | None:
        """Why anything goes; None if nothing does."""
        for one in self.truncated:
            if one.damage is not None:
                return one.damage.message
        return f"the log ends before its start offset {self.log_start_offset}" if self.removed else None


def recover_log(
    path: Path,
    *,
    recovery_point: int,
    log_start_offset: int,
    config: LogConfig,
    dry_run: bool = False,
    before_cut: Callable[[LogRecovery], None] = lambda _: None,
) -> LogRecovery:
    """Make the log in `path` whole as a broker's start would. Hold the log directory's lock.

    The segments from the one with `recovery_point` on are read with checksums. The first batch that is not
    whole and right ends the log: its segment is cut there, later ones are removed. A segment that has lost
    its offset index is read wherever it is; it is cut, too, but the log continues behind it. Indexes,
    producer state and leader epochs follow from the batches that were read. A recovery that was interrupted
    can be done again, with the same result.

    Args:
        dry_run: change nothing: only tell what it would come to.
        before_cut: called before anything of the log's data goes, and where in a dry run it would go.
    """
    left = left_behind(path)
    if not dry_run:
        finish_interrupted(path, MAX_BATCH_BYTES)
    segments = list_log(str(path), MAX_BATCH_BYTES).segments
    walk = _Walk(path, segments, log_start_offset, config, dry_run=dry_run)
    removed: tuple[LogSegment, ...] = ()
    first = _first_to_check(segments, recovery_point)
    for index, segment in enumerate(segments):
        is_lost = _lost_indexes(segment)
        if index >= first or is_lost:
            checked = walk.check(index, is_lost)
            if checked.truncated_bytes and not is_lost:
                removed = segments[index + 1 :]
                break
    start, end = walk.offsets()
    if end < log_start_offset or not segments:
        walk.forget_all()
        start = end = log_start_offset
        removed = segments
    epochs = truncate_from_start(walk.epochs_up_to(end), log_start_offset)
    recovery = LogRecovery(path, tuple(walk.checked), removed, left, start, end, epochs)
    if recovery.cuts:
        before_cut(recovery)
    if not dry_run:
        _remove(recovery)
        walk.write_late_indexes()
        if recovery.begins_anew:
            SegmentWriter.create(path, start, config).close()
        walk.write_last_snapshot(start, end)
        update_leader_epochs(path, epochs)
        fsync_directory(path)
    return recovery


def _first_to_check(segments: tuple[LogSegment, ...], recovery_point: int) -> int:
    """Index of the first segment that may not be flushed to disk: the one with the recovery point."""
    return max(0, bisect_right([segment.base_offset for segment in segments], recovery_point) - 1)


def _lost_indexes(segment: LogSegment) -> bool:
    """Whether a broker recovers the segment for its indexes alone (Kafka: LogSegment.sanityCheck)."""
    return segment.index is None or segment.load_transaction_index().health.status in ("torn", "corrupt")


class _Walk:
    """The segments that are checked, one after the other, and what follows from their batches.

    Attributes:
        checked: the results so far.
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
        self._following = 0
        self._snapshots: set[int] = set()
        self._epochs: tuple[EpochEntry, ...] = ()
        self._late: list[tuple[CheckedSegment, SegmentIndexes, list[AbortedTxn]]] = []

    def check(self, index: int, is_lost: bool) -> CheckedSegment:
        """Read a segment. What follows from its good batches is right whatever comes behind them, so it is
        written at once; but lost indexes only once the segment is cut, to be known as lost until then."""
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
        self._states, self._following = states, index + 1
        self.checked.append(checked)
        if checked.truncated_bytes and is_lost:
            self._late.append((checked, indexes, aborted))
        elif not self._dry_run:
            indexes.write(segment, aborted)
        return checked

    def offsets(self) -> tuple[int, int]:
        """Log start and end offset, by the segments checked."""
        if not self.checked:
            return self._log_start_offset, self._log_start_offset
        last = self.checked[-1]
        start = max(self._segments[0].base_offset, self._log_start_offset)
        return start, max(last.next_offset, last.segment.base_offset)

    def epochs_up_to(self, end: int) -> tuple[EpochEntry, ...]:
        """The leader epochs of the checkpoint and of the batches read.

        What the checkpoint says of the log behind `end` goes first. (A broker drops it last. Until then it
        ignores lower epochs of the batches, and finds them only when it recovers once more.)
        """
        if self._segments and not self.checked:
            return ()
        entries = truncate_from_end(drop_contradicted(read_leader_epochs(self._path)), end)
        for one in self._epochs:
            entries = assign_newer(entries, one.epoch, one.start_offset)
        return truncate_from_end(entries, end)

    def forget_all(self) -> None:
        self.checked, self._late = [], []
        self._states = None

    def write_late_indexes(self) -> None:
        for checked, indexes, aborted in self._late:
            indexes.write(checked.segment, aborted)

    def write_last_snapshot(self, start: int, end: int) -> None:
        """Write the producer state at the log's end; keep no other snapshots than those of segments that
        were left alone, and those written on the way."""
        if end > start:
            self._write_snapshot(end)
        first = self.checked[0].segment.base_offset if self.checked else start
        bases = {segment.base_offset for segment in self._segments if segment.base_offset <= first}
        for offset, name in list_log(str(self._path), MAX_BATCH_BYTES).snapshots:
            is_kept = start < offset <= end and offset in bases | self._snapshots
            if not (is_kept and _is_readable(self._path / name)):
                remove_file(self._path / name)

    def _states_at(self, index: int) -> ProducerStates:
        """The state at a segment's base offset, from what was read before, or from the newest snapshot.

        It begins at the log start offset, and a snapshot there is not used (Kafka:
        ProducerStateManager.truncateAndReload).
        """
        base, start = self._segments[index].base_offset, self._log_start_offset
        if base <= start:
            return ProducerStates(base)
        states, following = self._states, self._following
        if states is None:
            snapshots = [
                one for one in list_log(str(self._path), MAX_BATCH_BYTES).snapshots if one[0] > start
            ]
            states, following = newest_snapshot(self._path, snapshots, start, base), 0
            if states.end_offset == base:
                self._snapshots.add(base)
                return states
        if following:
            states.end_offset = self._segments[following].base_offset
        states.replay(self._segments[following:index], base)
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
    # From the end, and lasting before the cut: never may a later segment be found behind a cut one.
    for segment in reversed(recovery.removed):
        for kind in (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX):
            remove_file(recovery.path / file_name(segment.base_offset, kind))
    if recovery.removed:
        fsync_directory(recovery.path)
    for one in recovery.checked:
        log = AppendFile(str(one.segment.path), one.valid_bytes)
        try:
            log.flush()
        finally:
            log.close()


def _is_readable(snapshot: Path) -> bool:
    try:
        parse_snapshot(read_file(str(snapshot)))
    except CorruptIndexError:
        return False
    return True
