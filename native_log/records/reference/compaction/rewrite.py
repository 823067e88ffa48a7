"""Batches without the records that do not survive."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa

from native_log.records.compaction import RewriteStats, Rewritten, Verdict
from native_log.records.reference.compaction.filtering import Rules, batch_at
from native_log.records.reference.damage import Stop
from native_log.records.reference.entry import header_at
from native_log.records.reference.scan import scan
from native_log.records.results import DEFAULT_MAX_BATCH_BYTES
from native_log.records.schema import BATCH_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

    from native_log.records.compaction import RewriteOptions
    from native_log.records.reference.entry import BatchHeader


def rewrite(
    buffer: Buffer,
    options: RewriteOptions,
    *,
    verdicts: Buffer | None = None,
    base_position: int = 0,
) -> Rewritten:
    """Write the batches of `buffer` without the records that do not survive, like a broker's cleaner.

    A record of a data batch is kept if its offset is at least survivors_end. It is also kept if its offset is
    in `survivors` and it either has a value or is a tombstone that is still needed: with magic 2, the batch
    has no delete horizon or now_ms is below it; with magic 0 and 1, legacy_tombstones_kept is true.

    A batch all of whose records are kept is copied byte for byte, unless it needs a delete horizon: it has
    none, and a tombstone in it is kept or its verdict contains SET_HORIZON (magic 2 only). Every other batch
    is encoded again, with its offsets, producer, codec (at the codec's default level) and timestamps.

    A damaged batch ends the call. The batches before it are in `data`.

    Args:
        buffer: bytes of a .log file, from the beginning of a batch.
        verdicts: one byte (Verdict) for each batch, in their order. The call ends with "limit" when they are
            used up. None: FILTER for all batches.
        base_position: position of the buffer's first byte in the file.

    Raises:
        TypeError: survivors of the other implementation.
    """
    return _rewrite(
        memoryview(buffer).cast("B"),
        base_position,
        None if verdicts is None else memoryview(verdicts).cast("B"),
        lambda header, output_bytes: False,
        Rules.of(options),
    )


def rewrite_file(
    descriptor: int,
    position: int,
    end: int,
    options: RewriteOptions,
    *,
    judged: Sequence[int] | None = None,
    max_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Rewritten:
    """Rewrite a file's bytes from `position` (inclusive) to `end` (exclusive), like `rewrite`.

    The kernel does not read large batches that are dropped by their headers.

    The status "limit" means that the call ended because of `judged` or `max_bytes`. After "zeros" there may
    be other bytes.

    Args:
        descriptor: of a file that is open for reading.
        judged: the last offsets, ascending, of the batches that need a verdict. The call ends before such a
            batch, and before each transactional batch and each control batch. None: filter all batches.
        max_bytes: the call ends before the next batch once the output has this many bytes.

    Raises:
        EOFError: the file ends before `end`, and the missing bytes are needed.
        OSError: the file cannot be read.
        TypeError: as for `rewrite`.
    """
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

    return _rewrite(memoryview(data), position, None, stops_before, Rules.of(options))


def _rewrite(
    data: memoryview,
    base_position: int,
    verdicts: memoryview | None,
    stops_before: Callable[[BatchHeader, int], bool],
    rules: Rules,
) -> Rewritten:
    output = bytearray()
    stats = RewriteStats()
    index = number = 0
    next_offset = None
    while True:
        try:
            header = header_at(data, index, base_position, rules.options.max_batch_bytes)
            if stops_before(header, len(output)) or (verdicts is not None and number == len(verdicts)):
                raise Stop("limit")
            verdict = Verdict.FILTER if verdicts is None else Verdict(verdicts[number])
            filtered = batch_at(data, index, header, verdict, rules)
        except Stop as stop:
            return Rewritten(
                memoryview(bytes(output)),
                _valid_rows(output),
                stop.status,
                base_position + index,
                next_offset,
                stop.needed_bytes,
                stop.damage,
                stats,
            )
        output += filtered.data
        stats += filtered.stats
        next_offset = filtered.next_offset
        index += header.size_bytes
        number += 1


def _valid_rows(output: bytearray) -> pa.RecordBatch:
    """Return the rows of the batches written (BATCH_SCHEMA), with `isValid` true."""
    batches = scan(output).batches
    valid = pa.array([True] * batches.num_rows, pa.bool_())
    return batches.set_column(BATCH_SCHEMA.get_field_index("isValid"), BATCH_SCHEMA.field("isValid"), valid)
