"""Scan log directories: records as Arrow, pandas, or a lazy frame of Polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.log.reading.options import ReadArguments
from native_log.logdir import LogDir
from native_log.logdir.options import LogDirArguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Unpack

    import polars as pl

    from native_log.arguments import IsolationLevel, PathLike
    from native_log.log.reading.log_scan import LogScan
    from native_log.logdir.position import Position

# Polars 1.21 and older lose conditions that they pass to a source. Up to 1.31, literals have other forms.
_OLDEST_POLARS = (1, 32)


class ScanArguments(ReadArguments, LogDirArguments, total=False):
    """The keyword arguments of LogRange.read and of LogDir."""


def scan(
    paths: PathLike | Iterable[PathLike] | LogDir | None,
    topics: str | Iterable[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    exclude_topics: str | Iterable[str] = (),
    partitions: int | Iterable[int | range] | None = None,
    start: Position = None,
    end: Position = None,
    isolation_level: IsolationLevel = "read_uncommitted",
    threads: int | None = None,
    key_partitions: int | Mapping[str, int] | None = None,
    **arguments: Unpack[ScanArguments],
) -> LogScan:
    """Return the records of many partitions as a source that can be read more than once.

        scan = native_log.scan("/var/kafka-logs", "orders", ["key", "value"], filter="key = 'k1'")
        scan.to_table(); scan.to_pandas(); scan.count_rows(); duckdb.sql("SELECT count(*) FROM scan")

    Args:
        paths: see LogDir; None: remote storage alone. Or a LogDir.
        topics, columns, exclude_topics, partitions, start, end: see LogDir.scan.
        isolation_level, threads, key_partitions: see LogDir.scan.
        arguments: `filter`, `mode` and the other keyword arguments of LogRange.read; with paths also those of
            LogDir, such as `replicas`, `storage_options` and `remote`.

    Raises: as LogDir and LogDir.scan; ValueError if arguments of LogDir are given with a LogDir.
    """
    of_log_dir = {name: value for name, value in arguments.items() if name in LogDirArguments.__annotations__}
    options = {name: value for name, value in arguments.items() if name not in of_log_dir}
    if isinstance(paths, LogDir) and of_log_dir:
        raise ValueError(f"{', '.join(of_log_dir)}: expected paths, found a LogDir, which has these settings")
    log_dir = paths if isinstance(paths, LogDir) else LogDir(paths, **of_log_dir)  # type: ignore[arg-type]
    return log_dir.scan(
        topics,
        columns,
        exclude_topics=exclude_topics,
        partitions=partitions,
        start=start,
        end=end,
        isolation_level=isolation_level,
        threads=threads,
        key_partitions=key_partitions,
        **options,  # type: ignore[arg-type]
    )


def scan_polars(
    paths: PathLike | Iterable[PathLike] | LogDir | None,
    topics: str | Iterable[str] | None = None,
    **arguments: Any,
) -> pl.LazyFrame:
    """Return the records of many partitions as a lazy frame of Polars.

    Only the columns that a query needs are decoded. Conditions on topic, partition, offset, timestamp,
    producerId and key skip partitions, batches and records; Polars applies all conditions to the rest.
    `head` ends the read early.

    Args:
        paths, topics, arguments: see `scan`. `_corrupt_record` is among the columns only if it is named.

    Raises:
        ImportError: Polars is not installed, or older than 1.32.
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    if tuple(map(int, pl.__version__.split(".")[:2])) < _OLDEST_POLARS:
        oldest = ".".join(map(str, _OLDEST_POLARS))
        raise ImportError(f"expected Polars {oldest} or newer, found {pl.__version__}: pip install -U polars")
    whole = scan(paths, topics, **arguments)

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG001
    ) -> Iterator[pl.DataFrame]:
        return _frames(whole, with_columns, predicate, n_rows)

    schema = pl.from_arrow(whole.schema.empty_table())
    assert isinstance(schema, pl.DataFrame)
    return register_io_source(read, schema=schema.schema)


def _frames(
    whole: LogScan, names: Sequence[str] | None, predicate: pl.Expr | None, most_rows: int | None
) -> Iterator[pl.DataFrame]:
    """Yield the rows that a query of Polars reads.

    Args:
        whole: the records.
        names: the columns; None: all.
        predicate: a condition; None: there is none.
        most_rows: how many records are read (None: all). Polars counts them before it applies the predicate.
    """
    import polars as pl

    scan = whole
    columns = list(whole.columns if names is None else names)
    if predicate is not None:
        from native_log.filters.polars import translate_predicate

        needed = [name for name in predicate.meta.root_names() if name not in columns]
        filter = translate_predicate(predicate).filter if most_rows is None else None
        scan = whole.select([*columns, *needed], filter)
    elif names is not None:
        scan = whole.select(columns)
    left = most_rows
    for batch in scan.batches():
        frame = pl.from_arrow(batch)
        assert isinstance(frame, pl.DataFrame)
        if left is not None:
            frame = frame.head(left)
            left -= frame.height
        if predicate is not None:
            frame = frame.filter(predicate).select(columns)
        yield frame
        if left is not None and left <= 0:
            return
