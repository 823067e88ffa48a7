"""A round over one log: looked into once, then plain values that can be sent to whoever does the work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.compaction.eligibility import Cleanable, SourceSegment, cleanable, group_segments
from native_log.compaction.survey import Survey, survey
from native_log.compaction.verdicts import AbortedRange, GroupContext, ProducerEnd
from native_log.log.largest_timestamp import largest_timestamp_ms
from native_log.log.producers.transactions import pack_ranges
from native_log.log.reading.log_range import LogRange
from native_log.log.segment_slices import SegmentSlice
from native_log.segment.damage import DamagedRange
from native_log.segment.scan import greatest_timestamp_ms
from native_log.segment.transaction_index import AbortedTxn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from native_log.config import LogConfig
    from native_log.log import PartitionLog
    from native_log.segment.segment import LogSegment


_LAST_TIME_MS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Source:
    """A segment to be rewritten."""

    segment: LogSegment
    legacy_tombstones_kept: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Segments that become one, of the first one's base offset."""

    sources: tuple[Source, ...]
    end_offset: int
    """Exclusive: the base offset of what follows."""
    aborted_transactions: tuple[AbortedTxn, ...]
    """Entries of the new segment's transaction index."""
    context: GroupContext | None
    """None: all of its batches are just filtered."""

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
    """All that it takes to clean a log once. Plain values.

    Attributes:
        first_dirty_offset, end_offset: keys of records in between shadow all before them.
        delete_horizon_ms: what batches with new tombstones are given.
        aborted: the aborted transactions with data in the round, as `records.decode` takes them.
    """

    path: str
    topic: str
    partition: int
    first_dirty_offset: int
    end_offset: int
    now_ms: int
    delete_horizon_ms: int
    index_interval_bytes: int
    max_batch_bytes: int
    aborted: bytes
    groups: tuple[Group, ...]

    def dirty_part(self) -> LogRange:
        return self.part(self.first_dirty_offset, self.end_offset)

    def clean_part(self) -> LogRange:
        return self.part(0, self.first_dirty_offset)

    def part(self, start_offset: int, end_offset: int) -> LogRange:
        """Whole segments: those that hold records from `start_offset` to before `end_offset`."""
        sources = [source for group in self.groups for source in group.sources]
        ends = [source.segment.base_offset for source in sources[1:]] + [self.end_offset]
        pieces = tuple(
            SegmentSlice.of(s, 0, s.size_bytes, start_offset, end_offset)
            for s, end in zip((source.segment for source in sources), ends, strict=True)
            if s.size_bytes and s.base_offset < end_offset and end > start_offset
        )
        return LogRange(
            self.path,
            self.topic,
            self.partition,
            start_offset,
            end_offset,
            "read_uncommitted",
            pieces,
            self.max_batch_bytes,
        )


def find_cleanable(log: PartitionLog, config: LogConfig, now_ms: int) -> Cleanable:
    """See `eligibility.cleanable`. Raises CorruptRecordError."""

    def first_timestamp_ms(index: int) -> int:
        """The first batch's greatest. (Kafka: LogSegment.getFirstBatchTimestamp)"""
        segment = log.segments[index]
        if segment.size_bytes:
            for _, scanned in log.headers(segment.base_offset, DamagedRange.refuse):
                if scanned.batches.num_rows:
                    return greatest_timestamp_ms(scanned.batches.slice(0, 1))
        return -1

    return cleanable(
        [source_segment(segment) for segment in log.segments],
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


def source_segment(segment: LogSegment) -> SourceSegment:
    def size(name: str | None) -> int:
        return 0 if name is None else Path(segment.directory, name).stat().st_size

    return SourceSegment(
        segment.base_offset,
        segment.size_bytes,
        size(segment.index),
        size(segment.time_index),
        segment.mtime_ms,
    )


def plan_round(
    log: PartitionLog,
    found: Cleanable,
    config: LogConfig,
    now_ms: int,
    surveyed: Survey | None = None,
) -> Round:
    """Raises CorruptRecordError.

    Args:
        surveyed: what the headers of the whole log tell; None: this passes over them.
    """
    surveyed = survey(log) if surveyed is None else surveyed
    aborted = [
        AbortedTxn(t.producer_id, t.first_offset, t.last_offset, t.last_stable_offset)
        for t in surveyed.transactions()
        if t.state == "aborted" and t.first_offset < found.end_offset
        if t.last_offset is not None and t.last_stable_offset is not None
    ]
    legacy_horizon = _legacy_horizon(log, found.first_dirty_offset, config)
    bounds = group_segments([source_segment(s) for s in log.segments], found.end_offset, config)
    borders = [log.segments[first].base_offset for first, _ in bounds]
    ends = [log.segments[end].base_offset for _, end in bounds]
    active = surveyed.producers.active(now_ms - config.producer_id_expiration_ms)
    groups = tuple(
        Group(
            tuple(Source(s, s.mtime_ms > legacy_horizon) for s in log.segments[first:end]),
            group_end,
            _as_indexed(
                [one for one in aborted if start <= one.last_offset < group_end], log.segments[first:end]
            ),
            _surroundings(start, group_end, aborted, open_producers, active, found.end_offset)
            if surveyed.producers.by_id or start < found.end_offset <= group_end
            else None,
        )
        for (first, end), start, group_end, open_producers in zip(
            bounds, borders, ends, surveyed.open_at(borders), strict=True
        )
    )
    return Round(
        str(log.path),
        log.topic,
        log.partition,
        found.first_dirty_offset,
        found.end_offset,
        now_ms,
        min(now_ms + config.delete_retention_ms, _LAST_TIME_MS),
        config.index_interval_bytes,
        log.max_batch_bytes,
        pack_ranges(sorted(map(_range, aborted))),
        groups,
    )


def _surroundings(
    start: int,
    end: int,
    aborted: Sequence[AbortedTxn],
    open_producers: frozenset[int],
    active: Mapping[int, ProducerEnd],
    round_end: int,
) -> GroupContext:
    """Of the group that has the offsets from `start` to before `end`."""
    return GroupContext(
        tuple(_range(one) for one in aborted if one.first_offset < end and one.last_offset >= start),
        open_producers,
        {
            producer_id: last
            for producer_id, last in active.items()
            if last.last_data_offset is None or start <= last.last_data_offset < end
        },
        round_end,
    )


def _as_indexed(aborted: Sequence[AbortedTxn], segments: Sequence[LogSegment]) -> tuple[AbortedTxn, ...]:
    """The entries that these transactions have in the segments' own indexes, as brokers keep them: of one
    whose first batches an earlier round took they still tell where it began."""
    if not aborted:
        return ()
    indexed = (entry for segment in segments for entry in segment.load_transaction_index().all_entries())
    known = {(entry.producer_id, entry.last_offset): entry for entry in indexed}
    entries = [known.get((one.producer_id, one.last_offset), one) for one in aborted]
    return tuple(
        entry if entry.first_offset <= one.first_offset else one
        for one, entry in zip(aborted, entries, strict=True)
    )


def _range(aborted: AbortedTxn) -> AbortedRange:
    return aborted.producer_id, aborted.first_offset, aborted.last_offset


def _legacy_horizon(log: PartitionLog, first_dirty_offset: int, config: LogConfig) -> int:
    """Tombstones of magic 0 and 1 are needed in files younger than this."""
    clean = [segment for segment in log.segments if segment.base_offset < first_dirty_offset]
    return clean[-1].mtime_ms - config.delete_retention_ms if clean else 0
