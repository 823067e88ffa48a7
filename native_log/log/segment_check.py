"""Check every batch and index of one segment without changing it."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from native_log.log.gaps import GAP_ADVICE
from native_log.log.problems import Advice, Problem
from native_log.log.producers.producer_states import ProducerStates, read_batch
from native_log.records import MAX_BATCH_BYTES, DecodeOptions, decode
from native_log.segment.damage import DamagedRange
from native_log.segment.entries import OFFSET_ENTRY, TIME_ENTRY
from native_log.segment.files import INDEX, MAX_SEGMENT_BYTES, TIME_INDEX, TRANSACTION_INDEX, file_name
from native_log.segment.indexing import ORDER
from native_log.segment.scan import first_at_least, int32s, int64s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from native_log.log.epoch_check import EpochCheck
    from native_log.log.gaps import GapCheck
    from native_log.segment.health import IndexHealth
    from native_log.segment.rebuild import ValidBatches
    from native_log.segment.segment import LogSegment
    from native_log.segment.transaction_index import AbortedTxn
    from native_log.storage import DataFile

_DECODE_OPTIONS = DecodeOptions(control=True, check_crcs=False, max_batch_bytes=MAX_BATCH_BYTES)

_SERVED = (
    "Brokers serve this batch of {} bytes, and consumers fail to read it. Take the file from another "
    "replica, or read with mode dropMalformed"
)
_INDEX_KINDS = {INDEX: "offset-index", TIME_INDEX: "time-index", TRANSACTION_INDEX: "transaction-index"}

Part: TypeAlias = "ValidBatches | DamagedRange"
"""What is read of a segment at a time."""


def _int64s() -> array[int]:
    return array("q")


@dataclass(slots=True)
class SegmentCheck:
    """The checks of one segment, and what they collect while its batches are read.

    Attributes:
        segment: the segment.
        is_last: whether it is the last one of the log.
        is_written: whether a broker may be appending to it. Then only what was listed is checked.
        states: the producer state of the log, up to the last batch read.
        epochs: the check of the log's leader epochs.
        gaps: the check that no offset is missing.
        advice: the advice for this log.
        previous: the greatest offset of the log so far; at least the offset before the segment.
        advance: called with the number of bytes processed.
        position: the position up to which the segment was processed.
        problems: problems of its batches.
        positions, last_offsets, timestamps_ms: position, last offset and maximum timestamp of each valid
            batch.
        damaged: the byte ranges without valid batches.
        aborted: the transactions whose ABORT marker is in the segment.
    """

    segment: LogSegment
    is_last: bool
    is_written: bool
    states: ProducerStates
    epochs: EpochCheck
    gaps: GapCheck
    advice: Advice
    previous: int
    advance: Callable[[int], None]
    position: int = 0
    problems: list[Problem] = field(default_factory=list)
    positions: array[int] = field(default_factory=_int64s)
    last_offsets: array[int] = field(default_factory=_int64s)
    timestamps_ms: array[int] = field(default_factory=_int64s)
    damaged: list[DamagedRange] = field(default_factory=list)
    aborted: list[AbortedTxn] = field(default_factory=list)

    def take(self, file: DataFile, part: Part) -> None:
        """Check the next valid batches of the segment, or note its next damaged range."""
        if isinstance(part, DamagedRange):
            self.damaged.append(part)
            self.gaps.lose(part)
            return
        batches = part.batches
        positions, lasts = int64s(batches, "position"), int64s(batches, "lastOffset")
        sizes = int32s(batches, "sizeInBytes")
        for position in part.invalid_records:
            index = bisect_left(positions, position)
            if index < len(positions):
                first = batches.column("baseOffset")[index].as_py()
                if first is None:  # a wrapper: only its records have the first offset
                    first = 1 + (lasts[index - 1] if index else self.previous)
                self._check_records(file, position, sizes[index], first, lasts[index])
        self.previous = lasts[-1]
        self.damaged += part.damaged
        self.gaps.take(batches, part.damaged)
        self.problems += self.epochs.take(file.path, batches)
        end = positions[-1] + sizes[-1]
        self.advance(end - self.position)
        self.position = end
        self.positions.frombytes(positions.cast("b"))
        self.last_offsets.frombytes(lasts.cast("b"))
        self.timestamps_ms.frombytes(int64s(batches, "maxTimestamp").cast("b"))
        # Brokers ignore transactions below the log start offset.
        first_known = first_at_least(batches, "lastOffset", self.states.end_offset)
        if first_known is not None:
            self.aborted += self.states.apply(batches.slice(first_known), partial(read_batch, file))

    def _check_records(self, file: DataFile, position: int, size: int, first: int, last: int) -> None:
        """Check the records of a batch, which may have the offsets from `first` to `last`."""
        message = _records_problem(file.read(position, size), first, last)
        if message is not None:
            problem = Problem("records", file.path, position, first, message, _SERVED.format(size))
            self.problems.append(problem)

    def check_damage(self) -> Iterator[Problem]:
        """Yield a problem for each damaged range."""
        for damaged in self.damaged:
            at_end = damaged.next_offset is None
            if not (at_end and self.is_written):
                kind, advice = damaged.kind, self.advice.damaged
                if kind == ORDER:
                    advice = self.advice.disordered
                elif at_end and self.is_last:
                    kind, advice = "torn", self.advice.torn
                problem = f"{damaged.reason}. {_extent(damaged)}"
                yield Problem(kind, damaged.path, damaged.position, damaged.offset, problem, advice)

    def check_transaction_index(self) -> Iterator[Problem]:
        """Check that the transaction index lists all aborted transactions.

        A broker knows aborted transactions only from this index. It does not notice if the file is missing.
        """
        index = self.segment.load_transaction_index()
        listed = {(entry.producer_id, entry.last_offset) for entry in index.entries}
        for txn in self.aborted:
            if (txn.producer_id, txn.last_offset) not in listed:
                message = (
                    f"expected an entry for the aborted transaction of producer {txn.producer_id} from "
                    f"offset {txn.first_offset}, found none: read_committed consumers get its records"
                )
                yield self._index_problem(TRANSACTION_INDEX, None, txn.last_offset, message)
        if index.health.status in ("unreadable", "torn", "corrupt", "zero-filled"):
            yield self._unhealthy(TRANSACTION_INDEX, index.health)

    def check_cut(self) -> Problem | None:
        """Return a problem if records at the end of the file are missing, as the time index shows.

        The index gets its last entry when the segment is complete.
        """
        entry = self.segment.last_time_entry()
        last = self.last_offsets[-1] if self.last_offsets else self.segment.base_offset - 1
        if entry is None or self.damaged or not last < entry[1] < self.segment.end_offset:
            return None
        message = (
            f"the file ends with offset {last}, but according to its time index it had offset {entry[1]}"
        )
        return Problem("missing", str(self.segment.path), self.position, last + 1, message, GAP_ADVICE)

    def check_offset_index(self, *, is_cut: bool) -> Iterator[Problem]:
        """Check that each entry of the offset index points to a batch that fits its offset.

        Entries that point beyond the end of a file that was cut off are right.
        """
        index = self.segment.load_offset_index()
        health = index.health(MAX_SEGMENT_BYTES if self.is_written else self.segment.size_bytes)
        if not is_cut:
            yield from self._health(INDEX, health)
        for entry, (offset, position) in enumerate(islice(index, health.entries)):
            if position >= self.segment.size_bytes:  # appended since
                break
            message = self._entry_problem(offset, position)
            if message is not None:
                message = f"entry {entry} points to position {position} of the .log{message}"
                yield self._index_problem(INDEX, entry * OFFSET_ENTRY.size, offset, message)

    def _entry_problem(self, offset: int, position: int) -> str | None:
        """Return what is wrong with an index entry; None if it is right.

        A batch must begin at its position, all offsets before that position must be below its offset, and the
        segment must reach its offset.
        """
        batch = bisect_left(self.positions, position)
        if batch == len(self.positions) or self.positions[batch] != position:
            return None if self._is_damaged(position) else ", where no batch begins"
        if batch and self.last_offsets[batch - 1] >= offset:
            return f" for offset {offset}, which lies before that position: lookups by offset miss records"
        last = self.last_offsets[-1]
        is_whole = not self.damaged or self.damaged[-1].end_position <= position
        if last < offset and is_whole and not self.is_written:
            return f" for offset {offset}, but the segment ends at {last}: a broker ends the log too early"
        return None

    def check_time_index(self) -> Iterator[Problem]:
        """Check each entry of the time index: no record up to its offset may have a greater timestamp.

        A segment without timestamps needs no time index. Brokers before Kafka 0.10 wrote neither.
        """
        index = self.segment.load_time_index()
        health = index.health()
        if health.status != "missing" or max(self.timestamps_ms, default=-1) >= 0:
            yield from self._health(TIME_INDEX, health)
        greatest, batches = -1, 0
        for entry, (timestamp_ms, offset) in enumerate(islice(index, health.entries)):
            while batches < len(self.last_offsets) and self.last_offsets[batches] <= offset:
                greatest = max(greatest, self.timestamps_ms[batches])
                batches += 1
            if batches and greatest > timestamp_ms:
                message = (
                    f"entry {entry}: expected no timestamp greater than {timestamp_ms} up to its offset, "
                    f"found {greatest} in the log: lookups by time miss records"
                )
                yield self._index_problem(TIME_INDEX, entry * TIME_ENTRY.size, offset, message)

    def _is_damaged(self, position: int) -> bool:
        before = bisect_right(self.damaged, position, key=attrgetter("position"))
        return before > 0 and position < self.damaged[before - 1].end_position

    def _health(self, kind: str, health: IndexHealth) -> Iterator[Problem]:
        """Check what can be told without the batches. The last segment may have a preallocated index.

        A broker creates an index when it first needs it (Kafka: LazyIndex).
        """
        if health.status == "missing":
            if self.segment.size_bytes and not self.is_written:
                yield self._index_problem(kind, None, self.segment.base_offset, "the file is missing")
        elif health.status in ("unreadable", "torn", "corrupt") or (
            health.status == "zero-filled" and not self.is_last
        ):
            yield self._unhealthy(kind, health)

    def _unhealthy(self, kind: str, health: IndexHealth) -> Problem:
        where = "" if health.status == "unreadable" else f" after the first {health.entries} entries"
        return self._index_problem(kind, None, self.segment.base_offset, f"{health.status}{where}")

    def _index_problem(self, kind: str, position: int | None, offset: int, message: str) -> Problem:
        names = {
            INDEX: self.segment.index,
            TIME_INDEX: self.segment.time_index,
            TRANSACTION_INDEX: self.segment.transaction_index,
        }
        path = f"{self.segment.directory}/{names[kind] or file_name(self.segment.base_offset, kind)}"
        return Problem(_INDEX_KINDS[kind], path, position, offset, message, self.advice.reindex)


def _extent(damaged: DamagedRange) -> str:
    """Describe the bytes: `123 bytes, up to position 456, with offsets 7 to 9, cannot be read`."""
    size = f"{damaged.end_position - damaged.position} bytes, up to position {damaged.end_position}"
    first, following = damaged.offset, damaged.next_offset
    if following is None:
        return f"{size}, the end of the file, cannot be read"
    if first is None or following <= first:
        return f"{size}, cannot be read; no offset is missing"
    return f"{size}, with offsets {first} to {following - 1}, cannot be read"


def _records_problem(batch: bytes, least: int, last_offset: int) -> str | None:
    """Return what is wrong with the records of a batch; None if nothing is.

    Their offsets must increase, from `least` at the lowest to `last_offset` at the highest.
    """
    decoded = decode(batch, ["offset"], _DECODE_OPTIONS)
    if decoded.damage is not None:
        return decoded.damage.message
    offsets = int64s(decoded.batch, "offset").tolist()
    if offsets and not (least <= offsets[0] and offsets[-1] <= last_offset and _increase(offsets)):
        return f"expected records with increasing offsets from {least} to {last_offset}, found {offsets[:9]}"
    return None


def _increase(offsets: list[int]) -> bool:
    return all(before < after for before, after in pairwise(offsets))
