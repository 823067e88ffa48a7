"""A round over one log: looked into once, then plain values that can be sent to whoever does the work."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from native_log.cleaner.eligibility import Cleanable, SourceSegment, cleanable, group_segments
from native_log.cleaner.verdicts import ProducerEnds, RoundVerdicts
from native_log.errors import CorruptRecordError
from native_log.log.log_range import LogRange
from native_log.log.pieces import Piece
from native_log.log.producer_state import OpenTransactions
from native_log.segment.transaction_index import AbortedTxn

if TYPE_CHECKING:
    import pyarrow as pa

    from native_log.config import LogConfig
    from native_log.log import PartitionLog
    from native_log.segment.damage import DamagedRange
    from native_log.segment.segment import LogSegment

_TRIPLE = struct.Struct("=qqq")


@dataclass(frozen=True, slots=True)
class Source:
    """A segment to be rewritten.

    `verdicts`: a byte (Verdict) for each of its batches, deflated; None: FILTER for all.
    """

    segment: LogSegment
    verdicts: bytes | None
    legacy_tombstones_kept: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Segments that become one, of the first one's base offset."""

    sources: tuple[Source, ...]
    end_offset: int
    """Exclusive: the base offset of what follows."""
    aborted_transactions: tuple[AbortedTxn, ...]
    """Entries of the new segment's transaction index."""

    @property
    def base_offset(self) -> int:
        return self.sources[0].segment.base_offset

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
            Piece(s.log, s.base_offset, s.inode, s.size_bytes, 0, s.size_bytes, start_offset, end_offset)
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


def what_is_cleanable(log: PartitionLog, config: LogConfig, now_ms: int) -> Cleanable:
    """See `eligibility.cleanable`. Raises CorruptRecordError."""

    def largest_timestamp_ms(index: int) -> int:
        segment = log.segments[index]
        index_file = segment.load_time_index()
        last = index_file.entry(len(index_file) - 1)[0] if len(index_file) else -1
        return last if last >= 0 else segment.mtime_ms

    def first_timestamp_ms(index: int) -> int:
        for _, scanned in log.headers(log.segments[index].base_offset, _fail):
            if scanned.batches.num_rows:
                row = scanned.batches.slice(0, 1)
                first: int | None = row.column("baseTimestamp")[0].as_py()
                return row.column("maxTimestamp")[0].as_py() if first is None else first
        return -1

    return cleanable(
        [source_segment(segment) for segment in log.segments],
        checkpoint=log.checkpoints.first_dirty_offset,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=log.last_stable_offset,
        config=config,
        now_ms=now_ms,
        largest_timestamp_ms=largest_timestamp_ms,
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
    log: PartitionLog, found: Cleanable, config: LogConfig, now_ms: int, map_end_offset: int | None = None
) -> Round:
    """Passes over the headers of the log. Raises CorruptRecordError.

    Args:
        map_end_offset: how far the offset map came, if not all the way: no later segment is rewritten.
    """
    end_offset = found.end_offset if map_end_offset is None else map_end_offset
    aborted, producers = _look_through(log, found.end_offset)
    active = producers.active(now_ms - config.producer_id_expiration_ms)
    verdicts = RoundVerdicts([entry[:3] for entry in aborted], active, found.end_offset, now_ms)
    by_segment: dict[int, list[bytes]] = {}
    markers: dict[int, list[int]] = {}
    # Without producers, only the round's last batch is not just filtered.
    start = None if producers.by_id else log.segments[_last_below(log, found.end_offset)].base_offset
    # Batches that are discarded by their headers are not read again: these must be right.
    for segment, scanned in log.headers(start, _fail, check_crcs=True):
        if segment.base_offset >= end_offset:
            break
        _check_crcs(segment, scanned.batches)
        codes, kept = verdicts.of(scanned.batches)
        by_segment.setdefault(segment.base_offset, []).append(codes)
        markers.setdefault(segment.base_offset, []).extend(kept)
    entries = {entry[2]: AbortedTxn(*entry) for entry in aborted}
    legacy_horizon = _legacy_horizon(log, found.first_dirty_offset, config)
    bounds = group_segments([source_segment(s) for s in log.segments], end_offset, config)
    groups = []
    for first, end in bounds:
        chosen = log.segments[first:end]
        sources = tuple(
            Source(s, _deflated(by_segment.get(s.base_offset, [])), s.mtime_ms > legacy_horizon)
            for s in chosen
        )
        kept_entries = [entries[offset] for s in chosen for offset in markers.get(s.base_offset, [])]
        groups.append(Group(sources, log.segments[end].base_offset, tuple(kept_entries)))
    return Round(
        str(log.path),
        log.topic,
        log.partition,
        found.first_dirty_offset,
        found.end_offset,
        now_ms,
        now_ms + config.delete_retention_ms,
        config.index_interval_bytes,
        log.max_batch_bytes,
        b"".join(_TRIPLE.pack(*entry[:3]) for entry in sorted(aborted)),
        tuple(groups),
    )


def _look_through(log: PartitionLog, end_offset: int) -> tuple[list[tuple[int, int, int, int]], ProducerEnds]:
    """The aborted transactions with data below `end_offset` (the fields of AbortedTxn), and the producers."""
    producers = ProducerEnds()
    open_transactions = OpenTransactions()
    aborted = []
    for _, scanned in log.headers(None, _fail):
        greatest_id = pc.max(scanned.batches.column("producerId")).as_py()
        if greatest_id is None or greatest_id < 0:
            continue
        producers.apply(scanned.batches)
        for ended in open_transactions.apply(scanned.batches):
            if ended.state == "aborted" and ended.first_offset < end_offset:
                assert ended.last_offset is not None and ended.last_stable_offset is not None
                aborted.append(
                    (ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset)
                )
    return aborted, producers


def _last_below(log: PartitionLog, end_offset: int) -> int:
    filled = [i for i, s in enumerate(log.segments) if s.base_offset < end_offset and s.size_bytes]
    return filled[-1] if filled else 0


def _legacy_horizon(log: PartitionLog, first_dirty_offset: int, config: LogConfig) -> int:
    """Tombstones of magic 0 and 1 are needed in files younger than this."""
    clean = [segment for segment in log.segments if segment.base_offset < first_dirty_offset]
    return clean[-1].mtime_ms - config.delete_retention_ms if clean else 0


def _deflated(codes: list[bytes]) -> bytes | None:
    joined = b"".join(codes)
    return zlib.compress(joined, 1) if any(joined) else None


def _check_crcs(segment: LogSegment, batches: pa.RecordBatch) -> None:
    wrong = pc.index(batches.column("isValid"), False).as_py()
    if wrong >= 0:
        damaged_rows = batches.slice(wrong, 1).to_pylist()
        raise CorruptRecordError(
            "expected a batch that fits its CRC, found another. The partition is left as it was: take the "
            "file from another replica",
            path=segment.path,
            position=damaged_rows[0]["position"],
            offset=damaged_rows[0]["baseOffset"],
        )


def _fail(damaged: DamagedRange) -> None:
    raise damaged.error()
