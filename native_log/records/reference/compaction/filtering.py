"""Filter one batch: drop it, empty it, copy it, or encode it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.records.compaction import RewriteStats, Verdict
from native_log.records.reference import legacy, record_batch
from native_log.records.reference.batch import check_crc
from native_log.records.reference.codec import decompress
from native_log.records.reference.compaction import write
from native_log.records.reference.compaction.survivors import Survivors, own
from native_log.records.reference.damage import DamagedBatchError, Stop
from native_log.records.reference.entry import MAGIC_AT, BatchHeader, wrap64
from native_log.records.reference.write import message as message_bytes

if TYPE_CHECKING:
    from native_log.records.compaction import RewriteOptions
    from native_log.records.reference.record import Record


@dataclass(frozen=True, slots=True)
class Rules:
    """Which records the options of `rewrite` keep."""

    options: RewriteOptions
    survivors: Survivors
    nulled: Survivors

    @classmethod
    def of(cls, options: RewriteOptions) -> Rules:
        """Raise TypeError for survivors of the other implementation."""
        nulled = Survivors() if options.nulled is None else own(options.nulled)
        return cls(options, own(options.survivors), nulled)

    def may_keep(self, header: BatchHeader, verdict: Verdict) -> bool:
        """Return whether a record of the batch may be kept, as far as its header shows."""
        if verdict & Verdict.DISCARD or header.record_count == 0:
            return False
        if header.is_control or header.is_wrapper or header.last_offset_delta < 0:
            return True
        return header.last_offset >= self.options.survivors_end or self.survivors.has_any(
            header.offset, header.last_offset
        )

    def survives(self, offset: int) -> bool:
        return offset >= self.options.survivors_end or offset in self.survivors

    def needs_tombstone(self, header: BatchHeader, offset: int) -> bool:
        """Return whether a tombstone that survives is still needed."""
        if offset >= self.options.survivors_end:
            return True
        if header.magic < 2:
            return self.options.legacy_tombstones_kept
        return not header.has_delete_horizon or self.options.now_ms < header.base_timestamp


@dataclass(slots=True)
class Filtered:
    """The result for one batch."""

    data: bytes | memoryview
    stats: RewriteStats
    next_offset: int


def batch_at(data: memoryview, index: int, header: BatchHeader, verdict: Verdict, rules: Rules) -> Filtered:
    may_keep = rules.may_keep(header, verdict)
    retain_empty = header.magic == 2 and bool(verdict & Verdict.RETAIN_EMPTY)
    if not may_keep and not retain_empty:
        return dropped(header)
    if header.size_bytes > len(data) - index:
        raise Stop("partial", header.size_bytes)
    batch = data[index : index + header.size_bytes]
    try:
        if header.magic == 2 and rules.options.check_crcs:
            check_crc(header, batch)
        if not may_keep:
            return emptied(header)
        if header.magic == 2:
            return v2_batch(header, batch, verdict, rules)
        if header.is_wrapper:
            return wrapper(header, batch, rules)
        return plain_message(header, batch, rules)
    except DamagedBatchError as error:
        raise Stop.damaged(error, header.position, header.size_bytes, header.offset) from None


def dropped(header: BatchHeader) -> Filtered:
    records = 0 if header.is_wrapper else max(header.record_count, 0)
    stats = RewriteStats(batches_read=1, records_read=records, bytes_read=header.size_bytes)
    return Filtered(b"", stats, wrap64(header.last_offset + 1))


def v2_batch(header: BatchHeader, batch: memoryview, verdict: Verdict, rules: Rules) -> Filtered:
    filter = RecordFilter(header, rules)
    kept = []
    for fields in record_batch.all_fields(header, batch, rules.options.max_batch_bytes):
        record = record_batch.read_record(header, fields)
        if not filter.keeps(record):
            continue
        if record.offset in rules.nulled and (record.value is not None or record.headers):
            fields, record = fields._replace(value=None, headers=()), record._replace(value=None)
            filter.is_whole = False
        filter.kept_tombstones += record.value is None
        kept.append((record, fields))
    next_offset = wrap64(header.last_offset + 1)
    if not kept:
        empty = write.empty_v2_batch(header) if verdict & Verdict.RETAIN_EMPTY else b""
        return Filtered(empty, filter.stats(len(kept), empty, batches_emptied=int(bool(empty))), next_offset)
    has_new_tombstone = filter.kept_tombstones > 0 or bool(verdict & Verdict.SET_HORIZON)
    gets_horizon = (
        rules.options.delete_horizon_ms is not None and has_new_tombstone and not header.has_delete_horizon
    )
    if filter.is_whole and not gets_horizon:
        return Filtered(batch, filter.stats(len(kept), batch, batches_copied=1), next_offset)
    horizon = header.base_timestamp if header.has_delete_horizon and header.base_timestamp >= 0 else None
    if gets_horizon:
        horizon = rules.options.delete_horizon_ms
    written = write.v2_batch(header, kept, horizon)
    return Filtered(written, filter.stats(len(kept), written, horizons_set=int(gets_horizon)), next_offset)


def wrapper(header: BatchHeader, message: memoryview, rules: Rules) -> Filtered:
    records = legacy.read_wrapper(header, message, rules.options.check_crcs, rules.options.max_batch_bytes)
    _, value = legacy.key_and_value(header, message)
    assert value is not None
    inner = legacy.messages(decompress(header, memoryview(value), rules.options.max_batch_bytes))
    filter = RecordFilter(header, rules)
    kept = []
    for record, entry in zip(records, inner, strict=True):
        if not filter.keeps(record):
            continue
        if entry[MAGIC_AT] != header.magic:  # KAFKA-4298: corrected on this occasion
            filter.is_whole = False
        if record.offset in rules.nulled and record.value is not None:
            record = record._replace(value=None)
            filter.is_whole = False
        filter.kept_tombstones += record.value is None
        kept.append(record)
    last_offset = records[-1].offset if header.lacks_offset else header.offset
    written: bytes | memoryview = b""
    if kept:
        written = message if filter.is_whole else write.wrapper(header, kept)
    copied = int(bool(kept) and filter.is_whole)
    return Filtered(written, filter.stats(len(kept), written, batches_copied=copied), wrap64(last_offset + 1))


def plain_message(header: BatchHeader, message: memoryview, rules: Rules) -> Filtered:
    record = legacy.read_message(header, message, rules.options.check_crcs)
    filter = RecordFilter(header, rules)
    written: bytes | memoryview = b""
    copied = 0
    if filter.keeps(record):
        written, copied = message, 1
        if record.offset in rules.nulled and record.value is not None:
            record = record._replace(value=None)
            copied = 0
            written = message_bytes(
                header.magic, record.offset, header.attributes, record.timestamp, record.key, None
            )
        filter.kept_tombstones += record.value is None
    stats = filter.stats(int(bool(written)), written, batches_copied=copied)
    return Filtered(written, stats, wrap64(header.offset + 1))


def emptied(header: BatchHeader) -> Filtered:
    without = dropped(header)
    empty = write.empty_v2_batch(header)
    without.stats += RewriteStats(batches_emptied=1, bytes_kept=len(empty))
    without.data = empty
    return without


class RecordFilter:
    """Selects the records of a batch to keep, and counts them."""

    def __init__(self, header: BatchHeader, rules: Rules) -> None:
        self._header = header
        self._rules = rules
        self._read = 0
        self._dropped_tombstones = 0
        self.is_whole = True
        """Whether all records are kept unchanged."""
        self.kept_tombstones = 0

    def keeps(self, record: Record) -> bool:
        self._read += 1
        if self._header.is_control:
            return True
        keep = self._rules.survives(record.offset)
        if keep and record.value is None and not self._rules.needs_tombstone(self._header, record.offset):
            self._dropped_tombstones += 1
            keep = False
        self.is_whole &= keep
        return keep

    def stats(
        self,
        kept: int,
        written: bytes | memoryview,
        *,
        batches_copied: int = 0,
        batches_emptied: int = 0,
        horizons_set: int = 0,
    ) -> RewriteStats:
        return RewriteStats(
            batches_read=1,
            batches_kept=int(kept > 0),
            batches_copied=batches_copied,
            batches_emptied=batches_emptied,
            records_read=self._read,
            records_kept=kept,
            bytes_read=self._header.size_bytes,
            bytes_kept=len(written),
            tombstones_kept=self.kept_tombstones,
            tombstones_dropped=self._dropped_tombstones,
            horizons_set=horizons_set,
        )
