"""Batches without the records that do not survive."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.records.compaction import RewriteStats, Rewritten, Verdict
from native_log.records.reference.compaction.filtering import Rules, batch_at
from native_log.records.reference.compaction.survivors import Survivors, own
from native_log.records.reference.damage import Stop
from native_log.records.reference.entry import header_at
from native_log.records.reference.scan import scan
from native_log.records.schema import BATCH_SCHEMA, DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

    from native_log.records import compaction
    from native_log.records.reference.entry import BatchHeader


def rewrite(
    buffer: Buffer,
    *,
    survivors: compaction.Survivors,
    survivors_end: int,
    now_ms: int,
    delete_horizon_ms: int | None,
    verdicts: Buffer | None = None,
    legacy_tombstones_kept: bool = True,
    nulled: compaction.Survivors | None = None,
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
    return _rewrite(
        memoryview(buffer).cast("B"),
        base_position,
        None if verdicts is None else memoryview(verdicts).cast("B"),
        output_position,
        lambda header, output_bytes: False,
        Rules(
            own(survivors),
            survivors_end,
            now_ms,
            delete_horizon_ms,
            legacy_tombstones_kept,
            Survivors() if nulled is None else own(nulled),
            check_crcs,
            max_batch_bytes,
        ),
    )


def rewrite_file(
    descriptor: int,
    position: int,
    end: int,
    *,
    survivors: compaction.Survivors,
    survivors_end: int,
    now_ms: int,
    delete_horizon_ms: int | None,
    judged: Sequence[int] | None = None,
    max_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    legacy_tombstones_kept: bool = True,
    output_position: int = 0,
    check_crcs: bool = True,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Rewritten:
    """What `rewrite` makes of a file's bytes from `position` to `end`. Large batches that are dropped by
    their headers are not read.

    The status "limit" says that the call ended before a batch that is to be judged, or one too many. After
    "zeros" there may be other bytes.

    Args:
        descriptor: of a file that is open for reading.
        judged: None: all batches are filtered. Else the call ends before any that is of a transaction, or a
            control batch, or has one of these last offsets, which are ascending.
        max_bytes: the call ends before another batch once there are so many bytes of output.
        survivors and the others: as those of `rewrite`.

    Raises:
        EOFError: the file ends before `end`, and that far was to be read.
        OSError: it cannot be read.
        ValueError: as `rewrite`.
    """
    if delete_horizon_ms is not None and delete_horizon_ms < 0:
        raise ValueError(f"a delete horizon of at least 0 was expected, found {delete_horizon_ms}")
    left = max(0, end - position)
    data = os.pread(descriptor, left, position)
    if len(data) < left:
        raise EOFError(f"the file ends before position {end}")
    offsets = None if judged is None else frozenset(judged)

    def stops_before(header: BatchHeader, output_bytes: int) -> bool:
        is_judged = offsets is not None and (
            header.is_transactional or header.is_control or header.last_offset in offsets
        )
        return output_bytes >= max_bytes or is_judged

    return _rewrite(
        memoryview(data),
        position,
        None,
        output_position,
        stops_before,
        Rules(
            own(survivors),
            survivors_end,
            now_ms,
            delete_horizon_ms,
            legacy_tombstones_kept,
            Survivors(),
            check_crcs,
            max_batch_bytes,
        ),
    )


def _rewrite(
    data: memoryview,
    base_position: int,
    codes: memoryview | None,
    output_position: int,
    stops_before: Callable[[BatchHeader, int], bool],
    rules: Rules,
) -> Rewritten:
    written = bytearray()
    stats = RewriteStats()
    index = number = 0
    next_offset = None
    while True:
        try:
            header = header_at(data, index, base_position, rules.max_batch_bytes)
            if stops_before(header, len(written)) or (codes is not None and number == len(codes)):
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
