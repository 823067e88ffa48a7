"""How many logs are read at a time."""

from __future__ import annotations

import threading
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.workers import map_logs, map_tables, waiting_readers

MIB = 1 << 20


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("native_log.workers.available_cores", lambda: 2)


@pytest.mark.parametrize(
    ("sizes", "readers"),
    [
        ([], 8),
        ([inf] * 100, 8),
        ([200 * MIB] * 100, 8),
        ([MIB] * 100, 64),
        ([MIB] * 20, 20),
        ([200 * MIB] * 4 + [10 * MIB] * 100, 24),
    ],
)
def test_many_threads_read_small_logs(sizes: list[float], readers: int) -> None:
    assert waiting_readers(sizes) == readers


def test_there_are_as_many_as_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("native_log.workers.available_cores", lambda: 32)
    assert waiting_readers([inf] * 100) == 32


@given(st.lists(st.integers(0, 300 * MIB), max_size=100))
def test_their_memory_is_bounded(sizes: list[float]) -> None:
    readers = waiting_readers(sizes)
    at_a_time = sorted(sizes, reverse=True)[:readers]
    assert sum(min(size, 52 * MIB) for size in at_a_time) <= 416 * MIB


def test_the_caller_reads_if_there_are_no_readers() -> None:
    caller = threading.get_ident()
    assert list(map_logs(lambda _: threading.get_ident(), range(2), None)) == [caller, caller]
    is_read: list[int] = []
    tables = map_tables(lambda log: (is_read.append(log) for _ in range(2)), [1, 2], None)
    next(iter(next(tables)))
    assert is_read == [1]


def test_readers_collect_what_they_read() -> None:
    assert list(map_tables(lambda log: iter([log, log]), [1, 2], 2)) == [[1, 1], [2, 2]]
