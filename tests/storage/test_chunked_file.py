"""Files whose bytes are made chunk by chunk when they are read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.storage import ChunkedFile, Window

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = bytes(range(256)) * 512
CHUNK_BYTES = 10_000


def open_file(loaded: list[int], data: bytes = DATA) -> ChunkedFile:
    def prepare(index: int) -> Callable[[], bytes]:
        loaded.append(index)
        return lambda: data[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES]

    return ChunkedFile("/tier/t-0/0.log", len(data), 7, 1000, CHUNK_BYTES, prepare)


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


def test_chunks_are_made_ahead_from_the_second_step_on() -> None:
    loaded: list[int] = []
    with open_file(loaded) as file:
        file.will_read(0, 65_000)
        file.read(0, 100)
        assert loaded == [0]  # the reader of a few records needs no more
        file.read(100, 100)
        assert loaded == [0, 1, 2, 3]
        file.read(25_000, 100)
        assert loaded == [0, 1, 2, 3, 4, 5]
        file.read(60_000, 100)  # the kernel looks a little further than the last announced byte
        assert loaded == [0, 1, 2, 3, 4, 5, 7, 8, 6]


def test_large_chunks_are_not_made_ahead() -> None:
    loaded: list[int] = []
    size = 13 << 20

    def prepare(index: int) -> Callable[[], bytes]:
        loaded.append(index)
        return lambda: bytes(size)

    with ChunkedFile("/tier/t-0/0.log", 3 * size, 7, 1000, size, prepare) as file:
        file.will_read(0, 3 * size)
        file.read(0, 100)
        file.read(100, 100)
        assert file.step_from(200) == 1 << 20
    assert loaded == [0]


def test_a_chunk_that_cannot_be_read_fails_when_it_is_needed() -> None:
    def prepare(index: int) -> Callable[[], bytes]:
        if index == 2:
            raise OSError("the disk is broken")
        return lambda: bytes(CHUNK_BYTES)

    with ChunkedFile("/tier/t-0/0.log", 5 * CHUNK_BYTES, 7, 1000, CHUNK_BYTES, prepare) as file:
        file.will_read(0, 5 * CHUNK_BYTES)
        assert file.read(0, 10) == file.read(10, 10) == file.read(19_990, 10) == bytes(10)
        with pytest.raises(OSError, match="the disk is broken"):
            file.read(20_000, 1)


@given(st.lists(st.tuples(st.integers(0, len(DATA)), st.integers(0, 30_000), st.booleans())), st.booleans())
def test_any_order_of_reads(reads: list[tuple[int, int, bool]], is_announced: bool) -> None:
    with open_file([]) as file:
        if is_announced:
            file.will_read(0, len(DATA))
        for position, size, is_in_memory in reads:
            end = min(position + size, len(DATA))
            found = file.in_memory(position, end) if is_in_memory else file.read(position, size)
            assert bytes(found or b"") == DATA[position:end]
