"""What logs and directories contain, as plain values that tests compare."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, get_args

from native_log.arguments import IsolationLevel, Mode
from native_log.errors import CorruptRecordError
from native_log.records import scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from native_log import LogDir

COLUMNS = ["offset", "timestamp", "timestampType", "key", "value", "headers", "leaderEpoch"]


def as_rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Return rows of COLUMNS in the form of the fixtures' expected rows."""
    rows = []
    for batch in batches:
        rows += batch.set_column(1, "timestamp", batch.column("timestamp").cast("int64")).to_pylist()
    for row in rows:
        row["timestamp"] //= 1000
        row["headers"] = [(header["key"], header["value"]) for header in row["headers"] or []]
        row["leaderEpoch"] = None if row["leaderEpoch"] < 0 else row["leaderEpoch"]
    return rows


def offsets(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def batches(directory: Path) -> list[bytes]:
    """Return the batches of an undamaged partition directory, in order."""
    contents = []
    for log in sorted(directory.glob("*.log")):
        data = log.read_bytes()
        for row in scan(data).batches.select(["position", "sizeInBytes"]).to_pylist():
            contents.append(data[row["position"] : row["position"] + row["sizeInBytes"]])
    return contents


def files(directory: Path) -> dict[str, bytes]:
    """Return the content of all files below a directory, except the lock file."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


FileState = tuple[bytes | None, int]
"""Content (None: a directory) and modification time in ns."""


def states(directory: Path) -> dict[str, FileState]:
    """Return the state of all files and directories below a directory."""
    return {
        str(path.relative_to(directory)): (
            path.read_bytes() if path.is_file() else None,
            path.stat().st_mtime_ns,
        )
        for path in directory.rglob("*")
    }


def everything_in(log_dir: LogDir, modes: Sequence[Mode] = get_args(Mode)) -> Iterator[Any]:
    """Yield what can be read of all partitions: rows, errors, batches, transactions, and facts about logs."""
    for directory in log_dir.partitions():
        log = log_dir.partition(*directory.key)
        yield directory.key, directory.kind, log.log_start_offset, log.log_end_offset, log.high_watermark
        yield log.last_stable_offset, log.leader_epochs, log.topic_id, log.size_bytes
        for isolation_level, mode in product(get_args(IsolationLevel), modes):
            read = partial(log.read, isolation_level=isolation_level, mode=mode)
            yield _outcome(lambda read=read: read().read_all().to_pylist())
        for mode in [mode for mode in modes if mode != "permissive"]:
            yield _outcome(lambda log=log, mode=mode: [b.to_pylist() for b in log.batches(mode=mode)])
            yield _outcome(lambda log=log, mode=mode: log.transactions(mode=mode).to_pylist())
            yield _outcome(lambda log=log, mode=mode: log.offset_for_timestamp(0, mode=mode))


def _outcome(work: Any) -> Any:
    try:
        return work()
    except CorruptRecordError as error:
        return error.message, error.position, error.offset
