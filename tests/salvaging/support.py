"""What the tests of salvage share: rows, batches and the state of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log import LogDir
from native_log.records import scan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

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


def rows(paths: Path | Sequence[Path], **options: Any) -> dict[tuple[str, int], pa.Table]:
    """Return what mode dropMalformed reads of each partition, without the location of records."""
    log_dir = LogDir(paths, high_watermark="ignore", **options)
    return {
        directory.key: log_dir.partition(*directory.key)
        .read(mode="dropMalformed")
        .read_all()
        .drop(["position", "segment", "topic"])
        for directory in log_dir.partitions()
    }


def batches(directory: Path) -> list[bytes]:
    """Return the batches of an undamaged partition directory, in order."""
    contents = []
    for log in sorted(directory.glob("*.log")):
        data = log.read_bytes()
        for row in scan(data).batches.select(["position", "sizeInBytes"]).to_pylist():
            contents.append(data[row["position"] : row["position"] + row["sizeInBytes"]])
    return contents


def findings(report: pa.Table) -> list[tuple[Any, ...]]:
    """Return (status, kind, firstOffset, lastOffset) of the report's rows, without "copied"."""
    return [
        (row["status"], row["kind"], row["firstOffset"], row["lastOffset"])
        for row in report.to_pylist()
        if row["status"] != "copied"
    ]
