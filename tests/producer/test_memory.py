"""The buffer pool, the estimate of compression, and delays."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from native_log.errors import BufferExhaustedError, ProducerClosedError
from native_log.producer.backoff import ExponentialBackoff
from native_log.producer.buffer_pool import BufferPool
from native_log.producer.compression_ratio import CompressionRatios, updated_ratio

from .support import MockClock


class Pool:
    """A pool of 100 bytes with builders of 30, whose lock is held."""

    def __init__(self) -> None:
        self.clock = MockClock()
        lock = threading.Lock()
        lock.acquire()
        self.pool = BufferPool(100, 30, lock, self.clock)


def test_builders_of_the_usual_size_are_reused() -> None:
    pool = Pool().pool
    builder = pool.allocate(30, 0)
    builder.append(b"v" * 50, None, None, 1)
    pool.deallocate(builder, 30)
    assert (pool.available_bytes, pool.unpooled_bytes) == (100, 70)
    assert builder.is_closed
    reused = pool.allocate(30, 0)
    assert (reused.record_count, reused.limit_bytes) == (0, 30)
    assert builder.record_count == 0


def test_kept_builders_make_room_for_other_sizes() -> None:
    pool = Pool().pool
    for builder in [pool.allocate(30, 0) for _ in range(3)]:
        pool.deallocate(builder, 30)
    large = pool.allocate(60, 0)
    assert (pool.available_bytes, pool.unpooled_bytes) == (40, 10)
    pool.deallocate(large, 60)
    assert (pool.available_bytes, pool.unpooled_bytes) == (100, 70)


def test_a_size_above_the_limit_is_an_error() -> None:
    with pytest.raises(ValueError, match="Attempt to allocate 101 bytes, but there is a hard limit of 100"):
        Pool().pool.allocate(101, 0)


def test_a_caller_collects_memory_in_parts() -> None:
    at = Pool()
    builders = [at.pool.allocate(30, 0) for _ in range(3)]
    for builder in builders:
        at.clock.while_waiting.append(partial(at.pool.deallocate, builder, 30))
    at.pool.reserve(100, 50)
    assert (at.pool.available_bytes, at.pool.queued) == (0, 0)
    assert not at.clock.while_waiting


def test_a_caller_that_waits_in_vain_gives_back_what_it_collected() -> None:
    at = Pool()
    first = at.pool.allocate(30, 0)
    at.pool.allocate(60, 0)
    at.clock.while_waiting.append(lambda: at.pool.deallocate(first, 30))
    started = at.clock.now
    with pytest.raises(BufferExhaustedError, match="Failed to allocate 50 bytes"):
        at.pool.allocate(50, 2000)
    assert at.clock.now - started == 2000
    assert (at.pool.available_bytes, at.pool.queued) == (40, 0)
    assert (at.pool.exhausted_count, at.pool.wait_ms) == (1, 2000)


def test_a_closed_pool_wakes_its_callers() -> None:
    at = Pool()
    at.pool.allocate(100, 0)
    at.clock.while_waiting.append(at.pool.close)
    with pytest.raises(ProducerClosedError, match="Producer closed while allocating memory"):
        at.pool.allocate(30, 50)
    with pytest.raises(ProducerClosedError):
        at.pool.allocate(30, 50)


def test_callers_are_served_in_their_order() -> None:
    """A second caller waits behind the first one, even if there is enough for itself."""
    at = Pool()
    builders = [at.pool.allocate(30, 0) for _ in range(3)]
    order: list[str] = []

    def second() -> None:
        others, at.clock.while_waiting = at.clock.while_waiting, []
        at.pool.deallocate(builders[1], 30)
        with pytest.raises(BufferExhaustedError):
            at.pool.allocate(30, 0)  # there is enough, but the first caller waits for it
        at.clock.while_waiting = others
        order.append("second")

    at.clock.while_waiting += [
        lambda: at.pool.deallocate(builders[0], 30),
        second,
        lambda: at.pool.deallocate(builders[2], 30),
    ]
    at.pool.reserve(100, 50)
    order.append("first")
    assert order == ["second", "first"]
    assert at.pool.available_bytes == 0


@pytest.mark.parametrize(
    ("estimated", "observed", "expected"),
    [(1.0, 0.5, 0.995), (0.5, 0.499, 0.499), (0.5, 0.51, 0.55), (0.5, 0.9, 0.9), (1.0, 2.0, 2.0)],
)
def test_compression_ratio(estimated: float, observed: float, expected: float) -> None:
    assert updated_ratio(estimated, observed) == pytest.approx(expected)
    ratios = CompressionRatios()
    assert ratios.get("t") == 1.0
    ratios.reset("t", estimated)
    ratios.observe("t", observed)
    assert ratios.get("t") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("failed", "expected"), [(0, 0), (1, 110), (2, 220), (3, 440), (4, 880), (5, 1000), (200, 1000)]
)
def test_backoff(failed: int, expected: int) -> None:
    backoff = ExponentialBackoff(100, 1000, lambda low, high: 1.1 if (low, high) == (0.8, 1.2) else 0)
    assert backoff.delay_ms(failed) == expected
    assert ExponentialBackoff(50, 50, lambda *_: 9).delay_ms(failed) == (50 if failed else 0)
