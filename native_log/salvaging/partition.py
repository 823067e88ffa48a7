"""Copy one partition: its valid batches with their offsets, and what a broker needs besides them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import (
    drop_contradicted,
    read_leader_epochs,
    truncate_from_end,
    update_leader_epochs,
)
from native_log.checkpoints.names import METADATA_TOPIC
from native_log.checkpoints.partition_metadata import write_topic_id
from native_log.checkpoints.write_session import ClosedLog
from native_log.config import LogConfig
from native_log.errors import CorruptRecordError, KafkaLogError, LogTruncatedError, error_message
from native_log.log.epoch_check import EpochCheck
from native_log.log.listing import list_log
from native_log.log.log_files import indexes_without_log
from native_log.log.recovery.log_recovery import recover_log
from native_log.policies import Gaps
from native_log.salvaging.accounting import OffsetAccount
from native_log.salvaging.log_files import LogFiles, copy_file
from native_log.salvaging.reading import read_valid_batches
from native_log.salvaging.report import Finding
from native_log.salvaging.transactions import TransactionCheck
from native_log.segment.files import MAX_OFFSET
from native_log.segment.scan import first_at_least, int32s, int64s
from native_log.storage import FaultyFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from native_log.checkpoints.leader_epochs import EpochEntry
    from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
    from native_log.log.listing import LogListing
    from native_log.log.problems import Problem
    from native_log.logdir import PartitionDir
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment

_ATTEMPTS = 3
"""How often a segment that a broker removes or truncates meanwhile is looked up again."""
_RAFT_FILES = ("quorum-state",)
_RAFT_SNAPSHOT = ".checkpoint"


@dataclass(frozen=True, slots=True)
class SourceLog:
    """A log to copy, and what its log directory says about it.

    Attributes:
        directory: the partition directory.
        checkpoints: its entries in the checkpoint files.
        end_offset: copy no batch from this offset on: an unfinished write has appended them; None: copy all.
        gaps: whether compaction explains gaps.
        is_remote: the topic has remote storage.
        is_live: a broker has the directory open, and may be writing to the last segment.
        topic_id: the topic id; None if it is unknown.
        needs_topic_id: a broker needs the topic id, unlike a broker of a ZooKeeper cluster.
        config: the topic's settings, as far as they are known.
    """

    directory: PartitionDir
    checkpoints: PartitionCheckpoints
    end_offset: int | None = None
    gaps: Gaps = Gaps.UNKNOWN
    is_remote: bool = False
    is_live: bool = False
    topic_id: str | None = None
    needs_topic_id: bool = True
    config: LogConfig = field(default_factory=LogConfig)


@dataclass(frozen=True, slots=True)
class CopiedLog:
    """The result of copying a log.

    Attributes:
        findings: the rows of the report.
        closed: the offsets to checkpoint.
        first_dirty_offset: the first dirty offset to checkpoint; None: no entry.
    """

    findings: list[Finding]
    closed: ClosedLog
    first_dirty_offset: int | None


def copy_log(
    source: SourceLog,
    target: Path | None,
    *,
    max_batch_bytes: int,
    advance: Callable[[int], None] = lambda _: None,
) -> CopiedLog:
    """Copy the valid batches of a log, byte for byte, to the new partition directory `target`.

    The copy has the segments of the source. Indexes, producer state and leader epochs are rebuilt from its
    batches. Everything is flushed to disk before this function returns.

    Args:
        source: the log.
        target: the new partition directory; None: only report what would be copied.
        max_batch_bytes: a batch that claims more bytes, or decompresses to more, counts as damaged.
        advance: called with the number of bytes that were read since the last call.

    Raises OSError if the copy cannot be written.
    """
    if target is not None:
        target.mkdir()
    path = source.directory.path
    try:
        names = os.listdir(path)  # noqa: PTH208
        listing = list_log(str(path), max_batch_bytes)
    except (KafkaLogError, OSError) as error:
        copy = _LogCopy(source, target, [], None, max_batch_bytes, advance)
        copy.account.findings.append(Finding("lost", "unreadable", str(path), error_message(error)))
        return copy.finish()
    copy = _LogCopy(source, target, names, listing, max_batch_bytes, advance)
    copy.run(listing)
    return copy.finish()


class _LogCopy:
    """The state of one copy."""

    def __init__(
        self,
        source: SourceLog,
        target: Path | None,
        names: list[str],
        listing: LogListing | None,
        max_batch_bytes: int,
        advance: Callable[[int], None],
    ) -> None:
        self._source = source
        self._path = source.directory.path
        self._target = target
        self._names = names
        self._max_batch_bytes = max_batch_bytes
        self._advance = advance
        start = source.checkpoints.log_start_offset
        has_segments = listing is not None and listing.segments
        self._first_base = listing.segments[0].base_offset if listing and has_segments else start or 0
        self._last_base = self._first_base
        self._snapshots = listing.snapshots if listing else ()
        without_log = indexes_without_log(names)
        self.account = OffsetAccount(self._path, source.gaps, without_log, max(start or 0, self._first_base))
        self._epochs = drop_contradicted(_leader_epochs(self._path))
        self._epoch_check = EpochCheck(
            self._path, source.directory.topic, start or self._first_base, self._epochs
        )
        self._are_epochs_right = True
        self._transactions = TransactionCheck(str(self._path))
        self._files = LogFiles(target)
        self._size_bytes = 0
        self._is_cut = False

    def run(self, listing: LogListing) -> None:
        """Copy all segments. If a broker removes or truncates one meanwhile, list the log again."""
        segments, resume_at, failures = list(listing.segments), 0, 0
        while segments and not self._is_cut:
            segment = segments.pop(0)
            copied_before = self._size_bytes
            try:
                self._copy_segment(segment, resume_at)
                continue
            except (FileNotFoundError, LogTruncatedError) as error:
                failures = 1 if self._size_bytes > copied_before else failures + 1
                if failures == _ATTEMPTS:
                    self._lose_file(segment, error_message(error))
                    continue
            resume_at = max(self.account.next_offset or 0, segment.base_offset)
            try:
                current = list_log(str(self._path), self._max_batch_bytes).segments
            except (KafkaLogError, OSError) as error:
                self._lose_file(segment, error_message(error))
                continue
            segments = [segment for segment in current if segment.end_offset > resume_at]
        self._files.close()

    def _copy_segment(self, segment: LogSegment, resume_at: int) -> None:
        self._last_base = max(self._last_base, segment.base_offset, resume_at)
        try:
            file = FaultyFile(str(segment.path))
        except FileNotFoundError:
            raise
        except OSError as error:
            self._files.begin(self._last_base)
            self._lose_file(segment, error_message(error))
            return
        with file:
            self._files.begin(self._last_base)
            end_offset = _end_offset(segment)
            read = 0

            def take_damage(damaged: DamagedRange) -> None:
                is_end = end_offset is None and damaged.end_position == file.size_bytes
                is_zero = is_end and not file.faults and file.is_zero(damaged.position, file.size_bytes)
                if is_end and (is_zero or self._source.is_live):
                    why = "preallocated, or left by a crash" if is_zero else "a broker may be writing"
                    reason = f"{damaged.reason}; {why}"
                    size = damaged.end_position - damaged.position
                    finding = Finding("warning", "file", damaged.path, reason, damaged.position, size)
                    self.account.findings.append(finding)
                else:
                    self._transactions.lose()
                    self.account.lose(damaged, end_offset)

            def repair(position: int, size_bytes: int, last_offset: int, fault: str) -> None:
                reason = f"{fault}; the copy has the right one"
                finding = Finding(
                    "warning", "crc", file.path, reason, position, size_bytes, None, last_offset
                )
                self.account.findings.append(finding)

            for data, batches in read_valid_batches(
                file, segment, self._max_batch_bytes, take_damage, repair
            ):
                self._copy_batches(file.path, *_from_offset(data, batches, resume_at))
                position = int64s(batches, "position")[0] + len(data)
                self._advance(position - read)
                read = position
                if self._is_cut:
                    return
            self._advance(file.size_bytes - read)

    def _copy_batches(self, path: str, data: memoryview, batches: pa.RecordBatch) -> None:
        limit = self._source.end_offset
        if limit is not None and batches.num_rows:
            first = first_at_least(batches, "lastOffset", limit)
            if first is not None:
                reason = (
                    f"an unfinished write appended the batches from offset {limit} on, which do not count"
                )
                self.account.findings.append(
                    Finding("skipped", "uncommitted", path, reason, first_offset=limit)
                )
                self._is_cut = True
                batches = batches.slice(0, first)
                data = data[: sum(int32s(batches, "sizeInBytes"))]
        if batches.num_rows == 0:
            return
        findings_before = len(self.account.findings)
        self.account.copy(batches)
        if len(self.account.findings) > findings_before:  # offsets before these batches are missing
            self._transactions.lose()
        self._transactions.copy(batches)
        self._check_epochs(self._epoch_check.take(path, batches))
        self._files.append(data, batches)
        self._size_bytes += len(data)

    def _lose_file(self, segment: LogSegment, why: str) -> None:
        self._transactions.lose()
        path, size = str(segment.path), segment.size_bytes
        self.account.lose_file(path, size, segment.base_offset, _end_offset(segment), why)
        self._advance(size)

    def finish(self) -> CopiedLog:
        """Write what a broker needs besides the batches. Return the report."""
        source, account = self._source, self.account
        end = max(account.next_offset or 0, self._last_base)
        account.finish(end, *self._reached())
        self._check_epochs(self._epoch_check.finish())
        others: list[Finding] = []
        start = source.checkpoints.log_start_offset
        if start is not None and start < self._first_base:
            others.append(self._missing_start(start))
        if start is not None and start > end:
            others.append(self._start_after_end(start, end))
            start = None
        if source.topic_id is None and source.needs_topic_id:
            others.append(self._missing_topic_id())
        others += self._copy_raft_files()
        if self._target is not None:
            self._complete(self._target, start or 0, end)
        last = None if account.next_offset is None else account.next_offset - 1
        copied = Finding(
            "copied",
            None,
            str(self._path),
            size_bytes=self._size_bytes,
            first_offset=account.first_offset,
            last_offset=last,
        )
        doubts = [*self._transactions.findings, *self._transactions.open_transactions()]
        high_watermark, dirty = source.checkpoints.high_watermark, source.checkpoints.first_dirty_offset
        return CopiedLog(
            [copied, *account.findings, *doubts, *others],
            ClosedLog(end, end if high_watermark is None else min(high_watermark, end), start),
            None if dirty is None else min(dirty, self._last_base),
        )

    def _complete(self, target: Path, start: int, end: int) -> None:
        if self._source.topic_id is not None:
            write_topic_id(target, self._source.topic_id, flush=False)
        recovery = recover_log(target, recovery_point=0, log_start_offset=start, config=self._source.config)
        if recovery.loses_data or recovery.log_end_offset != max(start, end):
            raise CorruptRecordError(
                f"expected a copy of whole, valid batches that ends at offset {end}, found its end at "
                f"{recovery.log_end_offset}: {recovery.reason}. The disk may be failing; give "
                "a destination on another one",
                path=target,
            )
        self._write_epochs(target, end)

    def _check_epochs(self, problems: Iterator[Problem]) -> None:
        for problem in problems:
            if problem.position is None:  # of the checkpoint, not of a batch
                self._are_epochs_right = False
            else:
                finding = Finding(
                    "warning",
                    "leader-epochs",
                    problem.path,
                    f"{problem.problem}; the batch is copied as it is",
                    problem.position,
                    first_offset=problem.offset,
                )
                self.account.findings.append(finding)

    def _write_epochs(self, target: Path, end: int) -> None:
        """Write the leader epochs of the source, unless the batches contradict them.

        The recovery has built them from the batches. But the epochs of lost and of compacted batches are only
        in the source's checkpoint, and the epoch in a batch may be wrong, because no checksum covers it.
        """
        if self._are_epochs_right:
            update_leader_epochs(target, truncate_from_end(self._epochs, end))

    def _reached(self) -> tuple[int, str]:
        """Return the offset that the log had reached, and what shows that."""
        high_watermark = self._source.checkpoints.high_watermark or 0
        snapshot, name = self._snapshots[0] if self._snapshots else (0, "")
        if self._is_cut or max(high_watermark, snapshot) == 0:
            return 0, ""
        if high_watermark >= snapshot:
            return high_watermark, "replication-offset-checkpoint"
        return snapshot, name

    def _missing_start(self, start: int) -> Finding:
        where = (
            "they are in remote storage, which is not copied"
            if self._source.is_remote
            else "they are in remote storage, or their segments are missing"
        )
        reason = f"the log starts at offset {start} (log-start-offset-checkpoint), its files later: {where}"
        return Finding(
            "lost",
            "missing-start",
            str(self._path),
            reason,
            first_offset=start,
            last_offset=self._first_base - 1,
        )

    def _start_after_end(self, start: int, end: int) -> Finding:
        reason = (
            f"the log ends at offset {end}, before its start offset {start} (log-start-offset-checkpoint). A "
            f"broker would remove all its records, so the copy starts at {self._first_base}"
        )
        return Finding("warning", "log-start-offset", str(self._path), reason)

    def _missing_topic_id(self) -> Finding:
        reason = (
            "expected a topic id in partition.metadata, found none. A KRaft broker treats a partition "
            "without it as stray; give it with topic_ids"
        )
        return Finding("warning", "topic-id", str(self._path), reason)

    def _copy_raft_files(self) -> list[Finding]:
        """Copy the snapshots and the quorum state of the controllers' log."""
        if self._source.directory.topic != METADATA_TOPIC:
            return []
        findings = []
        for name in sorted(self._names):
            if name in _RAFT_FILES or name.endswith(_RAFT_SNAPSHOT):
                reason = copy_file(self._path / name, None if self._target is None else self._target / name)
                if reason is not None:
                    findings.append(Finding("lost", "unreadable", str(self._path / name), reason))
        return findings


def _end_offset(segment: LogSegment) -> int | None:
    return None if segment.end_offset == MAX_OFFSET else segment.end_offset


def _from_offset(data: memoryview, batches: pa.RecordBatch, offset: int) -> tuple[memoryview, pa.RecordBatch]:
    """Return the batches from the first one on whose last offset is at least `offset`."""
    if int64s(batches, "lastOffset")[0] >= offset:
        return data, batches
    first = first_at_least(batches, "lastOffset", offset)
    if first is None:
        return data[:0], batches.slice(0, 0)
    skipped = int64s(batches, "position")[first] - int64s(batches, "position")[0]
    return data[skipped:], batches.slice(first)


def _leader_epochs(path: Path) -> tuple[EpochEntry, ...]:
    try:
        return read_leader_epochs(path)
    except OSError:  # they are rebuilt from the batches
        return ()
