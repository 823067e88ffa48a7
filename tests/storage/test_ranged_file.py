"""A file that is fetched in ranges has the right bytes, in any order of reads."""

from __future__ import annotations

import os
import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.storage import ByteCache, anonymous_file, ranged_file
from native_log.storage.ranged_file import RANGES_AHEAD, RangedFile

SIZE = 1 << 20
CONTENT = random.Random(1).randbytes(SIZE)


class Source:
    """Bytes that are fetched by ranges, and what was fetched."""

    def __init__(self, content: bytes = CONTENT, fails_at: int | None = None) -> None:
        self.content = content
        self.fails_at = fails_at
        self.ranges: list[tuple[int, int]] = []
        self.blocks = ByteCache(max_bytes=16 << 10)
        self.running = self.most_running = 0
        self._lock = threading.Lock()

    def fetch(self, position: int, end: int) -> bytes:
        with self._lock:
            self.ranges.append((position, end))
            self.running += 1
            self.most_running = max(self.running, self.most_running)
        try:
            if self.fails_at is not None and position <= self.fails_at < end:
                raise OSError("connection reset")
            return self.content[position:end]
        finally:
            with self._lock:
                self.running -= 1

    def open(self) -> RangedFile:
        return RangedFile("s3://bucket/file", len(self.content), "v1", 0, self.fetch, self.blocks)

    @property
    def fetched_bytes(self) -> int:
        return sum(end - position for position, end in self.ranges)


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetch ranges from 1 KB to 64 KB, and keep little, so that a small file shows all behavior."""
    for name, value in {
        "_FIRST_BYTES": 1 << 10,
        "_LOOKUP_BYTES": 2 << 10,
        "_BLOCK_BYTES": 1 << 10,
        "_KEPT_RANGE_BYTES": 8 << 10,
        "MAX_RANGE_BYTES": 64 << 10,
    }.items():
        monkeypatch.setattr(ranged_file, name, value)
    for module in (ranged_file, anonymous_file):
        monkeypatch.setattr(module, "KEPT_BYTES", 32 << 10)
        monkeypatch.setattr(module, "LOOK_AHEAD_BYTES", 512)


positions = st.integers(0, SIZE)
reads = st.lists(st.tuples(positions, st.integers(0, 100_000)), max_size=30)


@given(reads, st.one_of(st.none(), st.tuples(positions, positions)), st.booleans())
def test_any_reads_in_any_order(
    wanted: list[tuple[int, int]], announced: tuple[int, int] | None, in_order: bool
) -> None:
    source = Source()
    for _ in range(2):  # the second time, some blocks are known
        with source.open() as file:
            if announced is not None:
                file.will_read(*sorted(announced))
            for position, size in sorted(wanted) if in_order else wanted:
                end = min(position + size, SIZE)
                view = file.in_memory(position, end)
                assert view is None or view == CONTENT[position:end]
                assert file.read(position, end - position) == CONTENT[position:end]
                found = file.read_by(lambda fd, start, stop: os.pread(fd, stop - start, start), position, end)
                assert found == CONTENT[position:end]


def read_all(file: RangedFile, start: int = 0, end: int = SIZE) -> bytes:
    found = b""
    while start + len(found) < end:
        found += file.read(start + len(found), min(file.step_from(start), 50_000, end - start - len(found)))
    return found


def test_a_file_that_is_read_in_order_is_fetched_once() -> None:
    source = Source()
    with source.open() as file:
        file.will_read(0, SIZE)
        assert read_all(file) == CONTENT
    assert source.fetched_bytes == SIZE
    assert max(end - position for position, end in source.ranges) == 64 << 10
    assert source.most_running <= RANGES_AHEAD + 1


def test_a_sequential_read_copies_next_to_nothing() -> None:
    """Only what the kernel looks at after the bytes is copied to the anonymous memory."""
    with Source().open() as file:
        file.will_read(0, SIZE)
        position = 0
        while position < SIZE:
            end = min(position + 50_000, SIZE)
            view = file.in_memory(position, end)
            assert view == CONTENT[position:end]
            held = os.fstat(file.fileno()).st_blocks * 512
            position = end - 1000 if end < SIZE else end  # the last batch was not complete
        assert held <= 4 * (32 << 10)


def test_only_a_little_more_than_what_was_announced_is_fetched() -> None:
    source = Source()
    with source.open() as file:
        file.will_read(300_000, 400_000)
        assert read_all(file, 300_000, 400_000) == CONTENT[300_000:400_000]
    assert source.fetched_bytes == 300_000 % 1024 + 100_000 + 512


def test_a_reader_that_stops_early_has_fetched_little() -> None:
    source = Source()
    with source.open() as file:
        file.will_read(0, SIZE)
        file.read(0, file.step_from(0))
    assert source.fetched_bytes <= 8 << 10


def test_a_sequential_read_is_prefetched_without_an_announcement() -> None:
    source = Source()
    with source.open() as file:
        assert read_all(file) == CONTENT
    assert source.fetched_bytes < SIZE + (16 << 10)
    assert len(source.ranges) < 30


def test_lookups_of_the_same_bytes_fetch_them_once() -> None:
    source = Source()
    for position in (SIZE - 700, 500_000, SIZE - 700, 501_000, 500_700):
        with source.open() as file:
            assert file.read(position, 600) == CONTENT[position : position + 600]
    assert len(source.ranges) == 2


def test_blocks_of_another_version_are_not_used() -> None:
    source = Source()
    with source.open() as file:
        file.read(500_000, 100)
    source.content = CONTENT[::-1]
    with RangedFile("s3://bucket/file", SIZE, "v2", 0, source.fetch, source.blocks) as file:
        assert file.read(500_000, 100) == source.content[500_000:500_100]


def test_what_was_announced_is_on_its_way_before_it_is_read() -> None:
    source = Source()
    is_requested = threading.Event()
    fetch = source.fetch

    def signal(position: int, end: int) -> bytes:
        is_requested.set()
        return fetch(position, end)

    source.fetch = signal  # type: ignore[method-assign]
    for _ in range(2):  # the second time, all bytes are known
        with source.open() as file:
            file.will_read(SIZE - 1000, SIZE)
            assert is_requested.wait(60)
            assert file.read(SIZE - 100, 100) == CONTENT[-100:]
            assert file.read(SIZE - 1000, 100) == CONTENT[-1000:-900]
    assert source.ranges == [(SIZE - 1024, SIZE)]


def test_memory_behind_the_reader_is_given_back() -> None:
    source = Source()
    with source.open() as file:
        file.will_read(0, SIZE)
        read_all(file)
        held = os.fstat(file.fileno()).st_blocks * 512
        assert held <= 4 * (32 << 10) + RANGES_AHEAD * (64 << 10)
        assert file.read(10, 100) == CONTENT[10:110]  # it is fetched again


def test_an_error_is_raised_where_its_bytes_are_needed_and_not_before() -> None:
    source = Source(fails_at=200_000)
    with source.open() as file:
        file.will_read(0, SIZE)
        assert read_all(file, 0, 100_000) == CONTENT[:100_000]
        with pytest.raises(OSError, match="connection reset"):
            read_all(file, 100_000, 300_000)
        source.fails_at = None
        assert read_all(file, 100_000, 300_000) == CONTENT[100_000:300_000]


def test_zeros() -> None:
    source = Source(CONTENT[:5000] + bytes(20_000))
    with source.open() as file:
        assert file.is_zero(5000, 25_000)
        assert not file.is_zero(4990, 25_000)


def test_an_empty_file() -> None:
    with Source(b"").open() as file:
        assert file.read(0, 0) == b""
        assert file.size_bytes == 0


def test_an_answer_that_is_too_short_is_an_error() -> None:
    source = Source()
    source.fetch = lambda position, end: CONTENT[position : end - 1]  # type: ignore[method-assign]
    with (
        source.open() as file,
        pytest.raises(OSError, match=r"expected 2048 bytes from position 0 on, found 2047"),
    ):
        file.read(0, 100)
