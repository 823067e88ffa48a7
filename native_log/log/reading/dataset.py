"""A scan as a dataset of pyarrow: its users ask for the columns and rows that they need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow.compute as pc


class Rows(Protocol):
    """Rows that can be read: a LogScan."""

    @property
    def schema(self) -> pa.Schema: ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...

    def to_reader(self) -> pa.RecordBatchReader: ...

    def to_table(self) -> pa.Table: ...

    def count_rows(self) -> int: ...


_NO_FILE = "no file: the records of a LogDataset are read by its methods"


class LogDataset(ds.FileSystemDataset):  # type: ignore[misc] # pyarrow has no types
    """The records of a scan. DuckDB's replacement scan, DataFusion's register_dataset and Polars'
    scan_pyarrow_dataset accept it.

    It has the methods of a pyarrow.dataset.Dataset by which other libraries read one: `schema`, `scanner`,
    `to_batches`, `to_table`, `to_reader`, `get_fragments`, `head` and `count_rows`. The others raise
    NotImplementedError. Functions of Arrow that use no methods, such as Scanner.from_dataset, raise
    FileNotFoundError.
    """

    def __init__(
        self, schema: pa.Schema, select: Callable[[Sequence[str] | None, pc.Expression | None], Rows]
    ) -> None:
        """Return rows that `select` finds, given columns and a filter."""
        # Arrow's own functions use a C++ object. Without one they would crash; this one has a missing file.
        format, files = ds.IpcFileFormat(), LocalFileSystem()
        super().__init__([format.make_fragment(_NO_FILE, files)], schema, format, files)
        self._selected = select

    def __reduce__(self) -> tuple[Any, ...]:
        return LogDataset, (self.schema, self._selected)

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: object
    ) -> LogScanner:
        """Return the rows for which `filter` is true, with these columns.

        Raises NotImplementedError for columns that are computed by expressions.
        """
        if isinstance(columns, Mapping):
            raise NotImplementedError("expected the names of columns, found expressions")
        return LogScanner(self._selected(columns, filter))

    def to_batches(self, columns: Sequence[str] | None = None, filter: Any = None, **_: object) -> Any:
        """Yield the rows of a scanner as record batches."""
        return self.scanner(columns, filter).to_batches()

    def to_table(self, columns: Sequence[str] | None = None, filter: Any = None, **_: object) -> pa.Table:
        """Return the rows of a scanner."""
        return self.scanner(columns, filter).to_table()

    def to_reader(self, columns: Sequence[str] | None = None, filter: Any = None) -> pa.RecordBatchReader:
        """Return the rows of a scanner as a stream."""
        return self.scanner(columns, filter).to_reader()

    def head(
        self, num_rows: int, columns: Sequence[str] | None = None, filter: Any = None, **_: object
    ) -> pa.Table:
        """Return the first rows of a scanner."""
        return self.scanner(columns, filter).head(num_rows)

    def count_rows(self, filter: Any = None, **_: object) -> int:
        """Return the number of rows for which `filter` is true."""
        return self._selected(None, filter).count_rows()

    def get_fragments(self, filter: Any = None) -> Iterator[LogFragment]:  # noqa: ARG002 (scanner gets it)
        """Yield one part with all rows: its scanner reads partitions in parallel."""
        yield LogFragment(self)

    def _unsupported(self, *_: object, **__: object) -> Any:
        raise NotImplementedError("a dataset of log records has no such method; see LogScan.to_reader")

    take = sort_by = join = join_asof = replace_schema = filter = _unsupported


class LogFragment:
    """What LogDataset.get_fragments yields: its rows (pyarrow.dataset.Fragment)."""

    def __init__(self, dataset: LogDataset) -> None:
        self._dataset = dataset

    def scanner(self, schema: pa.Schema | None = None, **options: Any) -> LogScanner:  # noqa: ARG002
        """Return the rows of LogDataset.scanner."""
        return self._dataset.scanner(**options)


class LogScanner:
    """What LogDataset.scanner returns: the rows of one scan (pyarrow.dataset.Scanner)."""

    def __init__(self, scan: Rows) -> None:
        self._scan = scan

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._scan.schema

    dataset_schema = projected_schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        return self._scan.batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream."""
        return self._scan.to_reader()

    def to_table(self) -> pa.Table:
        """Return the rows."""
        return self._scan.to_table()

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows."""
        rows, batches = 0, []
        for batch in self.to_batches():
            batches.append(batch.slice(0, num_rows - rows))
            rows += batches[-1].num_rows
            if rows >= num_rows:
                break
        return pa.Table.from_batches(batches, self._scan.schema)

    def count_rows(self) -> int:
        """Return the number of rows."""
        return self._scan.count_rows()
