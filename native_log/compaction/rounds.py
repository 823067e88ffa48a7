"""Plan a round: one compaction of one log.

Planning reads the log's headers. The plan consists of plain values, so it can be sent to the process that
carries it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.compaction.eligibility import CleanableRange, SegmentSizes, cleanable_range, group_segments
from native_log.compaction.survey import Survey, survey_log
from native_log.compaction.verdicts import AbortedRange, GroupContext, LastRecord
from native_log.log.largest_timestamp import largest_timestamp_ms
from native_log.log.producers.transactions import pack_ranges
from native_log.log.reading.log_range import LogRange
from native_log.log.slices import SegmentSlice
from native_log.segment.damage import DamagedRange
from native_log.segment.scan import max_batch_timestamp_ms
from native_log.segment.transaction_index import AbortedTxn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from native_log.config import LogConfig
    from native_log.log import PartitionLog
    from native_log.log.log_state import LogSource
    from native_log.segment.segment import LogSegment

_LAST_TIME_MS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """A segment to rewrite.

    Attributes:
        legacy_tombstones_kept: whether tombstones of magic 0 and 1, which have no delete horizon, are kept.
    """

    segment: LogSegment
    legacy_tombstones_kept: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive segments that a round merges into one. The new segment has the first one's base offset.

    Attributes:
        end_offset: the base offset of the segment that follows the group.
        aborted_transactions: the entries of the new segment's transaction index.
        context: what the verdicts on the batches depend on; None: the verdict on every batch is FILTER.
    """

    sources: tuple[SourceSegment, ...]
    end_offset: int
    aborted_transactions: tuple[AbortedTxn, ...]
    context: GroupContext | None

    @property
    def base_offset(self) -> int:
        return self.sources[0].segment.base_offset

    @property
    def base_offsets(self) -> tuple[int, ...]:
        return tuple(source.segment.base_offset for source in self.sources)

    @property
    def size_bytes(self) -> int:
        return sum(source.segment.size_bytes for source in self.sources)


@dataclass(frozen=True, slots=True)
class Round:
    """The plan of one compaction of one log. Plain values.

    Attributes:
        source: the log.
        first_dirty_offset, end_offset: the dirty range, end exclusive. A record in it replaces all earlier
            records with the same key.
        now_ms: the time from which ages are measured.
        delete_horizon_ms: the delete horizon for batches with tombstones that have none yet.
        aborted: the aborted transactions that have data in the round, packed as for `records.decode`.
        groups: all segments below `end_offset`, in offset order.
    """

    source: LogSource
    first_dirty_offset: int
    end_offset: int
    now_ms: int
    delete_horizon_ms: int
    index_interval_bytes: int
    aborted: bytes
    groups: tuple[Group, ...]

    def dirty_range(self) -> LogRange:
        return self.log_range(self.first_dirty_offset, self.end_offset)

    def clean_range(self) -> LogRange:
        return self.log_range(0, self.first_dirty_offset)

    def log_range(self, start_offset: int, end_offset: int) -> LogRange:
        """Return the records in [start_offset, end_offset), located in slices that are whole segments."""
        sources = [source for group in self.groups for source in group.sources]
        ends = [source.segment.base_offset for source in sources[1:]] + [self.end_offset]
        slices = tuple(
            SegmentSlice.of(s, 0, s.size_bytes, start_offset, end_offset)
            for s, end in zip((source.segment for source in sources), ends, strict=True)
            if s.size_bytes and s.base_offset < end_offset and end > start_offset
        )
        return LogRange(self.source, start_offset, end_offset, "read_uncommitted", slices)


def find_cleanable_range(log: PartitionLog, config: LogConfig, now_ms: int) -> CleanableRange:
    """Return the part of the log that can be compacted (see `cleanable_range`). Raises CorruptRecordError."""

    def first_timestamp_ms(index: int) -> int:
        """Return the greatest timestamp of the first batch (Kafka: LogSegment.getFirstBatchTimestamp)."""
        segment = log.segments[index]
        if segment.size_bytes:
            for _, scanned in log.state.headers(segment.base_offset, DamagedRange.reject):
                if scanned.batches.num_rows:
                    return max_batch_timestamp_ms(scanned.batches.slice(0, 1))
        return -1

    return cleanable_range(
        [segment_sizes(segment) for segment in log.segments],
        checkpoint=log.checkpoints.first_dirty_offset,
        log_start_offset=log.local_log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=log.last_stable_offset,
        config=config,
        now_ms=now_ms,
        largest_timestamp_ms=lambda index: largest_timestamp_ms(
            log, index, now_ms - config.min_compaction_lag_ms
        ),
        first_timestamp_ms=first_timestamp_ms,
    )


def segment_sizes(segment: LogSegment) -> SegmentSizes:
    def size(name: str | None) -> int:
        return 0 if name is None else segment.folder.size_bytes(name)

    return SegmentSizes(
        segment.base_offset, segment.size_bytes, size(segment.index), size(segment.time_index)
    )


def plan_round(
    log: PartitionLog,
    cleanable: CleanableRange,
    config: LogConfig,
    now_ms: int,
    survey: Survey | None = None,
) -> Round:
    """Plan the round that compacts the cleanable range of the log.

    Args:
        survey: the survey of the whole log; None: survey the log now.

    Raises:
        CorruptRecordError: a batch is damaged.
    """
    survey = survey_log(log) if survey is None else survey
    aborted = [
        AbortedTxn(t.producer_id, t.first_offset, t.last_offset, t.last_stable_offset)
        for t in survey.transactions()
        if t.state == "aborted" and t.first_offset < cleanable.end_offset
        if t.last_offset is not None and t.last_stable_offset is not None
    ]
    legacy_horizon = _legacy_horizon(log, cleanable.first_dirty_offset, config)
    bounds = group_segments([segment_sizes(s) for s in log.segments], cleanable.end_offset, config)
    starts = [log.segments[first].base_offset for first, _ in bounds]
    ends = [log.segments[end].base_offset for _, end in bounds]
    active = survey.producers.active(now_ms - config.producer_id_expiration_ms)
    groups = tuple(
        Group(
            tuple(SourceSegment(s, s.mtime_ms > legacy_horizon) for s in log.segments[first:end]),
            group_end,
            _index_entries(
                [txn for txn in aborted if start <= txn.last_offset < group_end], log.segments[first:end]
            ),
            _group_context(start, group_end, aborted, open_producers, active, cleanable.end_offset)
            if survey.producers.by_id or start < cleanable.end_offset <= group_end
            else None,
        )
        for (first, end), start, group_end, open_producers in zip(
            bounds, starts, ends, survey.open_producers(starts), strict=True
        )
    )
    return Round(
        log.state.source,
        cleanable.first_dirty_offset,
        cleanable.end_offset,
        now_ms,
        min(now_ms + config.delete_retention_ms, _LAST_TIME_MS),
        config.index_interval_bytes,
        pack_ranges(sorted(map(_aborted_range, aborted))),
        groups,
    )


def _group_context(
    start: int,
    end: int,
    aborted: Sequence[AbortedTxn],
    open_producers: frozenset[int],
    active: Mapping[int, LastRecord],
    round_end: int,
) -> GroupContext:
    """Return the context of the group with the offsets [start, end)."""
    return GroupContext(
        tuple(_aborted_range(txn) for txn in aborted if txn.first_offset < end and txn.last_offset >= start),
        open_producers,
        {
            producer_id: last
            for producer_id, last in active.items()
            if last.last_data_offset is None or start <= last.last_data_offset < end
        },
        round_end,
    )


def _index_entries(aborted: Sequence[AbortedTxn], segments: Sequence[LogSegment]) -> tuple[AbortedTxn, ...]:
    """Return the transaction index entries of the aborted transactions.

    An earlier round may have removed the first batches of a transaction. The entry in the segments' own index
    still has the original first offset, and a broker keeps that entry.
    """
    if not aborted:
        return ()
    indexed = (entry for segment in segments for entry in segment.load_transaction_index().all_entries())
    by_marker = {(entry.producer_id, entry.last_offset): entry for entry in indexed}
    entries = [by_marker.get((txn.producer_id, txn.last_offset), txn) for txn in aborted]
    return tuple(
        entry if entry.first_offset <= txn.first_offset else txn
        for txn, entry in zip(aborted, entries, strict=True)
    )


def _aborted_range(transaction: AbortedTxn) -> AbortedRange:
    return transaction.producer_id, transaction.first_offset, transaction.last_offset


def _legacy_horizon(log: PartitionLog, first_dirty_offset: int, config: LogConfig) -> int:
    """Return the file modification time after which tombstones of magic 0 and 1 are kept, in ms."""
    clean = [segment for segment in log.segments if segment.base_offset < first_dirty_offset]
    return clean[-1].mtime_ms - config.delete_retention_ms if clean else 0
