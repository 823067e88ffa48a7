"""scan_file reads small batches in large chunks, and of large batches only the headers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from native_log.errors import LogTruncatedError
from native_log.records import scan
from native_log.segment.scan import scan_file
from native_log.storage import DataFile, Window
from tests.builders.batches import batch

if TYPE_CHECKING:
    from pathlib import Path

SMALL = b"".join(batch(offset, 3) for offset in range(0, 300, 3))
LARGE = b"".join(batch(offset, 2, size=10_000) for offset in range(300, 900, 2))


def scanned(path: Path, end: int | None = None) -> tuple[pa.Table, str, int]:
    with DataFile(str(path)) as file:
        parts = list(scan_file(file, 0, file.size_bytes if end is None else end, Window()))
    return pa.Table.from_batches([part.batches for part in parts]), parts[-1].status, parts[-1].position


@pytest.mark.parametrize("content", [SMALL, LARGE, SMALL + LARGE, LARGE + SMALL, LARGE + SMALL + LARGE])
def test_batches_of_all_sizes_are_scanned(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(content)
    expected = pa.Table.from_batches([scan(content).batches])
    assert scanned(path) == (expected, "end", len(content))
    last = len(content) - expected.column("sizeInBytes")[-1].as_py()
    for end in (len(content) - 1, last + 61):  # its header is in the file, but not its whole body
        assert scanned(path, end) == (expected.slice(0, len(expected) - 1), "partial", last)
    path.write_bytes(content + bytes(100_000))
    assert scanned(path) == (expected, "zeros", len(content))
    path.write_bytes(content + bytes(100_000) + b"x")
    assert scanned(path) == (expected, "damaged", len(content))


def test_a_file_that_is_truncated_while_headers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(LARGE)
    with DataFile(str(path)) as file:
        scans = scan_file(file, 0, file.size_bytes, Window())
        next(scans)
        os.truncate(path, len(LARGE) // 2)
        with pytest.raises(LogTruncatedError):
            list(scans)
