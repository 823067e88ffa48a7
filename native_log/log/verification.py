"""A log checked through and through, without changing it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.errors import CorruptIndexError
from native_log.log.epoch_check import EpochCheck
from native_log.log.problems import Advice, Problem, advice_for
from native_log.log.producers.producer_state import parse_snapshot
from native_log.log.producers.producer_states import ProducerStates, newest_snapshot, read_batch
from native_log.records import MAX_BATCH_BYTES, decode
from native_log.segment.entries import OFFSET_ENTRY, TIME_ENTRY
from native_log.segment.files import (
    DELETED,
    INDEX,
    LOG,
    TIME_INDEX,
    TRANSACTION_INDEX,
    file_name,
    parse_file_name,
)
from native_log.segment.rebuild import ORDER, read_through
from native_log.segment.scan import int32s, int64s
from native_log.storage import read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from native_log.log import PartitionLog
    from native_log.segment.damage import DamagedRange
    from native_log.segment.health import IndexHealth
    from native_log.segment.segment import LogSegment
    from native_log.segment.transaction_index import AbortedTxn
    from native_log.storage import DataFile

_SERVED = (
    "Brokers serve this batch of {} bytes, and consumers fail at it: take the file from another replica, or "
    "read with mode dropMalformed"
)
_INDEX_KINDS = {INDEX: "offset-index", TIME_INDEX: "time-index", TRANSACTION_INDEX: "transaction-index"}


def verify_log(log: PartitionLog, advance: Callable[[int], None] = lambda _: None) -> Iterator[Problem]:
    """What is wrong with a log: batches (checksum, structure of every record, order of offsets), indexes
    (entries that cannot be, that point to no batch, that would mislead a reader; aborted transactions that
    are missing), snapshots of producers' state, leader epochs.

    Behind damage it goes on with the next batch that is whole and right. While a broker runs on the
    directory, the end of the last segment may still be in the making, and is not judged.

    Args:
        advance: told how many bytes of the .log files were gone over since it was told last.
    """
    base = log.segments[0].base_offset if log.segments else 0
    states = newest_snapshot(log.path, log.snapshots, base, base)
    previous = -1
    advice, epochs = advice_for(log.topic), EpochCheck(log)
    without_log = _indexes_without_log(log)
    for segment in log.segments:
        is_last = segment is log.segments[-1]
        yield from _missing_segments(log, without_log, max(previous, base - 1), segment.base_offset)
        if segment.base_offset <= (log.checkpoints.log_start_offset or 0):
            states = ProducerStates(segment.base_offset)  # brokers know no older transactions
        below = max(previous, segment.base_offset - 1)
        check = _SegmentCheck(segment, states, epochs, advice, below, advance)
        read_through(segment, check.take, check.take_damage)
        is_written = is_last and log.checkpoints.live
        yield from sorted((*check.problems, *check.of_damage(is_last, is_written)), key=_position)
        if not is_written:
            yield from check.missing_aborted()
        yield from check.of_offset_index(is_last, is_written)
        yield from check.of_time_index(is_last)
        previous = check.previous
        advance(segment.size_bytes - check.position)
    if not log.checkpoints.live:
        yield from _missing_segments(log, without_log, previous, None)
    yield from _of_snapshots(log)
    yield from _missing_end(log)
    yield from _end_before_start(log)
    yield from epochs.finish()


@dataclass(slots=True)
class _SegmentCheck:
    """A segment on its way through the checks.

    Attributes:
        previous: greatest offset so far, of the log; at least the one below the segment.
        advance: told of bytes gone over; `position` is how far.
        problems: of its batches.
        positions, last_offsets, timestamps_ms: of its good batches; the timestamps are their greatest.
        damaged: the bytes between its good batches and behind them.
        aborted: the transactions whose ABORT marker is in it.
    """

    segment: LogSegment
    states: ProducerStates
    epochs: EpochCheck
    advice: Advice
    previous: int
    advance: Callable[[int], None]
    position: int = 0
    problems: list[Problem] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    last_offsets: list[int] = field(default_factory=list)
    timestamps_ms: list[int] = field(default_factory=list)
    damaged: list[DamagedRange] = field(default_factory=list)
    aborted: list[AbortedTxn] = field(default_factory=list)

    def take(self, file: DataFile, batches: pa.RecordBatch) -> None:
        positions, sizes = int64s(batches, "position").tolist(), int32s(batches, "sizeInBytes").tolist()
        bases, lasts = batches.column("baseOffset").to_pylist(), int64s(batches, "lastOffset").tolist()
        data = read_batch(file, positions[0], positions[-1] + sizes[-1] - positions[0])
        whole = _are_right(data, batches, [self.previous, *lasts[:-1]])
        for position, size, base, last in zip(positions, sizes, bases, lasts, strict=True):
            first = last if base is None else base
            at = position - positions[0]
            least = self.previous + 1 if base is None else base
            wrong = None if whole else _wrong_records(data[at : at + size], least, last)
            self.previous = last
            if wrong is not None:
                self.problems.append(
                    Problem("records", file.path, position, first, wrong, _SERVED.format(size))
                )
        self.problems += self.epochs.take(file.path, batches)
        end = positions[-1] + sizes[-1]
        self.advance(end - self.position)
        self.position = end
        self.positions += positions
        self.last_offsets += lasts
        self.timestamps_ms += int64s(batches, "maxTimestamp").tolist()
        self.aborted += self.states.apply(batches, partial(read_batch, file))

    def take_damage(self, damaged: DamagedRange) -> None:
        self.damaged.append(damaged)

    def of_damage(self, is_last: bool, is_written: bool) -> Iterator[Problem]:
        for one in self.damaged:
            at_end = one.next_offset is None
            if not (at_end and is_written):
                kind, advice = one.kind, self.advice.damaged
                if kind == ORDER:
                    advice = self.advice.disordered
                elif at_end and is_last:
                    kind, advice = "torn", self.advice.torn
                problem = f"{one.reason}. {_extent(one)}"
                yield Problem(kind, one.path, one.position, one.offset, problem, advice)

    def missing_aborted(self) -> Iterator[Problem]:
        """A broker knows of aborted transactions by this file alone, and misses nothing if it is not
        there."""
        index = self.segment.load_transaction_index()
        there = {(one.producer_id, one.last_offset) for one in index.entries}
        for one in self.aborted:
            if (one.producer_id, one.last_offset) not in there:
                message = (
                    f"the transaction of producer {one.producer_id} from offset {one.first_offset} on was "
                    "aborted, which is missing here: read_committed consumers get its records"
                )
                yield self._of_index(TRANSACTION_INDEX, None, one.last_offset, message)
        if index.health.status in ("unreadable", "torn", "corrupt", "zero-filled"):
            yield self._unhealthy(TRANSACTION_INDEX, index.health)

    def of_offset_index(self, is_last: bool, is_written: bool) -> Iterator[Problem]:
        index = self.segment.load_offset_index()
        health = index.health(self.segment.size_bytes)
        yield from self._health(INDEX, health, is_last)
        for entry in range(health.entries):
            offset, position = index.entry(entry)
            message = self._wrong_entry(offset, position, is_written)
            if message is not None:
                message = f"entry {entry} points to position {position} of the .log{message}"
                yield self._of_index(INDEX, entry * OFFSET_ENTRY.size, offset, message)

    def _wrong_entry(self, offset: int, position: int, is_written: bool) -> str | None:
        """All offsets before the position of an entry are below its offset, which the segment reaches."""
        if self._is_damaged(position):
            return None
        batch = bisect_left(self.positions, position)
        if batch == len(self.positions) or self.positions[batch] != position:
            return ", where no batch begins"
        if batch and self.last_offsets[batch - 1] >= offset:
            return f" for offset {offset}, which is before that: lookups by offset miss records"
        is_whole = not any(one.end_position > position for one in self.damaged)
        if self.last_offsets[-1] < offset and is_whole and not is_written:
            last = self.last_offsets[-1]
            return f" for offset {offset}, the segment ends with {last}: a broker ends the log too early"
        return None

    def of_time_index(self, is_last: bool) -> Iterator[Problem]:
        """An entry says that no record up to its offset has a greater timestamp."""
        index = self.segment.load_time_index()
        health = index.health()
        yield from self._health(TIME_INDEX, health, is_last)
        greatest = list(accumulate(self.timestamps_ms, max))
        batches = 0
        for entry in range(health.entries):
            timestamp_ms, offset = index.entry(entry)
            while batches < len(greatest) and self.last_offsets[batches] <= offset:
                batches += 1
            if batches and greatest[batches - 1] > timestamp_ms:
                message = (
                    f"entry {entry} tells of no timestamp above {timestamp_ms} up to its offset, the log has "
                    f"{greatest[batches - 1]}: lookups by time miss records"
                )
                yield self._of_index(TIME_INDEX, entry * TIME_ENTRY.size, offset, message)

    def _is_damaged(self, position: int) -> bool:
        return any(one.position <= position < one.end_position for one in self.damaged)

    def _health(self, kind: str, health: IndexHealth, may_be_preallocated: bool) -> Iterator[Problem]:
        if health.status == "missing" and self.segment.size_bytes:
            yield self._of_index(kind, None, self.segment.base_offset, "the file is missing")
        elif health.status in ("unreadable", "torn", "corrupt") or (
            health.status == "zero-filled" and not may_be_preallocated
        ):
            yield self._unhealthy(kind, health)

    def _unhealthy(self, kind: str, health: IndexHealth) -> Problem:
        where = "" if health.status == "unreadable" else f" behind its first {health.entries} entries"
        return self._of_index(kind, None, self.segment.base_offset, f"{health.status}{where}")

    def _of_index(self, kind: str, position: int | None, offset: int, message: str) -> Problem:
        names = {
            INDEX: self.segment.index,
            TIME_INDEX: self.segment.time_index,
            TRANSACTION_INDEX: self.segment.transaction_index,
        }
        path = f"{self.segment.directory}/{names[kind] or file_name(self.segment.base_offset, kind)}"
        return Problem(_INDEX_KINDS[kind], path, position, offset, message, self.advice.reindex)


def _position(problem: Problem) -> int:
    return problem.position or 0


def _extent(damaged: DamagedRange) -> str:
    """What cannot be read: `123 bytes, up to position 456, and with them offsets 7 to 9, cannot be read`."""
    size = f"{damaged.end_position - damaged.position} bytes, up to position {damaged.end_position}"
    first, behind = damaged.offset, damaged.next_offset
    if behind is None:
        return f"{size}, the end of the file, cannot be read"
    if first is None or behind <= first:
        return f"{size}, cannot be read; no offset is missing"
    return f"{size}, and with them offsets {first} to {behind - 1}, cannot be read"


def _are_right(data: memoryview, batches: pa.RecordBatch, last_offsets_before: list[int]) -> bool:
    """Whether the records of all these batches are as they must be. `last_offsets_before`: for each batch, of
    the one before it."""
    found = decode(
        data, ["offset", "position"], base_position=int64s(batches, "position")[0],
        control=True, check_crcs=False, max_batch_bytes=MAX_BATCH_BYTES,
    )  # fmt: skip
    if found.status != "end":
        return False
    offsets, positions = found.batch.column("offset"), found.batch.column("position")
    of_batch = pc.index_in(positions, batches.column("position"))
    behind = pc.greater(offsets, pa.array(last_offsets_before, pa.int64()).take(of_batch))
    after_base = pc.greater_equal(offsets, batches.column("baseOffset").take(of_batch))
    up_to_last = pc.less_equal(offsets, batches.column("lastOffset").take(of_batch))
    increase = pc.greater(offsets[1:], offsets[:-1])
    all_right = (behind, after_base, up_to_last, increase)
    return all(pc.all(one, min_count=0).as_py() is not False for one in all_right)


def _wrong_records(batch: memoryview, least: int, last_offset: int) -> str | None:
    """What is wrong with the records of a batch, which have offsets from `least` on; None if nothing is."""
    found = decode(batch, ["offset"], control=True, check_crcs=False, max_batch_bytes=MAX_BATCH_BYTES)
    if found.damage is not None:
        return found.damage.message
    offsets = int64s(found.batch, "offset").tolist()
    if offsets and not (least <= offsets[0] and offsets[-1] <= last_offset and _increase(offsets)):
        return f"expected records with increasing offsets from {least} to {last_offset}, found {offsets[:9]}"
    return None


def _increase(offsets: list[int]) -> bool:
    return all(before < after for before, after in pairwise(offsets))


def _indexes_without_log(log: PartitionLog) -> list[int]:
    """Base offsets. Where a crash stopped a removal, a broker has begun it with the .log."""
    names = [file.name for file in log.path.iterdir()]
    files = [file for file in map(parse_file_name, names) if file is not None]
    logs = {file.offset for file in files if file.kind == LOG and file.state in ("", DELETED)}
    return sorted({file.offset for file in files if file.kind == INDEX and not file.state} - logs)


def _missing_segments(
    log: PartitionLog, without_log: list[int], previous: int, next_base: int | None
) -> Iterator[Problem]:
    """Segments of which an index tells and that lie behind `previous`, the last offset before, and before the
    next. (Behind an offset that is there, it is of a segment that was merged into another.)"""
    missing = [base for base in without_log if previous < base and (next_base is None or base < next_base)]
    if missing and missing[0] >= log.log_start_offset:
        up_to = "" if next_base is None else f" to {next_base - 1}"
        yield Problem(
            "missing-segment",
            f"{log.path}/{file_name(missing[0], INDEX)}",
            None,
            missing[0],
            f"the .log of this index is missing, and with it offsets {missing[0]}{up_to}",
            "Take it from another replica: a broker passes over the gap, and removes the index",
        )


def _missing_end(log: PartitionLog) -> Iterator[Problem]:
    """Consumers may have had all records below the high watermark, which a broker notes every few seconds."""
    checkpointed, end = log.checkpoints.high_watermark, log.log_end_offset
    if log.checkpoints.live:
        return
    advice = (
        "Take the partition from another replica: what is appended here gets offsets that consumers have "
        "passed"
    )
    if checkpointed is not None and checkpointed > end:
        message = (
            f"the high watermark was {checkpointed} (replication-offset-checkpoint), the log ends at {end}: "
            "what it had from there on is missing"
        )
        yield Problem("missing-end", str(log.path), None, end, message, advice)
    elif log.snapshots and log.snapshots[0][0] > end:
        reached, name = log.snapshots[0]
        message = f"{name} was written when the log had reached offset {reached}, now it ends at {end}"
        yield Problem("missing-end", str(log.path), None, end, message, advice)


def _end_before_start(log: PartitionLog) -> Iterator[Problem]:
    start, end = log.log_start_offset, log.end_of_last_batch
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


def _of_snapshots(log: PartitionLog) -> Iterator[Problem]:
    for offset, name in log.snapshots:
        path = f"{log.path}/{name}"
        try:
            parse_snapshot(read_file(path))
        except CorruptIndexError as error:
            advice = (
                "Remove it: a broker removes it too, and goes by an older one and the batches behind that"
            )
            yield Problem("snapshot", path, None, offset, error.message, advice)
