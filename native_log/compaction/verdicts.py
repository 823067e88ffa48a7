"""What becomes of each batch of a round, from the headers alone (Kafka: CleanedTransactionMetadata,
Cleaner.cleanInto's RecordFilter).

Transactions run across segments and groups: what a group must know of the log around it comes with the plan,
so that groups can be rewritten apart. A verdict is one byte a batch, for the kernel.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from native_log.log.producers.open_transactions import ABORT, COMMIT, has_transactions
from native_log.records import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

AbortedRange = tuple[int, int, int]
"""(producer id, first offset, offset of the ABORT marker)."""

_ASKED = (
    "producerId",
    "producerEpoch",
    "baseOffset",
    "lastOffset",
    "isTransactional",
    "isControl",
    "controlType",
    "deleteHorizonMs",
)


@dataclass(slots=True)
class ProducerEnd:
    """The last that a log tells of a producer. A new epoch forgets the data of the one before."""

    epoch: int
    last_data_offset: int | None
    timestamp_ms: int


@dataclass(slots=True)
class ProducerEnds:
    """Moved along the log header by header; what the broker knows of producers at its end."""

    by_id: dict[int, ProducerEnd] = field(default_factory=dict)

    def apply(self, batches: pa.RecordBatch) -> None:
        """Takes the batches (BATCH_SCHEMA) that follow."""
        if _is_of_one_producer(batches):  # as a rule: then the last of them says it all
            batches = batches.slice(batches.num_rows - 1)
        names = ("producerId", "producerEpoch", "lastOffset", "isControl", "maxTimestamp")
        for producer_id, epoch, last_offset, is_control, timestamp_ms in zip(
            *(batches.column(name).to_pylist() for name in names), strict=True
        ):
            if producer_id < 0:
                continue
            found = self.by_id.get(producer_id)
            if found is None or found.epoch != epoch:
                found = self.by_id[producer_id] = ProducerEnd(epoch, None, timestamp_ms)
            if not is_control:
                found.last_data_offset = last_offset
            found.timestamp_ms = timestamp_ms

    def add(self, following: ProducerEnds) -> None:
        """Takes what is known of the part of the log that follows."""
        for producer_id, end in following.by_id.items():
            found = self.by_id.get(producer_id)
            if found is not None and found.epoch == end.epoch and end.last_data_offset is None:
                end = ProducerEnd(end.epoch, found.last_data_offset, end.timestamp_ms)
            self.by_id[producer_id] = end

    def active(self, expired_before_ms: int) -> dict[int, ProducerEnd]:
        return {id: end for id, end in self.by_id.items() if end.timestamp_ms >= expired_before_ms}


def _is_of_one_producer(batches: pa.RecordBatch) -> bool:
    ids, epochs = (pc.min_max(batches.column(name)) for name in ("producerId", "producerEpoch"))
    return (
        ids["min"] == ids["max"]
        and epochs["min"] == epochs["max"]
        and not batches.column("isControl").true_count
    )


@dataclass(frozen=True, slots=True)
class GroupContext:
    """What a group's batches are judged by, beside what their headers say. Plain values.

    Attributes:
        aborted: the aborted transactions with data or their marker in the group.
        open_producers: those with a transaction open at the group's beginning.
        producers: what the log's end tells of producers that are not expired; of those whose last data lies
            outside of the group nothing is asked.
        round_end: the offset at which the round ends. The batch that ends there is kept, if empty
            (KAFKA-17076).
    """

    aborted: tuple[AbortedRange, ...]
    open_producers: frozenset[int]
    producers: Mapping[int, ProducerEnd]
    round_end: int


class GroupVerdicts:
    """The verdicts of one group, asked for its batches in the order of the log.

    Attributes:
        retained: last offsets, ascending, of the batches that may have to be retained. Other batches, if they
            are of no transaction and no control batches, are just filtered.
    """

    def __init__(self, context: GroupContext, now_ms: int) -> None:
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        for producer_id, first, last in context.aborted:
            self._aborted.setdefault(producer_id, []).append((first, last))
        self._markers = {(producer_id, last) for producer_id, _, last in context.aborted}
        self._open = set(context.open_producers)
        self._producers = context.producers
        self._round_end = context.round_end
        ends = (end.last_data_offset for end in context.producers.values())
        self.retained = sorted([offset for offset in ends if offset is not None] + [self._round_end - 1])
        self._now_ms = now_ms

    def of(self, batches: pa.RecordBatch) -> bytes | None:
        """A byte (Verdict) for each of `batches` (BATCH_SCHEMA); None: FILTER for all."""
        if not self._has_more_than_data(batches):
            return None
        columns = (batches.column(name).to_pylist() for name in _ASKED)
        return bytes(self._verdict(*row) for row in zip(*columns, strict=True))

    def _has_more_than_data(self, batches: pa.RecordBatch) -> bool:
        """Batches of a transaction, or one that is retained. A look at columns, for there are seldom any."""
        if has_transactions(batches):
            return True
        found = pc.min_max(batches.column("lastOffset")).as_py()
        return self.retains_one_of(None if found["min"] is None else (found["min"], found["max"]))

    def retains_one_of(self, last_offsets: tuple[int, int] | None) -> bool:
        """Whether a batch that ends within these offsets, the last one included, may have to be retained."""
        if last_offsets is None:
            return False
        at = bisect_left(self.retained, last_offsets[0])
        return at < len(self.retained) and self.retained[at] <= last_offsets[1]

    def _verdict(
        self,
        producer_id: int,
        epoch: int,
        base_offset: int,
        last_offset: int,
        is_transactional: bool,
        is_control: bool,
        control_type: int | None,
        horizon_ms: int | None,
    ) -> Verdict:
        verdict = Verdict.FILTER
        if is_control:
            verdict = self._control(producer_id, last_offset, control_type, horizon_ms)
        elif is_transactional:
            verdict = self._data(producer_id, base_offset)
        if self._is_retained(producer_id, epoch, last_offset, is_control):
            verdict |= Verdict.RETAIN_EMPTY
        return verdict

    def _data(self, producer_id: int, base_offset: int) -> Verdict:
        self._open.add(producer_id)
        is_aborted = any(first <= base_offset <= last for first, last in self._aborted.get(producer_id, ()))
        return Verdict.DISCARD if is_aborted else Verdict.FILTER

    def _control(self, producer_id: int, offset: int, kind: int | None, horizon_ms: int | None) -> Verdict:
        if kind == ABORT:
            is_needed = (producer_id, offset) in self._markers
        elif kind == COMMIT:
            is_needed = producer_id in self._open
        else:  # emptied by an earlier round; other types are never removed
            is_needed = kind is not None
        if kind in (ABORT, COMMIT):
            self._open.discard(producer_id)
        if is_needed:
            return Verdict.FILTER
        if horizon_ms is not None and horizon_ms <= self._now_ms:
            return Verdict.DISCARD
        return Verdict.FILTER | Verdict.SET_HORIZON

    def _is_retained(self, producer_id: int, epoch: int, last_offset: int, is_control: bool) -> bool:
        if last_offset + 1 == self._round_end:
            return True
        end = self._producers.get(producer_id) if producer_id >= 0 else None
        if end is None:
            return False
        if end.last_data_offset is None:
            return is_control and end.epoch == epoch
        return end.last_data_offset == last_offset
