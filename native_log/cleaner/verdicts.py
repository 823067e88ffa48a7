"""What becomes of each batch of a round, from the headers alone (Kafka: CleanedTransactionMetadata,
Cleaner.cleanInto's RecordFilter).

Transactions run across segments and groups, so one pass over all headers in order decides; it comes to
one byte a batch, for the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from native_log.log.producer_state import ABORT, COMMIT
from native_log.records import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

    def active(self, expired_before_ms: int) -> dict[int, ProducerEnd]:
        return {id: end for id, end in self.by_id.items() if end.timestamp_ms >= expired_before_ms}


class RoundVerdicts:
    """The verdicts of one round, asked for batches in the order of the log.

    Args:
        aborted: the aborted transactions with data in the round's segments.
        producers: what the log's end tells of producers that are not expired.
        end_offset: the round's end: the batch that ends there is kept, if empty (KAFKA-17076).
    """

    def __init__(
        self,
        aborted: Sequence[AbortedRange],
        producers: Mapping[int, ProducerEnd],
        end_offset: int,
        now_ms: int,
    ) -> None:
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        for producer_id, first, last in aborted:
            self._aborted.setdefault(producer_id, []).append((first, last))
        self._producers = producers
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._seen: set[tuple[int, int]] = set()  # aborted transactions with a data batch in this round
        self._committed: set[int] = set()  # producers of transactions with a data batch in this round

    def of(self, batches: pa.RecordBatch) -> tuple[bytes, list[int]]:
        """A byte (Verdict) for each of `batches` (BATCH_SCHEMA), and the offsets of ABORT markers that stay
        for the data they end: those whose entries the new transaction index must have."""
        verdicts = bytearray(batches.num_rows)
        markers: list[int] = []
        columns = (batches.column(name).to_pylist() for name in _ASKED)
        for index, (id, epoch, base, last, transactional, control, kind, horizon) in enumerate(
            zip(*columns, strict=True)
        ):
            if control:
                verdict = self._control(id, last, kind, horizon, markers)
            elif transactional:
                verdict = self._data(id, base)
            else:
                verdict = Verdict.FILTER
            if self._is_retained(id, epoch, last, control):
                verdict |= Verdict.RETAIN_EMPTY
            verdicts[index] = verdict
        return bytes(verdicts), markers

    def _data(self, producer_id: int, base_offset: int) -> Verdict:
        for first, last in self._aborted.get(producer_id, ()):
            if first <= base_offset <= last:
                self._seen.add((producer_id, last))
                return Verdict.DISCARD
        self._committed.add(producer_id)
        return Verdict.FILTER

    def _control(
        self, producer_id: int, offset: int, kind: int | None, horizon_ms: int | None, markers: list[int]
    ) -> Verdict:
        if kind == ABORT:
            can_discard = (producer_id, offset) not in self._seen
            if not can_discard:
                markers.append(offset)
        elif kind == COMMIT:
            can_discard = producer_id not in self._committed
            self._committed.discard(producer_id)
        else:  # emptied by an earlier round; other types are never removed
            can_discard = kind is None
        if not can_discard:
            return Verdict.FILTER
        if horizon_ms is not None and horizon_ms <= self._now_ms:
            return Verdict.DISCARD
        return Verdict.FILTER | Verdict.SET_HORIZON

    def _is_retained(self, producer_id: int, epoch: int, last_offset: int, is_control: bool) -> bool:
        if last_offset + 1 == self._end_offset:
            return True
        end = self._producers.get(producer_id) if producer_id >= 0 else None
        if end is None:
            return False
        if end.last_data_offset is None:
            return is_control and end.epoch == epoch
        return end.last_data_offset == last_offset
