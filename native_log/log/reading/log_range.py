"""A range of offsets of one partition and the bytes that hold it: all that is needed to read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.log.reading.options import (
    DEFAULT_FIRST_ROWS,
    DEFAULT_MAP_BYTES,
    DEFAULT_MAX_BYTES,
    ReadOptions,
)
from native_log.log.reading.reader import read_rows
from native_log.log.reading.split import (
    first_batches,
    split_between_slices,
    split_by_bytes,
    split_by_offsets,
)
from native_log.log.sliced_range import SlicedRange
from native_log.records import RECORD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from native_log.arguments import Mode
    from native_log.filters.forms import FilterLike
    from native_log.segment.damage import DamagedRange


@dataclass(frozen=True, slots=True)
class LogRange(SlicedRange):
    """The records of a partition from `start_offset` to before `end_offset`, which can be split and read."""

    def split(self, max_bytes: int) -> list[LogRange]:
        """Split between batches into ranges of about equal size, at most about `max_bytes` each."""
        return split_by_bytes(self, max_bytes)

    def split_at(self, offsets: Sequence[int]) -> list[LogRange]:
        """Split at the given offsets, which may be within batches.

        Offsets that are not inside the range are ignored.
        """
        return split_by_offsets(self, offsets)

    def split_slices(self) -> list[LogRange]:
        """Split into ranges of one slice each. No file is opened."""
        return split_between_slices(self)

    def first_batches(self, max_bytes: int) -> LogRange:
        """Return the longest range of whole batches from the start with at most `max_bytes` bytes.

        It has at least one batch, which may be larger.
        """
        return first_batches(self, max_bytes)

    def read(
        self,
        columns: Sequence[str] | None = None,
        *,
        mode: Mode = "failFast",
        check_crcs: bool = True,
        max_rows: int | None = None,
        max_bytes: int | None = DEFAULT_MAX_BYTES,
        first_rows: int | None = DEFAULT_FIRST_ROWS,
        on_damage: Callable[[DamagedRange], None] | None = None,
        fail_on_data_loss: bool = True,
        filter: FilterLike = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read the records in batches of a few megabytes.

        Args:
            columns: names of RECORD_SCHEMA, in any order, and `_corrupt_record` (string); by default the
                whole schema. Only these are decoded.
            mode: what to do about damaged bytes. "failFast": raise CorruptRecordError after the records
                before them; "dropMalformed": report and skip them; "permissive": report them, and also yield
                one row that has only their location and, in `_corrupt_record`, the reason.
            check_crcs: check the CRCs of batches.
            max_rows, max_bytes: about the maximum number of rows, and of bytes of Arrow memory, of one batch;
                None: no limit.
            first_rows: about the number of rows of the first batch, which is small to be available soon.
            on_damage: called with each damaged range, except in mode "failFast".
            fail_on_data_loss: whether to raise an error if records are removed during the read. Otherwise log
                a warning and read the rest.
            filter: yield only the records that it selects: SQL text, or an expression of pyarrow or Polars
                (see native_log.filters). Batches without such records are not decompressed, so that damage in
                them may not be found. With mode "permissive", it applies to the rows of damaged bytes, too.

        Raises:
            FilterError: the filter is invalid.
            CorruptRecordError: see `mode`.
            LogTruncatedError: the log was truncated during the read (with `fail_on_data_loss`).
            FileNotFoundError: a segment with records of the range was removed during the read (with
                `fail_on_data_loss`), or the whole directory was.
        """
        from native_log.filters import to_filter  # takes long to import

        options = ReadOptions(
            mode=mode,
            check_crcs=check_crcs,
            max_rows=max_rows,
            max_bytes=max_bytes,
            first_rows=first_rows,
            on_damage=on_damage,
            fail_on_data_loss=fail_on_data_loss,
            filter=to_filter(filter),
        )
        return read_rows(self, RECORD_SCHEMA.names if columns is None else columns, options)

    def latest(
        self,
        columns: Sequence[str] | None = None,
        *,
        mode: Mode = "failFast",
        check_crcs: bool = True,
        fail_on_data_loss: bool = True,
        map_bytes: int = DEFAULT_MAP_BYTES,
        filter: FilterLike = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read the newest record of each key, in the order of offsets. A tombstone has a null value.

        Records without a key are dropped. With isolation_level "read_committed", records of aborted
        transactions are ignored.

        If a broker has compacted the log since the range was located, a key may be missing: its newest record
        lies behind the range. Then a warning is logged.

        Args:
            columns, mode, check_crcs, fail_on_data_loss: as for `read`, except `_corrupt_record` and
                "permissive".
            map_bytes: memory for keys. If they need more, the range is read several times.
            filter: yield only the newest records that it selects: see `read`.

        Raises: as `read`.
        """
        from native_log.filters import to_filter
        from native_log.log.reading.latest import latest_rows

        if mode == "permissive":
            raise ValueError(
                "mode: expected failFast or dropMalformed, found permissive: damaged bytes have no key"
            )
        names = list(RECORD_SCHEMA.names if columns is None else columns)
        options = ReadOptions(mode, check_crcs, fail_on_data_loss, filter=to_filter(filter))
        return latest_rows(self, names, options, map_bytes)
