"""Which records `cat` prints."""

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
    """Records that meet all of these; None: no condition.

    Attributes:
        from_ms, until_ms: epoch ms, inclusive and exclusive. A record without a time is older than any.
        selections: records that each of these selects.
    """

    from_ms: int | None = None
    until_ms: int | None = None
    selections: tuple[RecordSelection, ...] = ()

    @property
    def columns(self) -> list[str]:
        """Those of RECORD_SCHEMA that `apply` needs."""
        needed = ["timestamp"] if self.from_ms is not None or self.until_ms is not None else []
        return list(dict.fromkeys([*needed, *(name for one in self.selections for name in one.columns)]))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that meet the conditions, and damaged ranges."""
        masks = []
        if self.from_ms is not None or self.until_ms is not None:
            times = batch.column("timestamp").cast(pa.int64()).fill_null(-(2**63))
            if self.from_ms is not None:
                masks.append(pc.greater_equal(times, _microseconds(self.from_ms)))
            if self.until_ms is not None:
                masks.append(pc.less(times, _microseconds(self.until_ms)))
        masks += [one.mask(batch) for one in self.selections]
        if not masks:
            return batch
        wanted = masks[0]
        for mask in masks[1:]:
            wanted = pc.and_(wanted, mask)
        if CORRUPT_RECORD in batch.schema.names:
            wanted = pc.or_(wanted, batch.column(CORRUPT_RECORD).is_valid())
        return batch.filter(wanted)


def selections(
    keys: Sequence[bytes],
    key_prefixes: Sequence[bytes],
    headers: Sequence[tuple[str, str | None]],
    header_prefixes: Sequence[tuple[str, str | None]],
) -> tuple[RecordSelection, ...]:
    """What selects by key, and what by header, each if there is any condition. Raises ValueError."""
    if not (keys or key_prefixes or headers or header_prefixes):
        return ()
    from native_log.erasure.selection import RecordSelection

    found = []
    if keys or key_prefixes:
        found.append(RecordSelection.of(keys, key_prefixes, ()))
    if headers or header_prefixes:
        found.append(RecordSelection.of((), (), headers, header_prefixes))
    return tuple(found)


def _microseconds(time_ms: int) -> pa.Scalar:
    return pa.scalar(max(-_MAX_MS, min(time_ms, _MAX_MS)) * 1000, pa.int64())
