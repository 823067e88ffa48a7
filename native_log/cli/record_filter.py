"""Select the records that `kafkalog cat` and `kafkalog grep` print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from native_log.records import CORRUPT_RECORD

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from native_log import filters
    from native_log.erasure.selection import RecordSelection


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Conditions that a record must meet, all of them. None: no condition.

    Attributes:
        from_ms: inclusive, in epoch ms. `filter` includes this condition.
        filter: is applied where records are read. A record without a timestamp is older than any time.
        headers: selects records by their headers, after they are read.
    """

    from_ms: int | None = None
    filter: filters.RecordFilter | None = None
    headers: RecordSelection | None = None

    @classmethod
    def of(
        cls,
        from_ms: int | None,
        until_ms: int | None,
        keys: Sequence[bytes],
        key_prefixes: Sequence[bytes],
        headers: Sequence[tuple[str, str | None]] = (),
        header_prefixes: Sequence[tuple[str, str | None]] = (),
        where: str | None = None,
    ) -> RecordFilter:
        """Return the filter that options describe. Raises click.UsageError."""
        filter = selection = None
        try:
            if keys or key_prefixes or where is not None or not from_ms is until_ms is None:
                filter = _filter(from_ms, until_ms, keys, key_prefixes, where)
            if headers or header_prefixes:
                from native_log.erasure.selection import RecordSelection

                selection = RecordSelection.of((), (), headers, header_prefixes)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        return cls(from_ms, filter, selection)

    @property
    def columns(self) -> list[str]:
        """The columns of RECORD_SCHEMA that `apply` needs."""
        return [] if self.headers is None else list(self.headers.columns)

    def when_reading(self, mode: str) -> filters.RecordFilter | None:
        """Return the filter for a read. It selects the rows of damaged ranges, too."""
        if self.filter is None or self.filter.expression is None or mode != "permissive":
            return self.filter
        import pyarrow.compute as pc

        from native_log import filters

        return filters.RecordFilter(self.filter.expression | pc.field(CORRUPT_RECORD).is_valid())

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that the headers select, and the rows of damaged ranges."""
        if self.headers is None:
            return batch
        import pyarrow.compute as pc

        mask = self.headers.mask(batch)
        if CORRUPT_RECORD in batch.schema.names:
            mask = pc.or_(mask, batch.column(CORRUPT_RECORD).is_valid())
        return batch.filter(mask)


def _filter(
    from_ms: int | None,
    until_ms: int | None,
    keys: Sequence[bytes],
    key_prefixes: Sequence[bytes],
    where: str | None,
) -> filters.RecordFilter:
    """Return the filter of times, keys and SQL. Raises FilterError."""
    from native_log.filters import RecordFilter, to_filter
    from native_log.filters.values import keys_filter, times_filter

    combined = RecordFilter(None)
    for part in (times_filter(from_ms, until_ms), keys_filter(keys, key_prefixes), to_filter(where)):
        if part is not None:
            combined = combined.combined_with(part)
    return combined
