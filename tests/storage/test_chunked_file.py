"""Files whose bytes are made chunk by chunk when they are read."""

from __future__ import annotations

import os

import pytest

from native_log.storage import ChunkedFile, Window

DATA = bytes(range(256)) * 512
CHUNK_BYTES = 10_000


def open_file(loaded: list[int], data: bytes = DATA) -> ChunkedFile:
    def load(index: int) -> bytes:
        loaded.append(index)
        return data[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES]

    return ChunkedFile("/tier/t-0/0.log", len(data), 7, 1000, CHUNK_BYTES, load)


@pytest.mark.parametrize(
    ("position", "size", "chunks"),
    [(0, 1, [0]), (9_999, 2, [0, 1]), (10_000, 10_000, [1]), (len(DATA) - 1, 1, [13]), (5, 0, [])],
)
def test_only_the_chunks_that_are_needed_are_loaded_and_each_once(
    position: int, size: int, chunks: list[int]
) -> None:
    loaded: list[int] = []
    with open_file(loaded) as file:
        for _ in range(2):
            assert file.read(position, size) == DATA[position : position + size]
    assert loaded == chunks


def test_reading_past_the_end() -> None:
    with open_file([]) as file:
        assert file.read(len(DATA) - 3, 100) == DATA[-3:]
        assert file.read(len(DATA), 100) == b""
        assert bytes(Window().at(file, 0, len(DATA), len(DATA))) == DATA


def test_what_reads_by_descriptor_finds_the_bytes() -> None:
    loaded: list[int] = []
    with open_file(loaded) as file:
        read = file.read_by(lambda fd, start, end: os.pread(fd, end - start, start), 20_000, 25_000)
    assert read == DATA[20_000:25_000]
    assert loaded == [2, 3, 4]  # the kernel looks a little further


def test_zeros() -> None:
    data = b"\1" + bytes(50_000) + b"\1"
    with open_file([], data) as file:
        assert file.is_zero(1, 50_001)
        assert not file.is_zero(0, 50_001)
        assert not file.is_zero(1, 50_002)


def test_an_empty_file_and_its_identity() -> None:
    with open_file([], b"") as file:
        assert file.read(0, 10) == b""
        assert file.matches(7, 0, 1000)
