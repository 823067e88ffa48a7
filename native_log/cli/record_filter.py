"""Select the records that `kafkalog cat` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.records import CORRUPT_RECORD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.erasure.selection import RecordSelection

_MAX_MS = (2**63 - 1) // 1000


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Conditions that a record must meet, all of them. None: no condition.

    Attributes:
        from_ms: inclusive, in epoch ms. A record without a timestamp is older than any time.
        until_ms: exclusive, in epoch ms.
        selections: all of them must select the record.
    """

    from_ms: int | None = None
    until_ms: int | None = None
    selections: tuple[RecordSelection, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The columns of RECORD_SCHEMA that `apply` needs."""
        needed = ["timestamp"] if self.from_ms is not None or self.until_ms is not None else []
        return list(
            dict.fromkeys([*needed, *(name for selection in self.selections for name in selection.columns)])
        )

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that meet the conditions, and the rows of damaged ranges."""
        masks = []
        if self.from_ms is not None or self.until_ms is not None:
            times = batch.column("timestamp").cast(pa.int64()).fill_null(-(2**63))
            if self.from_ms is not None:
                masks.append(pc.greater_equal(times, _microseconds(self.from_ms)))
            if self.until_ms is not None:
                masks.append(pc.less(times, _microseconds(self.until_ms)))
        masks += [selection.mask(batch) for selection in self.selections]
        if not masks:
            return batch
        combined = masks[0]
        for mask in masks[1:]:
            combined = pc.and_(combined, mask)
        if CORRUPT_RECORD in batch.schema.names:
            combined = pc.or_(combined, batch.column(CORRUPT_RECORD).is_valid())
        return batch.filter(combined)


def selections(
    keys: Sequence[bytes],
    key_prefixes: Sequence[bytes],
    headers: Sequence[tuple[str, str | None]],
    header_prefixes: Sequence[tuple[str, str | None]],
) -> tuple[RecordSelection, ...]:
    """Return a selection by key and one by header, each only if it has conditions. Raises ValueError."""
    if not (keys or key_prefixes or headers or header_prefixes):
        return ()
    from native_log.erasure.selection import RecordSelection

    result = []
    if keys or key_prefixes:
        result.append(RecordSelection.of(keys, key_prefixes, ()))
    if headers or header_prefixes:
        result.append(RecordSelection.of((), (), headers, header_prefixes))
    return tuple(result)


def _microseconds(time_ms: int) -> pa.Scalar:
    return pa.scalar(max(-_MAX_MS, min(time_ms, _MAX_MS)) * 1000, pa.int64())
