"""A range of a log as a source that can be read more than once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log.log.reading.columns import check_mode, record_schema

if TYPE_CHECKING:
    from native_log.log.reading.log_range import LogRange
    from native_log.log.reading.options import ReadArguments


@dataclass(frozen=True, slots=True)
class LogScan:
    """Columns of the records of a range. Each call of a method reads the range again.

    All reads return the same offsets, even if records are appended in between. Libraries that know Arrow's
    PyCapsule interface accept a scan more than once: DuckDB, `polars.DataFrame(scan)`, `pyarrow.table(scan)`.

    Attributes:
        range: the range of offsets.
        columns: names of RECORD_SCHEMA, and `_corrupt_record`.
        arguments: keyword arguments of LogRange.read.
    """

    range: LogRange
    columns: tuple[str, ...]
    arguments: ReadArguments

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown column, an unknown mode or an invalid filter."""
        record_schema(self.columns)
        if (filter := self.arguments.get("filter")) is not None:
            from native_log.filters import to_filter  # takes long to import

            self.arguments["filter"] = to_filter(filter)
        check_mode(self.arguments.get("mode", "failFast"))

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the columns, with their types in RECORD_SCHEMA."""
        return record_schema(self.columns)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the records as a stream of record batches, which can be read once.

        After that it has no rows, and pyarrow raises no error. Reading raises as LogRange.read does.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self.range.read(self.columns, **self.arguments))

    def to_table(self) -> pa.Table:
        """Read all records into memory. Raises as LogRange.read."""
        return self.to_reader().read_all()

    def to_pandas(self) -> Any:
        """Read all records into a pandas DataFrame. Raises as LogRange.read."""
        return self.to_reader().read_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a new stream of all records (Arrow's PyCapsule interface)."""
        return self.to_reader().__arrow_c_stream__(requested_schema)
