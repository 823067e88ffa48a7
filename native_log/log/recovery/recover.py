"""Making a log whole that a crash left (Kafka: LogLoader.recoverLog)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from native_log.errors import CorruptIndexError
from native_log.log.leader_epochs import (
    EpochEntry,
    assign,
    merged,
    read_leader_epochs,
    truncate_from_end,
    truncate_from_start,
    write_leader_epochs,
)
from native_log.log.listing import Listing, list_log
from native_log.log.producers.producer_state import parse_snapshot
from native_log.log.producers.producer_states import ProducerStates, newest_snapshot, read_batch
from native_log.log.recovery.interrupted import finish_interrupted, left_behind
from native_log.records import MAX_BATCH_BYTES
from native_log.segment.files import INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX, file_name
from native_log.segment.rebuild import CheckedSegment, rebuild
from native_log.segment.writer import SegmentWriter
from native_log.storage import read_file
from native_log.storage.writing import AppendFile, fsync_directory, remove_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from native_log.config import LogConfig
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
    def damaged(self) -> CheckedSegment | None:
        """The segment that is cut, if one is."""
        return next((one for one in self.checked if one.truncated_bytes), None)

    @property
    def begins_anew(self) -> bool:
        """Whether the log is emptied, for it ends before its start."""
        return not self.checked

    @property
    def cuts(self) -> bool:
        """Whether anything of the log's data goes."""
        return self.damaged is not None or bool(self.removed)

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
        if self.damaged is not None and self.damaged.damage is not None:
            return self.damaged.damage.message
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

    The segments from the one with `recovery_point` on, or from an earlier one without its indexes on, are
    read with checksums. The first batch that is not whole and right ends the log: its segment is cut there,
    later ones go. Indexes, producers' state and leader epochs of what was read follow from the batches.
    Whatever stops it, doing it again comes to the same.

    Args:
        dry_run: change nothing: only tell what it would come to.
        before_cut: called before anything of the log's data goes, and where in a dry run it would go.
    """
    left = left_behind(path)
    if not dry_run:
        finish_interrupted(path, MAX_BATCH_BYTES)
    listing = list_log(str(path), MAX_BATCH_BYTES)
    walk = _Walk(path, listing, log_start_offset, _first_to_check(listing, recovery_point))
    end = walk.start
    for index in range(walk.first, len(listing.segments)):
        checked = walk.check(listing.segments[index], config, dry_run=dry_run)
        end = max(checked.next_offset, checked.segment.base_offset)
        if checked.truncated_bytes:
            break
    removed = listing.segments[walk.first + len(walk.checked) :]
    if end < walk.start or not listing.segments:
        walk.forget_all()
        end, removed = walk.start, listing.segments
    known = truncate_from_end(read_leader_epochs(path), end)
    epochs = truncate_from_start(merged(known, walk.epochs), walk.start)
    recovery = LogRecovery(path, tuple(walk.checked), removed, left, walk.start, end, epochs)
    if recovery.cuts:
        before_cut(recovery)
    if not dry_run:
        _remove(recovery)
        if recovery.begins_anew:
            SegmentWriter.create(path, recovery.log_start_offset, config).close()
        walk.states.end_offset = end
        walk.states.write_snapshot(path)
        _remove_snapshots(path, {segment.base_offset for segment in listing.segments}, end)
        if epochs != read_leader_epochs(path):
            write_leader_epochs(path, epochs)
        fsync_directory(path)
    return recovery


def _first_to_check(listing: Listing, recovery_point: int) -> int:
    """Index of the first segment that is read: the one with the recovery point, or, as brokers do, an
    earlier one that has lost its index."""
    bases = [segment.base_offset for segment in listing.segments]
    first = max(0, bisect_right(bases, recovery_point) - 1)
    without = (i for i, one in enumerate(listing.segments) if one.index is None or one.time_index is None)
    return min(first, next(without, first))


class _Walk:
    """Segment by segment along a log, and what follows from the batches."""

    def __init__(self, path: Path, listing: Listing, log_start_offset: int, first: int) -> None:
        segments = listing.segments
        self.path = path
        self.first = first
        self.start = max(segments[0].base_offset if segments else 0, log_start_offset)
        self.checked: list[CheckedSegment] = []
        begin = segments[first].base_offset if segments else self.start
        self.epochs: tuple[EpochEntry, ...] = ()
        self.states = newest_snapshot(path, listing.snapshots, min(self.start, begin), begin)
        self.states.replay(segments[:first], begin)

    def check(self, segment: LogSegment, config: LogConfig, *, dry_run: bool) -> CheckedSegment:
        """Read a segment. What follows from its good batches is right whatever comes behind them, so it is
        written at once."""
        if self.checked and not dry_run:
            self.states.end_offset = segment.base_offset
            self.states.write_snapshot(self.path)
        states, epochs = self.states.copy(), self.epochs
        aborted: list[AbortedTxn] = []

        def take(file: DataFile, batches: pa.RecordBatch) -> None:
            aborted.extend(self.states.apply(batches, partial(read_batch, file)))
            self._assign_epochs(batches)

        checked, indexes = rebuild(segment, config.index_interval_bytes, take)
        if checked.valid_bytes == 0:
            self.states, self.epochs = states, epochs
            aborted.clear()
        if not dry_run:
            indexes.write(segment, aborted)
        self.checked.append(checked)
        return checked

    def forget_all(self) -> None:
        self.checked, self.epochs = [], ()
        self.states = ProducerStates()

    def _assign_epochs(self, batches: pa.RecordBatch) -> None:
        names = ("magic", "leaderEpoch", "baseOffset")
        for magic, epoch, base in zip(*(batches.column(name).to_pylist() for name in names), strict=True):
            if magic >= 2 and epoch >= 0:
                self.epochs = assign(self.epochs, epoch, base)


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


def _remove_snapshots(path: Path, base_offsets: set[int], end_offset: int) -> None:
    """Keep those of segments' base offsets and of the log's end that can be read, as brokers do."""
    for offset, name in list_log(str(path), MAX_BATCH_BYTES).snapshots:
        if offset <= end_offset and (offset in base_offsets or offset == end_offset):
            try:
                parse_snapshot(read_file(f"{path}/{name}"))
                continue
            except CorruptIndexError:
                pass
        remove_file(path / name)
