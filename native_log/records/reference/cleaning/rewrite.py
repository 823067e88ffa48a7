"""Batches without the records that do not survive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.records.cleaning import RewriteStats, Rewritten, Verdict
from native_log.records.reference.cleaning.filtering import Rules, batch_at
from native_log.records.reference.cleaning.survivors import Survivors, own
from native_log.records.reference.damage import Stop
from native_log.records.reference.entry import header_at
from native_log.records.reference.scan import scan
from native_log.records.schema import BATCH_SCHEMA, DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined]

    from native_log.records import cleaning


def rewrite(
    buffer: Buffer,
    *,
    survivors: cleaning.Survivors,
    survivors_end: int,
    now_ms: int,
    delete_horizon_ms: int | None,
    verdicts: Buffer | None = None,
    legacy_tombstones_kept: bool = True,
    nulled: cleaning.Survivors | None = None,
    base_position: int = 0,
    output_position: int = 0,
    check_crcs: bool = True,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Rewritten:
    """The batches of `buffer` without the records that do not survive, as a broker's cleaner writes them.

    A record of a data batch is kept if its offset is survivors_end or more; or if it is in `survivors` and
    either has a value or is a tombstone still needed: magic 2, the batch has no delete horizon or now_ms is
    below it; magic 0 and 1, legacy_tombstones_kept.

    A batch all of whose records are kept is copied byte for byte, unless it must be given a delete horizon:
    it has none, and a tombstone in it is kept or its verdict says SET_HORIZON (magic 2 only). Else it is
    written anew, with its offsets, producer, codec (the codec's default level) and timestamps.

    A damaged batch stops the call; those before it are in `data`.

    Args:
        buffer: bytes of a .log file from the beginning of a batch on.
        survivors: offsets below survivors_end that are kept. Null keys are not looked for here: their offsets
            are not in it.
        survivors_end: records from this offset on are all kept (Kafka: OffsetMap.latestOffset + 1).
        now_ms: the round's time.
        delete_horizon_ms: what batches with new tombstones are given: now + delete.retention.ms. None: no
            batch is given one.
        verdicts: a byte (Verdict) for each batch, in their order; reading stops with "limit" when they are
            used up. None: FILTER for all.
        legacy_tombstones_kept: whether tombstones of magic 0 and 1 are still needed.
        nulled: offsets of records which, if kept, lose their value and their headers (erasure).
        base_position: position in the file of the buffer's first byte.
        output_position: position in the new file of the first byte written, for `Rewritten.batches`.
        check_crcs: as for `decode`; of batches dropped by their headers nothing is checked. Without it, what
            was damaged may be written with a right CRC.
        max_batch_bytes: ceiling for one batch as stored and as decompressed.

    Raises:
        ValueError: a negative delete_horizon_ms.
    """
    if delete_horizon_ms is not None and delete_horizon_ms < 0:
        raise ValueError(f"a delete horizon of at least 0 was expected, found {delete_horizon_ms}")
    data = memoryview(buffer).cast("B")
    codes = None if verdicts is None else memoryview(verdicts).cast("B")
    rules = Rules(
        own(survivors),
        survivors_end,
        now_ms,
        delete_horizon_ms,
        legacy_tombstones_kept,
        Survivors() if nulled is None else own(nulled),
        check_crcs,
        max_batch_bytes,
    )
    written = bytearray()
    stats = RewriteStats()
    index = number = 0
    next_offset = None
    while True:
        try:
            header = header_at(data, index, base_position, max_batch_bytes)
            if codes is not None and number == len(codes):
                raise Stop("limit")
            verdict = Verdict.FILTER if codes is None else Verdict(codes[number])
            filtered = batch_at(data, index, header, verdict, rules)
        except Stop as stop:
            return Rewritten(
                memoryview(bytes(written)),
                rows(written, output_position),
                stop.status,
                base_position + index,
                next_offset,
                stop.needed_bytes,
                stop.damage,
                stats,
            )
        written += filtered.data
        stats += filtered.stats
        next_offset = filtered.next_offset
        index += header.size_bytes
        number += 1


def rows(written: bytearray, output_position: int) -> pa.RecordBatch:
    batches = scan(written, base_position=output_position).batches
    valid = pa.array([True] * batches.num_rows, pa.bool_())
    return batches.set_column(BATCH_SCHEMA.get_field_index("isValid"), BATCH_SCHEMA.field("isValid"), valid)
