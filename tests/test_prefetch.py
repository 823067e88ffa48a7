"""prefetch produces the next item while the caller works on one."""

from __future__ import annotations

import threading

import pytest

from native_log.prefetch import prefetch


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
        assert second.wait(10)  # the second item was produced while this loop still works on the first
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
