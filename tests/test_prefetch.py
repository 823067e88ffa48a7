"""The next thing is made while one is worked on."""

from __future__ import annotations

import threading

import pytest

from native_log.prefetch import prefetch


def test_the_same_things_one_ahead() -> None:
    made: list[int] = []
    third = threading.Event()

    def things():
        for number in range(5):
            made.append(number)
            if number == 1:
                third.set()
            yield number

    seen = []
    for number in prefetch(things()):
        assert third.wait(10)  # the second was made although the first is still worked on
        assert len(made) <= number + 2
        seen.append(number)
    assert seen == [0, 1, 2, 3, 4]
    assert list(prefetch(iter(()))) == []


def test_errors_come_where_their_thing_would() -> None:
    def things():
        yield 1
        raise ValueError("no second")

    ahead = prefetch(things())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="no second"):
        next(ahead)


def test_who_stops_early_leaves_no_thread() -> None:
    ahead = prefetch(iter(range(10)))
    assert next(ahead) == 0
    ahead.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kafkalog-ahead")]
