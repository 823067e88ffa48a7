"""Decide what a round does with each batch, from the batch's header alone.

Transactions can extend over several segments and groups. The plan of a round gives each group what it must
know about the rest of the log (GroupContext), so groups can be rewritten independently. The kernel gets one
byte, a Verdict, for each batch. (Kafka: CleanedTransactionMetadata; the RecordFilter in Cleaner.cleanInto)
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

_COLUMNS = (
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
class LastRecord:
    """The last batch of a producer in a log (Kafka: LastRecord).

    Attributes:
        last_data_offset: the last offset of its last batch that is not a control batch; None if there is none
            with this epoch.
        timestamp_ms: the greatest timestamp of its last batch.
    """

    epoch: int
    last_data_offset: int | None
    timestamp_ms: int


@dataclass(slots=True)
class ProducerTable:
    """The last record of each producer, by producer id, at a point of the log."""

    by_id: dict[int, LastRecord] = field(default_factory=dict)

    def add_batches(self, batches: pa.RecordBatch) -> None:
        """Add the headers of the batches (BATCH_SCHEMA) that follow in the log."""
        if _have_one_producer(batches):  # the usual case: only the last batch counts
            batches = batches.slice(batches.num_rows - 1)
        names = ("producerId", "producerEpoch", "lastOffset", "isControl", "maxTimestamp")
        for producer_id, epoch, last_offset, is_control, timestamp_ms in zip(
            *(batches.column(name).to_pylist() for name in names), strict=True
        ):
            if producer_id < 0:
                continue
            last = self.by_id.get(producer_id)
            if last is None or last.epoch != epoch:
                last = self.by_id[producer_id] = LastRecord(epoch, None, timestamp_ms)
            if not is_control:
                last.last_data_offset = last_offset
            last.timestamp_ms = timestamp_ms

    def extend(self, following: ProducerTable) -> None:
        """Append the table of the part of the log that follows."""
        for producer_id, last in following.by_id.items():
            before = self.by_id.get(producer_id)
            if before is not None and before.epoch == last.epoch and last.last_data_offset is None:
                last = LastRecord(last.epoch, before.last_data_offset, last.timestamp_ms)
            self.by_id[producer_id] = last

    def active(self, expired_before_ms: int) -> dict[int, LastRecord]:
        """Return the last records with a timestamp at or after `expired_before_ms`."""
        return {id: last for id, last in self.by_id.items() if last.timestamp_ms >= expired_before_ms}


def _have_one_producer(batches: pa.RecordBatch) -> bool:
    """Return whether all batches have the same producer id and epoch, and none is a control batch."""
    ids, epochs = (pc.min_max(batches.column(name)) for name in ("producerId", "producerEpoch"))
    return (
        ids["min"] == ids["max"]
        and epochs["min"] == epochs["max"]
        and not batches.column("isControl").true_count
    )


@dataclass(frozen=True, slots=True)
class GroupContext:
    """What the verdicts on a group's batches depend on, apart from their headers. Plain values.

    Attributes:
        aborted: the aborted transactions that have data or their marker in the group.
        open_producers: the ids of the producers with an open transaction at the beginning of the group.
        producers: the last records of the producers that have not expired at the end of the log, unless their
            last data batch is outside the group.
        round_end: the end offset of the round, exclusive. The batch that ends there is kept, even if no
            record of it survives (KAFKA-17076).
    """

    aborted: tuple[AbortedRange, ...]
    open_producers: frozenset[int]
    producers: Mapping[int, LastRecord]
    round_end: int


class GroupVerdicts:
    """Decides on the batches of one group. The batches must be given in the order of the log.

    Attributes:
        retained_last_offsets: ascending last offsets of the batches that may have to be kept although none of
            their records survives. All other batches, except control batches and those of transactions,
            have the verdict FILTER.
    """

    def __init__(self, context: GroupContext, now_ms: int) -> None:
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        for producer_id, first, last in context.aborted:
            self._aborted.setdefault(producer_id, []).append((first, last))
        self._markers = {(producer_id, last) for producer_id, _, last in context.aborted}
        self._open = set(context.open_producers)
        self._producers = context.producers
        self._round_end = context.round_end
        last_offsets = (last.last_data_offset for last in context.producers.values())
        self.retained_last_offsets = sorted(
            [offset for offset in last_offsets if offset is not None] + [self._round_end - 1]
        )
        self._now_ms = now_ms

    def decide(self, batches: pa.RecordBatch) -> bytes | None:
        """Return one byte (Verdict) for each of `batches` (BATCH_SCHEMA), or None if all are FILTER."""
        if not self._need_verdicts(batches):
            return None
        columns = (batches.column(name).to_pylist() for name in _COLUMNS)
        return bytes(self._verdict(*row) for row in zip(*columns, strict=True))

    def _need_verdicts(self, batches: pa.RecordBatch) -> bool:
        """Return whether a verdict may differ from FILTER. That is rare, so check whole columns first."""
        if has_transactions(batches):
            return True
        limits = pc.min_max(batches.column("lastOffset")).as_py()
        return self.may_retain_empty(None if limits["min"] is None else (limits["min"], limits["max"]))

    def may_retain_empty(self, last_offsets: tuple[int, int] | None) -> bool:
        """Return whether a batch may have to be kept although none of its records survives.

        Args:
            last_offsets: the least and the greatest last offset of the batches; None if there is no batch.
        """
        if last_offsets is None:
            return False
        index = bisect_left(self.retained_last_offsets, last_offsets[0])
        return (
            index < len(self.retained_last_offsets) and self.retained_last_offsets[index] <= last_offsets[1]
        )

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
            verdict = self._control_verdict(producer_id, last_offset, control_type, horizon_ms)
        elif is_transactional:
            verdict = self._data_verdict(producer_id, base_offset)
        if self._is_retained(producer_id, epoch, last_offset, is_control):
            verdict |= Verdict.RETAIN_EMPTY
        return verdict

    def _data_verdict(self, producer_id: int, base_offset: int) -> Verdict:
        self._open.add(producer_id)
        is_aborted = any(first <= base_offset <= last for first, last in self._aborted.get(producer_id, ()))
        return Verdict.DISCARD if is_aborted else Verdict.FILTER

    def _control_verdict(
        self, producer_id: int, offset: int, control_type: int | None, horizon_ms: int | None
    ) -> Verdict:
        if control_type == ABORT:
            is_needed = (producer_id, offset) in self._markers
        elif control_type == COMMIT:
            is_needed = producer_id in self._open
        else:  # None: an earlier round removed the marker. Markers of other types are never removed.
            is_needed = control_type is not None
        if control_type in (ABORT, COMMIT):
            self._open.discard(producer_id)
        if is_needed:
            return Verdict.FILTER
        if horizon_ms is not None and horizon_ms <= self._now_ms:
            return Verdict.DISCARD
        return Verdict.FILTER | Verdict.SET_HORIZON

    def _is_retained(self, producer_id: int, epoch: int, last_offset: int, is_control: bool) -> bool:
        if last_offset + 1 == self._round_end:
            return True
        last = self._producers.get(producer_id) if producer_id >= 0 else None
        if last is None:
            return False
        if last.last_data_offset is None:
            return is_control and last.epoch == epoch
        return last.last_data_offset == last_offset
