"""Index files that a broker has preallocated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.segment import entries
from native_log.segment.entries import OFFSET_ENTRY, filled_entries
from native_log.segment.health import IndexHealth
from native_log.segment.offset_index import OffsetIndex
from native_log.storage import ByteCache
from native_log.storage.ranged_file import RangedFile

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.storage import DataFile

MAX = 10 << 20
"""segment.index.bytes"""


class Requests:
    """A preallocated index, and the ranges of it that were requested."""

    def __init__(self, count: int, entry_bytes: int, size_bytes: int) -> None:
        self.content = (b"\1" * (count * entry_bytes)).ljust(size_bytes, b"\0")
        self.count = 0

    def fetch(self, position: int, end: int) -> bytes:
        self.count += 1
        return self.content[position:end]

    def open(self) -> RangedFile:
        return RangedFile(
            "s3://bucket/00000000000000000000.index", len(self.content), "v1", 0, self.fetch, ByteCache(0)
        )


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 40), st.integers(0, 7))
def test_any_number_of_entries_is_found(filled: int, free: int, block: int, more_bytes: int) -> None:
    file = Requests(filled, 8, (filled + free) * 8 + more_bytes).open()
    with file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(entries, "_BLOCK", block)
        assert filled_entries(file, 8) == filled


def test_an_entry_that_is_written_while_the_file_is_read_is_not_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "00000000000000000000.index"
    written = [OFFSET_ENTRY.pack(10 * i, 100 * i) for i in range(1, 5)]
    path.write_bytes(b"".join(written[:3]).ljust(80, b"\0"))

    def write_after(file: DataFile, entry_bytes: int) -> int:
        count = filled_entries(file, entry_bytes)
        path.write_bytes(b"".join(written).ljust(80, b"\0"))
        return count

    monkeypatch.setattr(entries, "filled_entries", write_after)
    index = OffsetIndex.load(str(path), 0)
    assert len(index) == 3
    assert index.health(1000) == IndexHealth("zero-filled", 3)


@pytest.mark.parametrize(
    ("entry_bytes", "count", "requests"),
    [(8, MAX // 8, 1), (8, 0, 2), (8, 1_500, 2), (8, 6_000, 3), (8, 65_536, 11), (12, 0, 2), (12, 1_500, 2)],
)
def test_a_preallocated_object_takes_few_requests(entry_bytes: int, count: int, requests: int) -> None:
    index = Requests(count, entry_bytes, MAX // entry_bytes * entry_bytes)
    with index.open() as file:
        assert filled_entries(file, entry_bytes) == count
    assert index.count <= requests
