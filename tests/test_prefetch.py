"""The next items are produced while the caller works on one."""

from __future__ import annotations

import threading

import pytest

from native_log.prefetch import map_ahead, map_together, prefetch


def test_yields_the_same_items_and_is_one_ahead() -> None:
    produced: list[int] = []
    second = threading.Event()

    def items():
        for number in range(5):
            produced.append(number)
            if number == 1:
                second.set()
            yield number

    consumed = []
    for number in prefetch(items()):
        assert second.wait(60)  # the second item was produced while this loop still works on the first
        assert len(produced) <= number + 2
        consumed.append(number)
    assert consumed == [0, 1, 2, 3, 4]
    assert list(prefetch(iter(()))) == []


def test_raises_an_error_in_place_of_the_item() -> None:
    def items():
        yield 1
        raise ValueError("no second")

    prefetched = prefetch(items())
    assert next(prefetched) == 1
    with pytest.raises(ValueError, match="no second"):
        next(prefetched)


def test_leaves_no_thread_when_closed_early() -> None:
    prefetched = prefetch(iter(range(10)))
    assert next(prefetched) == 0
    assert [thread for thread in threading.enumerate() if thread.name.startswith("kafkalog-prefetch")]
    prefetched.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kafkalog-prefetch")]


def test_map_ahead_yields_results_in_order_and_takes_few_items_ahead() -> None:
    taken: list[int] = []
    first = threading.Event()

    def items():
        for number in range(20):
            taken.append(number)
            yield number

    def work(number: int) -> int:
        if number == 0:
            assert first.wait(60)  # until another thread has worked on the second item
        else:
            first.set()
        return number * 2

    for number, result in enumerate(map_ahead(work, items(), 2)):
        assert result == number * 2
        assert len(taken) <= number + 5
    assert taken == list(range(20))


def test_map_ahead_raises_an_error_in_place_of_its_result() -> None:
    results = map_ahead(lambda number: 6 // number, [3, 2, 0, 1], 2)
    assert [next(results), next(results)] == [2, 3]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kafkalog-ahead")]


def test_all_wait_at_the_same_time() -> None:
    barrier = threading.Barrier(3, timeout=60)

    def read(name: str) -> str:
        barrier.wait()
        return name.upper()

    assert list(map_together(read, ("a", "b", "c"), are_local=False)) == ["A", "B", "C"]


def test_local_files_are_read_by_the_caller() -> None:
    caller = threading.get_ident()
    assert list(map_together(lambda _: threading.get_ident(), (1, 2), are_local=True)) == [caller, caller]


def test_calls_within_threads_start_no_more_threads_than_the_process_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("native_log.prefetch._MOST_WAITING", 2)

    def threads_of_inner_call(_: int) -> set[int]:
        own = threading.get_ident()
        return {own, *map_together(lambda _: threading.get_ident(), range(10), are_local=False)}

    found = list(map_together(threads_of_inner_call, range(8), are_local=False))
    assert [len(threads) for threads in found] == [1] * 8
    assert threading.get_ident() not in set().union(*found)
