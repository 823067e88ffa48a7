"""Reading files: descriptors, the window over a file, and holes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.errors import LogTruncatedError
from native_log.storage import DataFile, Window

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def data_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("storage") / "data"
    path.write_bytes(bytes(range(256)) * 4)
    return path


@given(
    st.integers(1, 300),
    st.lists(st.tuples(st.integers(0, 1024), st.integers(0, 1024), st.integers(1, 700)), max_size=8),
)
def test_a_window_returns_the_bytes_of_the_file(
    data_file: Path, chunk_bytes: int, calls: list[tuple[int, int, int]]
) -> None:
    data = data_file.read_bytes()
    window = Window(chunk_bytes)
    with DataFile(str(data_file)) as first, DataFile(str(data_file)) as second:
        for number, (position, end, needed) in enumerate(calls):
            view = window.at(second if number % 3 == 2 else first, position, end, needed)
            assert view == data[position : position + len(view)]
            assert len(view) <= max(0, end - position)
            assert len(view) >= min(needed, max(0, end - position))


def test_a_window_keeps_the_offset_within_a_page(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(data := os.urandom(30_000))
    window = Window(5000)
    with DataFile(str(path)) as file:
        for position in [0, 100, 4990, 9000, 9001, 20_000, 3, 29_999]:
            view = window.at(file, position, len(data), 4000)
            assert view == data[position : position + len(view)]
            assert pa.py_buffer(view).address % 4096 == position % 4096


def test_a_window_reads_no_byte_twice(data_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[tuple[int, int]] = []
    read_into = DataFile.read_into

    def counted(self: DataFile, buffer: memoryview, position: int) -> None:
        reads.append((position, len(buffer)))
        read_into(self, buffer, position)

    monkeypatch.setattr(DataFile, "read_into", counted)
    window = Window(100)
    with DataFile(str(data_file)) as file:
        for position in range(0, 990, 33):  # a batch of 33 bytes at a time, three to a chunk
            assert len(window.at(file, position, 990, 33)) >= 33
    assert sum(length for _, length in reads) == 990
    assert [position for position, _ in reads] == sorted({position for position, _ in reads})


def test_a_file_that_is_truncated_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "truncated.log"
    path.write_bytes(b"x" * 1000)
    with DataFile(str(path)) as file:
        os.truncate(path, 600)
        assert file.read(0, 600) == b"x" * 600
        with pytest.raises(LogTruncatedError) as raised:
            Window().at(file, 500, 1000)
    assert (raised.value.path, raised.value.position) == (str(path), 600)


def test_files_are_not_inherited_and_not_writable(data_file: Path) -> None:
    with DataFile(str(data_file)) as file:
        descriptor = file._descriptor
        assert not os.get_inheritable(descriptor)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(descriptor, b"x")


@pytest.mark.parametrize("position", [0, 1, 65535, 65536, 200_000, 299_999])
def test_is_zero(tmp_path: Path, position: int) -> None:
    path = tmp_path / "preallocated.log"
    with open(path, "wb") as out:
        out.truncate(300_000)  # a hole, as in a preallocated file
    with DataFile(str(path)) as file:
        assert file.is_zero(0, 300_000)
    path.write_bytes(bytes(300_000))  # as in a copy of the file
    with open(path, "r+b") as out:
        out.seek(position)
        out.write(b"\1")
    with DataFile(str(path)) as file:
        assert not file.is_zero(0, 300_000)
        assert file.is_zero(position + 1, 300_000)
        assert file.is_zero(0, position)
