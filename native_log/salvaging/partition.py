"""Copy one partition: its valid batches with their offsets, and what a broker needs besides them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import (
    drop_contradicted,
    read_leader_epochs,
)
from native_log.checkpoints.write_intent import WRITE_INTENT
from native_log.checkpoints.write_session import ClosedLog
from native_log.errors import KafkaLogError, LogTruncatedError, error_message
from native_log.log.epoch_check import EpochCheck
from native_log.log.listing import LogListing, file_names, irregular_logs, list_log
from native_log.log.log_files import indexes_without_log
from native_log.salvaging.accounting import OffsetAccount
from native_log.salvaging.completion import compare_with_checkpoints, complete_log, copy_raft_files
from native_log.salvaging.hiding_files import hiding_files
from native_log.salvaging.log_files import LogFiles
from native_log.salvaging.reading import read_valid_batches
from native_log.salvaging.report import Finding
from native_log.salvaging.transactions import TransactionCheck
from native_log.segment.files import INDEX, MAX_OFFSET, file_name
from native_log.segment.scan import first_at_least, int32s, int64s
from native_log.storage import FaultyFile
from native_log.storage.ownership import create_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from native_log.checkpoints.leader_epochs import EpochEntry
    from native_log.log.problems import Problem
    from native_log.salvaging.source_log import SourceLog
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment

_ATTEMPTS = 3
"""How often a segment is looked up again that a broker removes or truncates meanwhile."""


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
        create_directory(target)
    listed = _list_source(source, max_batch_bytes)
    copy = _LogCopy(source, target, listed, max_batch_bytes, advance)
    copy.copy_segments()
    return copy.finish()


@dataclass(frozen=True, slots=True)
class _ListedSource:
    """The files of a log to copy.

    Attributes:
        names: the names of all files.
        listing: the segments and snapshots.
        ignored: the names of files that do not count.
        findings: why, and errors.
    """

    names: Collection[str]
    listing: LogListing
    ignored: frozenset[str]
    findings: tuple[Finding, ...]


def _list_source(source: SourceLog, max_batch_bytes: int) -> _ListedSource:
    path = str(source.directory.path)
    try:
        irregular = irregular_logs(path)
        names = [name for name in file_names(path) if name not in irregular]
        ignored = frozenset(irregular)
        listing = list_log(path, max_batch_bytes, ignored)
        hiding = hiding_files(listing, path, max_batch_bytes, ignored)
        if hiding:
            ignored = ignored.union(segment.log for segment in hiding)
            listing = list_log(path, max_batch_bytes, ignored)
        skipped = _uncommitted(source, listing)
        listing = listing.before_write(source.checkpoints.before_write)
    except (KafkaLogError, OSError) as error:
        unreadable = Finding("lost", "unreadable", path, reason=error_message(error))
        return _ListedSource((), LogListing((), ()), frozenset(), (unreadable,))
    reason = "the file has no valid batch; it is ignored, because another file has records of its offsets"
    findings = [
        Finding("lost", "unreadable", f"{path}/{name}", reason=why) for name, why in irregular.items()
    ]
    findings += [
        Finding("warning", "file", str(segment.path), 0, segment.size_bytes, reason=reason)
        for segment in hiding
    ]
    return _ListedSource(names, listing, ignored, (*findings, *skipped))


def _uncommitted(source: SourceLog, listing: LogListing) -> list[Finding]:
    """Return a finding that says what an unfinished write has appended, if it has appended anything."""
    end = source.checkpoints.before_write
    if end is None:
        return []
    for segment in listing.segments:
        if segment.base_offset < end.base_offset:
            continue
        position = end.size_bytes if segment.base_offset == end.base_offset else 0
        if segment.size_bytes > position:
            reason = (
                f"an unfinished write appended the batches from offset {end.offset} on, which do not count"
            )
            path = str(segment.path)
            return [Finding("skipped", "uncommitted", path, position, first_offset=end.offset, reason=reason)]
    return []


def _missing_segments(listed: _ListedSource) -> dict[int, str]:
    """Return the base offsets of segments without records, sorted, and what shows that they had some."""
    missing = {
        base: f"the file is missing; {file_name(base, INDEX)} shows that it existed"
        for base in indexes_without_log(listed.names)
    }
    missing |= {
        segment.base_offset: f"the file is empty; {segment.time_index} shows that it had records"
        for segment in listed.listing.segments[:-1]
        if segment.size_bytes == 0 and segment.last_time_entry() is not None
    }
    return dict(sorted(missing.items()))


class _LogCopy:
    """The state of one copy."""

    def __init__(
        self,
        source: SourceLog,
        target: Path | None,
        listed: _ListedSource,
        max_batch_bytes: int,
        advance: Callable[[int], None],
    ) -> None:
        self._source = source
        self._path = source.directory.path
        self._target = target
        self._listed = listed
        self._max_batch_bytes = max_batch_bytes
        self._advance = advance
        start = source.checkpoints.log_start_offset
        segments = listed.listing.segments
        self._first_base = segments[0].base_offset if segments else start or 0
        self._last_base = self._first_base
        missing = _missing_segments(listed)
        begin = min(self._first_base, *missing) if missing else self._first_base
        self.account = OffsetAccount(self._path, source.gaps, missing, max(start or 0, begin))
        self.account.findings.extend(listed.findings)
        self._epochs = drop_contradicted(_leader_epochs(self._path))
        self._epoch_check = EpochCheck(
            self._path, source.directory.topic, start or self._first_base, lambda: self._epochs
        )
        self._are_epochs_right = True
        self._transactions = TransactionCheck(str(self._path))
        self._files = LogFiles(target)
        self._size_bytes = 0

    def copy_segments(self) -> None:
        """Copy all segments. If a broker removes or truncates one meanwhile, list the log again."""
        segments, resume_at, failures = list(self._listed.listing.segments), 0, 0
        while segments:
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
                listing = list_log(str(self._path), self._max_batch_bytes, self._listed.ignored)
            except (KafkaLogError, OSError) as error:
                self._lose_file(segment, error_message(error))
                continue
            listing = listing.before_write(self._source.checkpoints.before_write)
            segments = [segment for segment in listing.segments if segment.end_offset > resume_at]
        self._files.close()

    def _copy_segment(self, segment: LogSegment, resume_at: int) -> None:
        self._last_base = max(self._last_base, segment.base_offset, resume_at)
        try:
            file = FaultyFile(str(segment.path), self._end_position(segment))
        except FileNotFoundError:
            raise
        except OSError as error:
            self._files.begin(self._last_base)
            self._lose_file(segment, error_message(error))
            return
        with file:
            self._files.begin(self._last_base)
            read, on_repair = 0, partial(self._note_repair, file.path)
            for part in read_valid_batches(file, segment, self._max_batch_bytes, on_repair):
                data, batches = _from_offset(part.data, part.batches, resume_at)
                self._copy_part(file, segment, data, batches, part.damaged)
                self._advance(part.end_position - read)
                read = part.end_position
            self._advance(file.size_bytes - read)

    def _end_position(self, segment: LogSegment) -> int | None:
        """Return where the committed part of a segment ends; None: at the end of its file."""
        end = self._source.checkpoints.before_write
        return None if end is None or segment.base_offset < end.base_offset else end.size_bytes

    def _lose_bytes(self, file: FaultyFile, end_offset: int | None, damaged: DamagedRange) -> None:
        """Note a damaged range. At the end of the log, zeros and an unfinished append lose nothing.

        Args:
            file: the .log file.
            end_offset: the base offset of the next segment; None: there is none.
            damaged: the range.
        """
        is_end = end_offset is None and damaged.end_position == file.size_bytes
        is_zero = is_end and not file.faults and file.is_zero(damaged.position, file.size_bytes)
        if not (is_zero or (is_end and self._source.is_live)):
            self._transactions.lose()
            self.account.lose(damaged, end_offset)
            return
        why = "preallocated, or left by a crash" if is_zero else "a broker may be writing"
        size = damaged.end_position - damaged.position
        reason = f"{damaged.reason}; {why}"
        finding = Finding("warning", "file", damaged.path, damaged.position, size, reason=reason)
        self.account.findings.append(finding)

    def _note_repair(self, path: str, position: int, size_bytes: int, last_offset: int, fault: str) -> None:
        reason = f"{fault}; the copy has the right one"
        finding = Finding(
            "warning", "crc", path, position, size_bytes, last_offset=last_offset, reason=reason
        )
        self.account.findings.append(finding)

    def _copy_part(
        self,
        file: FaultyFile,
        segment: LogSegment,
        data: memoryview,
        batches: pa.RecordBatch,
        damaged: Sequence[DamagedRange],
    ) -> None:
        """Copy batches, and account for them and for the damage between and after them."""
        rows = _Rows(batches)
        end_offset, row = _end_offset(segment), 0
        for each in damaged:
            end_row = bisect_left(rows.positions, each.position, row)
            self._note_copied(rows, row, end_row)
            self._lose_bytes(file, end_offset, each)
            row = end_row
        self._note_copied(rows, row, batches.num_rows)
        if batches.num_rows:
            self._check_epochs(self._epoch_check.take(file.path, batches))
            self._files.append(data)
            self._size_bytes += len(data)

    def _note_copied(self, rows: _Rows, first: int, end: int) -> None:
        """Note that the batches from index `first` to before `end` are copied."""
        if first == end:
            return
        findings_before = len(self.account.findings)
        self.account.copy(rows.base_offsets[first:end], rows.last_offsets[first:end])
        if len(self.account.findings) > findings_before:  # offsets before these batches are missing
            self._transactions.lose()
        if rows.are_transactional:
            self._transactions.copy(rows.batches.slice(first, end - first))

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
        start = None if source.ends_before_start(end) else source.checkpoints.log_start_offset
        raft_findings = copy_raft_files(source, self._listed.names, self._target)
        if self._target is not None:
            epochs = self._epochs if self._are_epochs_right else None
            complete_log(self._target, source, start or 0, end, epochs)
        last = None if account.next_offset is None else account.next_offset - 1
        copied = Finding(
            "copied",
            None,
            str(self._path),
            size_bytes=self._size_bytes,
            first_offset=account.first_offset,
            last_offset=last,
        )
        findings = [
            copied,
            *account.findings,
            *self._transactions.findings,
            *self._transactions.open_transactions(),
            *compare_with_checkpoints(source, self._first_base, end),
            *raft_findings,
        ]
        high_watermark, dirty = source.checkpoints.high_watermark, source.checkpoints.first_dirty_offset
        return CopiedLog(
            findings,
            ClosedLog(end, end if high_watermark is None else min(high_watermark, end), start),
            None if dirty is None else min(dirty, self._last_base),
        )

    def _check_epochs(self, problems: Iterator[Problem]) -> None:
        for problem in problems:
            if problem.position is None:  # of the checkpoint, not of a batch
                self._are_epochs_right = False
            else:
                finding = Finding(
                    "warning",
                    "leader-epochs",
                    problem.path,
                    problem.position,
                    first_offset=problem.offset,
                    reason=f"{problem.problem}; the batch is copied as it is",
                )
                self.account.findings.append(finding)

    def _reached(self) -> tuple[int, str]:
        """Return the offset that the log had reached, and what shows that."""
        before_write = self._source.checkpoints.before_write
        if before_write is not None:
            return before_write.offset, WRITE_INTENT
        high_watermark = self._source.checkpoints.high_watermark or 0
        snapshots = self._listed.listing.snapshots
        snapshot, name = snapshots[0] if snapshots else (0, "")
        if max(high_watermark, snapshot) == 0:
            return 0, ""
        if high_watermark >= snapshot:
            return high_watermark, "replication-offset-checkpoint"
        return snapshot, name


def _end_offset(segment: LogSegment) -> int | None:
    return None if segment.end_offset == MAX_OFFSET else segment.end_offset


class _Rows:
    """Columns of batches (BATCH_SCHEMA), which are read once and not for each damaged range."""

    def __init__(self, batches: pa.RecordBatch) -> None:
        self.batches = batches
        self.positions = int64s(batches, "position")
        self.base_offsets: list[int | None] = batches.column("baseOffset").to_pylist()
        self.last_offsets: list[int] = batches.column("lastOffset").to_pylist()
        self.are_transactional = batches.column("isTransactional").true_count > 0


def _from_offset(data: memoryview, batches: pa.RecordBatch, offset: int) -> tuple[memoryview, pa.RecordBatch]:
    """Return the batches from the first one on whose last offset is at least `offset`."""
    first = first_at_least(batches, "lastOffset", offset) if offset else 0
    if first is None:
        return data[:0], batches.slice(0, 0)
    return data[sum(int32s(batches, "sizeInBytes")[:first]) :], batches.slice(first)


def _leader_epochs(path: Path) -> tuple[EpochEntry, ...]:
    try:
        return read_leader_epochs(path)
    except OSError:  # they are rebuilt from the batches
        return ()
