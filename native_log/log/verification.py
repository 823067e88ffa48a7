"""Check every batch, record, index and snapshot of a log without changing it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from native_log.checkpoints.leader_epochs import read_leader_epochs
from native_log.errors import CorruptIndexError
from native_log.log.changing_files import ATTEMPTS, CHANGED
from native_log.log.epoch_check import EpochCheck
from native_log.log.gaps import GapCheck, GapCount, gap_problem
from native_log.log.missing_segments import MissingSegment, missing_segments
from native_log.log.offset_span import OffsetSpan
from native_log.log.problems import Problem, advice_for
from native_log.log.producers.producer_state import parse_snapshot
from native_log.log.producers.producer_states import newest_snapshot
from native_log.log.segment_check import SegmentCheck
from native_log.policies import Gaps
from native_log.prefetch import map_ahead
from native_log.segment.damage import DamagedRange
from native_log.segment.rebuild import read_all_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from native_log.log.partition_log import PartitionLog
    from native_log.log.segment_check import Part
    from native_log.segment.segment import LogSegment

_BYTES_AHEAD = 8 << 20
"""About how much memory the batches of a segment take that are read ahead."""
_PART_BYTES, _ROW_BYTES = 28 << 10, 160
"""What Arrow takes for batches that are returned together, and for each of their headers."""


def verify_log(
    log: PartitionLog,
    advance: Callable[[int], None] = lambda _: None,
    threads: int = 1,
    gaps: Gaps = Gaps.UNKNOWN,
    on_doubt: Callable[[GapCount], None] = lambda _: None,
    reopen: Callable[[], PartitionLog] | None = None,
) -> Iterator[Problem]:
    """Check a log and yield its problems.

    These are checked:

    - batches: checksum, structure of every record, order of offsets;
    - indexes: impossible entries, entries that point to no batch or would mislead a reader, missing aborted
      transactions;
    - producer state snapshots, leader epochs and checkpoints;
    - offsets that no batch has, if the topic is not compacted.

    If the topic's policy is unknown, such offsets are only counted. After damage, the check continues with
    the next valid batch.

    While a broker has the directory open, the end of the last segment is not checked, because a batch may be
    half written. Segments that the broker deletes are not checked. If it compacts some, the new ones are.

    Args:
        log: the log.
        advance: called with the number of bytes of .log files that were processed since the last call. The
            threads call it with 0, and stop if it raises an error.
        threads: the number of segments to read at a time.
        gaps: whether compaction explains offsets that no batch has.
        on_doubt: called with the gaps of a log whose topic's policy is unknown, if it has some.
        reopen: opens the log again; by default with the same checkpoints.

    Raises OSError, KafkaLogError: a file cannot be read.
    """
    verification = _Verification(log, advance, threads, gaps, reopen or log.reopen)
    verification.run()
    log = verification.log
    found = GapCount()
    for each in verification.checked:
        yield from each.problems
        found.include(each.gaps)
    if found.gaps and gaps is Gaps.UNKNOWN:
        on_doubt(found)
    yield from verification.missing_end
    yield from _check_lost(log)
    yield from _check_snapshots(log)
    yield from _check_end(log)
    yield from _check_start(log)
    yield from verification.epoch_problems


@dataclass(frozen=True, slots=True)
class _CheckedSegment:
    """A segment that was checked, with its problems, and the gaps that end in it."""

    segment: LogSegment
    problems: Sequence[Problem]
    gaps: GapCount


@dataclass(slots=True)
class _Verification:
    """The check of the segments of a log, which a broker may be changing.

    Attributes:
        log: the log as it was opened last.
        advance, threads, gaps, reopen: see `verify_log`.
        checked: the segments that were checked, in order.
        missing_end: the problems of missing segments that no other segment follows.
        epoch_problems: what `EpochCheck.finish` found, as keys: each problem counts once.
    """

    log: PartitionLog
    advance: Callable[[int], None]
    threads: int
    gaps: Gaps
    reopen: Callable[[], PartitionLog]
    checked: list[_CheckedSegment] = field(default_factory=list)
    missing_end: list[Problem] = field(default_factory=list)
    epoch_problems: dict[Problem, None] = field(default_factory=dict)

    def run(self) -> None:
        """Check all segments.

        If a file was replaced or removed before it was read, open the log again and continue there. A problem
        counts only if the files of its segment are still there afterwards. Otherwise, some of them may have
        been read before a change, and others after it.
        """
        failures = 0
        while True:
            begun = len(self.checked)
            error = self._check_rest()
            if error is None and not any(each.problems for each in self.checked):
                return
            is_live = self.log.checkpoints.live
            self.log = self.reopen()
            valid = self._count_valid(may_grow=is_live)
            is_all_valid = valid == len(self.checked)
            if error is None and is_all_valid:
                return
            failures = 0 if is_all_valid and valid > begun else failures + 1
            if failures == ATTEMPTS:
                if error is not None:
                    raise error
                return
            del self.checked[valid:]

    def _check_rest(self) -> Exception | None:
        """Check the segments that are left. Return the error if a file was replaced or removed."""
        log = self.log
        read_epochs = partial(read_leader_epochs, log.state.source.folder)
        epochs = EpochCheck(log.path, log.topic, log.log_start_offset, read_epochs)
        try:
            self.checked.extend(self._check_segments(epochs))
        except CHANGED as error:
            return error
        finally:
            self.epoch_problems.update(dict.fromkeys(epochs.finish()))
        return None

    def _count_valid(self, *, may_grow: bool) -> int:
        """Return how many of the checked segments, from the first on, have no problems of changed files.

        With `may_grow`, a file may have grown, because the check took this into account.
        """
        segments = {segment.base_offset: segment for segment in self.log.segments}
        for index, each in enumerate(self.checked):
            now = segments.get(each.segment.base_offset)
            if each.problems and not _is_unchanged(each.segment, now, may_grow=may_grow):
                return index
        return len(self.checked)

    def _check_segments(self, epochs: EpochCheck) -> Iterator[_CheckedSegment]:
        """Check the segments after the checked ones."""
        log, advance = self.log, self.advance
        checked_end = self.checked[-1].segment.end_offset if self.checked else 0
        segments = [segment for segment in log.segments if segment.end_offset > checked_end]
        base = segments[0].base_offset if segments else checked_end
        start = max(base, log.log_start_offset)
        states = newest_snapshot(log.path, log.state.usable_snapshots, start, base)
        previous = -1
        advice = advice_for(log.topic)
        gap_check = GapCheck(self.gaps, start)
        missing = {each.span.end_offset: each for each in missing_segments(log.state)}
        cut = None
        for segment, parts in zip(segments, _read_segments(segments, self.threads, advance), strict=True):
            is_last = segment is segments[-1]
            missing_before = missing.pop(segment.base_offset, None)
            problems = []
            if missing_before is not None:
                problems.append(_missing_segment(log, missing_before))
            gap_check.begin(segment.base_offset, is_reported=bool(cut or missing_before))
            below = max(previous, segment.base_offset - 1)
            is_written = is_last and log.checkpoints.live
            check = SegmentCheck(
                segment, is_last, is_written, states, epochs, gap_check, advice, below, advance
            )
            with segment.open() as file:
                for part in parts:
                    check.take(file, part)
            of_batches = [*check.problems, *check.check_damage()]
            found = gap_check.finish()
            if found.gaps and self.gaps is Gaps.UNEXPLAINED:
                of_batches.append(gap_problem(found, segment.path))
            cut = None if is_last else check.check_cut()
            if cut is not None and segment.size_bytes:  # an empty segment is missing
                of_batches.append(cut)
            problems += sorted(of_batches, key=lambda problem: problem.position or 0)
            if not is_written:
                problems += check.check_transaction_index()
            problems += check.check_offset_index(is_cut=cut is not None)
            problems += check.check_time_index()
            previous = check.previous
            advance(segment.size_bytes - check.position)
            yield _CheckedSegment(segment, problems, found)
        self.missing_end = [_missing_segment(log, each) for each in missing.values()]


def _is_unchanged(segment: LogSegment, now: LogSegment | None, *, may_grow: bool) -> bool:
    """Return whether the files of a segment are still there.

    `now` is the segment of the log with the same base offset; None: there is none.
    """
    return (
        now is not None
        and (segment.is_same_file(now) if may_grow else segment.id == now.id)
        and (now.log, now.index, now.time_index, now.transaction_index)
        == (segment.log, segment.index, segment.time_index, segment.transaction_index)
    )


def _read_segments(
    segments: Sequence[LogSegment], threads: int, advance: Callable[[int], None]
) -> Iterator[Iterator[Part]]:
    """Yield the batches and damaged ranges of each segment, and meanwhile read the following segments."""

    def read_ahead(segment: LogSegment) -> Iterator[Part]:
        parts = read_all_batches(segment)
        ahead, held_bytes = [], 0
        while held_bytes < _BYTES_AHEAD and (part := next(parts, None)) is not None:
            advance(0)
            ahead.append(part)
            rows = 1 if isinstance(part, DamagedRange) else part.batches.num_rows + len(part.damaged)
            held_bytes += _PART_BYTES + _ROW_BYTES * rows
        return chain(ahead, parts)

    return map(read_all_batches, segments) if threads == 1 else map_ahead(read_ahead, segments, threads)


def _missing_segment(log: PartitionLog, missing: MissingSegment) -> Problem:
    does = "rebuilds" if missing.is_empty else "removes"
    return Problem(
        "missing-segment",
        f"{log.path}/{missing.index}",
        None,
        missing.span.start_offset,
        str(missing),
        f"Take it from another replica. A broker ignores the gap and {does} the index",
    )


def _check_lost(log: PartitionLog) -> Iterator[Problem]:
    """Yield a problem for offsets between segments in remote storage that no segment has."""
    span = OffsetSpan(log.local_log_start_offset, log.log_end_offset)
    for lost in log.state.source.lost(span):
        yield Problem(
            "missing-segment",
            str(log.path),
            None,
            lost.start_offset,
            f"expected offsets {lost.start_offset} to {lost.end_offset - 1} in remote storage, found none",
            "Restore the objects of the segment from a backup. Brokers fail to read these offsets",
        )


def _check_end(log: PartitionLog) -> Iterator[Problem]:
    """Yield a problem if the log ends before its checkpointed high watermark or before a snapshot.

    Consumers may have read all records below the high watermark.
    """
    checkpointed, end = log.checkpoints.high_watermark, log.log_end_offset
    if log.checkpoints.live:
        return
    advice = (
        "Take the partition from another replica. Records appended here would get offsets that consumers "
        "have read already"
    )
    if checkpointed is not None and checkpointed > end:
        message = (
            f"expected the log to reach its high watermark {checkpointed} (replication-offset-checkpoint), "
            f"found its end at {end}: the records after it are missing"
        )
        yield Problem("missing-end", str(log.path), None, end, message, advice)
    elif log.state.snapshots and log.state.snapshots[0][0] > end:
        reached, name = log.state.snapshots[0]
        message = f"expected the log to reach offset {reached}, as {name} does, found its end at {end}"
        yield Problem("missing-end", str(log.path), None, end, message, advice)


def _check_start(log: PartitionLog) -> Iterator[Problem]:
    start, end = log.log_start_offset, log.state.tail.next_offset
    if log.segments and end < start:
        yield Problem(
            "log-start-offset",
            str(log.path),
            None,
            end,
            f"expected the log to reach its start offset {start} (log-start-offset-checkpoint), found its "
            f"end at {end}: a broker removes all its segments, and so does kafkalog recover",
            "To keep them, correct the checkpoint",
        )


def _check_snapshots(log: PartitionLog) -> Iterator[Problem]:
    for offset, name in log.state.snapshots:
        path = f"{log.path}/{name}"
        try:
            parse_snapshot(log.state.source.folder.read(name))
        except FileNotFoundError:  # a broker has removed it
            continue
        except CorruptIndexError as error:
            advice = (
                "Remove it, as a broker does, which then uses an older snapshot and the batches after that"
            )
            yield Problem("snapshot", path, None, offset, error.message, advice)
