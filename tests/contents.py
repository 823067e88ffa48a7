"""What logs and directories contain, as plain values that tests compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.records import scan

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa

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
