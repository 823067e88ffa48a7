"""A range of offsets of one partition, with the bytes that hold it: all that reading it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from native_log.log.reading.reader import DEFAULT_MAX_BYTES, Reader
from native_log.log.reading.split import split_by_bytes, split_by_offsets
from native_log.log.segment_slices import SlicedRange
from native_log.records import RECORD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from native_log.arguments import Mode
    from native_log.segment.damage import DamagedRange

DEFAULT_MAP_BYTES = 128 << 20
"""Of keys that `latest` holds, as for a broker's cleaner (log.cleaner.dedupe.buffer.size)."""


class ReadArguments(TypedDict, total=False):
    """The keywords of LogRange.read."""

    mode: Mode
    check_crcs: bool
    max_rows: int | None
    max_bytes: int | None
    first_rows: int | None
    on_damage: Callable[[DamagedRange], None] | None
    fail_on_data_loss: bool


@dataclass(frozen=True, slots=True)
class LogRange(SlicedRange):
    """The records of a partition from `start_offset` to before `end_offset`, to be split and read."""

    def split(self, max_bytes: int) -> list[LogRange]:
        """Ranges of about equal size and of about `max_bytes` at most, cut between batches."""
        return split_by_bytes(self, max_bytes)

    def split_at(self, offsets: Sequence[int]) -> list[LogRange]:
        """Ranges cut at the given offsets, which may lie within batches.

        Those not inside the range are passed over.
        """
        return split_by_offsets(self, offsets)

    def read(
        self,
        columns: Sequence[str] | None = None,
        *,
        mode: Mode = "failFast",
        check_crcs: bool = True,
        max_rows: int | None = None,
        max_bytes: int | None = DEFAULT_MAX_BYTES,
        first_rows: int | None = 1000,
        on_damage: Callable[[DamagedRange], None] | None = None,
        fail_on_data_loss: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """The records, in batches of a few megabytes.

        Args:
            columns: names of RECORD_SCHEMA, in any order, and `_corrupt_record` (string); by default the
                whole schema. Only these are decoded.
            mode: "failFast": damaged bytes raise CorruptRecordError once the records before them were given;
                "dropMalformed": they are reported, and reading goes on behind them; "permissive": they give
                one row besides, null but for where it lies and for `_corrupt_record`, what was wrong.
            check_crcs: compare the checksums of what is read.
            max_rows, max_bytes: about the most rows, and bytes of Arrow memory, of one batch; None: no limit
                of its own.
            first_rows: about how many rows the first batch has, so that it comes soon.
            on_damage: called with each damaged range, in the last two modes.
            fail_on_data_loss: whether records that were removed under the reader are an error; else it logs a
                warning and reads what is left.

        Raises:
            CorruptRecordError: see `mode`.
            LogTruncatedError: the log was truncated under the reader (with fail_on_data_loss).
            FileNotFoundError: a segment was removed under the reader, and its records with it (likewise); the
                whole directory was.
        """
        reader = Reader(
            self,
            list(RECORD_SCHEMA.names if columns is None else columns),
            mode=mode,
            check_crcs=check_crcs,
            max_rows=max_rows,
            max_bytes=max_bytes,
            first_rows=first_rows,
            on_damage=on_damage,
            fail_on_data_loss=fail_on_data_loss,
        )
        return reader.batches()

    def latest(
        self,
        columns: Sequence[str] | None = None,
        *,
        mode: Mode = "failFast",
        check_crcs: bool = True,
        fail_on_data_loss: bool = True,
        map_bytes: int = DEFAULT_MAP_BYTES,
    ) -> Iterator[pa.RecordBatch]:
        """The newest record of each key, by offset; where it is a tombstone, its value is null.

        Records without a key are left out, and with isolation_level "read_committed" those of aborted
        transactions do not count.

        Args:
            columns, mode, check_crcs, fail_on_data_loss: as for `read`, but without `_corrupt_record` and
                "permissive".
            map_bytes: memory for keys. Where they take more, the range is gone through several times.

        Raises: as `read`.
        """
        from native_log.log.reading.latest import How, latest_rows

        if mode == "permissive":
            raise ValueError("mode must be failFast or dropMalformed: damaged bytes have no key")
        names = list(RECORD_SCHEMA.names if columns is None else columns)
        how = How(mode, check_crcs, fail_on_data_loss)
        return latest_rows(self, names, how, map_bytes)
