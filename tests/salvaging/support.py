"""What the tests of salvage share: rows, findings and damaged batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log import LogDir

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa


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


def findings(report: pa.Table) -> list[tuple[Any, ...]]:
    """Return (status, kind, firstOffset, lastOffset) of the report's rows, without "copied"."""
    return [
        (row["status"], row["kind"], row["firstOffset"], row["lastOffset"])
        for row in report.to_pylist()
        if row["status"] != "copied"
    ]


def damaged(batch: bytes) -> bytes:
    """Return a batch with a wrong checksum."""
    return batch[:-1] + bytes([batch[-1] ^ 1])
