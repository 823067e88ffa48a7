"""The memory of a producer's batches, bounded by `buffer.memory` (Kafka: BufferPool)."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from native_log.errors import BufferExhaustedError, ProducerClosedError
from native_log.records import BatchBuilder

if TYPE_CHECKING:
    from native_log.producer.clock import Clock


class BufferPool:
    """Hand out builders of batches while their total size stays within a limit.

    Builders of `poolable_bytes` are kept for reuse. If memory is short, callers wait in the order of their
    calls: only the first one is woken, and it collects memory in parts until it has enough. Unlike in Kafka,
    a new caller does not overtake those that wait.

    The caller of each method holds `lock`.

    Attributes:
        total_bytes: the limit.
        unpooled_bytes: memory that is neither handed out nor kept in the free list.
        wait_ms: how long callers have waited in total.
        exhausted_count: how many callers waited in vain.
    """

    def __init__(self, total_bytes: int, poolable_bytes: int, lock: threading.Lock, clock: Clock) -> None:
        self.total_bytes = total_bytes
        self.poolable_bytes = poolable_bytes
        self.unpooled_bytes = total_bytes
        self.wait_ms = 0
        self.exhausted_count = 0
        self._lock = lock
        self._clock = clock
        self._free: deque[BatchBuilder] = deque()
        self._waiters: deque[threading.Condition] = deque()
        self._is_closed = False

    @property
    def available_bytes(self) -> int:
        """Memory that is not handed out."""
        return self.unpooled_bytes + len(self._free) * self.poolable_bytes

    @property
    def queued(self) -> int:
        """The number of callers that wait."""
        return len(self._waiters)

    def has(self, size_bytes: int) -> bool:
        """Return whether `allocate` does not wait, so that the lock is not released."""
        return self.available_bytes >= size_bytes and not self._waiters

    def allocate(self, size_bytes: int, max_block_ms: float) -> BatchBuilder:
        """Return an empty builder with this limit. Wait for memory, if necessary.

        Args:
            size_bytes: the limit of the builder.
            max_block_ms: how long to wait at most.

        Raises:
            BufferExhaustedError: no memory became available in time.
            ProducerClosedError: the pool was closed.
            ValueError: the size exceeds the limit of the pool.
        """
        if size_bytes == self.poolable_bytes and self._free and not self._waiters:
            self._check_open()
            return self._free.popleft()
        self.reserve(size_bytes, max_block_ms)
        return BatchBuilder(size_bytes)

    def reserve(self, size_bytes: int, max_block_ms: float) -> None:
        """Take memory for something other than a builder. Raises as `allocate`."""
        if size_bytes > self.total_bytes:
            raise ValueError(
                f"Attempt to allocate {size_bytes} bytes, but there is a hard limit of {self.total_bytes} on "
                "memory allocations."
            )
        self._check_open()
        try:
            if self.has(size_bytes):
                self._free_up(size_bytes)
                self.unpooled_bytes -= size_bytes
            else:
                self._wait_for(size_bytes, max_block_ms)
        finally:
            if self._waiters and self.available_bytes > 0:
                self._waiters[0].notify()

    def deallocate(self, builder: BatchBuilder, size_bytes: int) -> None:
        """Take back a builder, and wake the first caller that waits.

        Args:
            builder: a builder that `allocate` returned.
            size_bytes: the limit with which it was allocated.
        """
        if size_bytes == self.poolable_bytes:
            self._free.append(builder.renew(size_bytes, None))
            size_bytes = 0
        self.release(size_bytes)

    def release(self, size_bytes: int) -> None:
        """Take back memory, and wake the first caller that waits."""
        self.unpooled_bytes += size_bytes
        if self._waiters:
            self._waiters[0].notify()

    def close(self) -> None:
        """Wake all callers that wait. They get a ProducerClosedError."""
        self._is_closed = True
        for waiter in self._waiters:
            waiter.notify()

    def _wait_for(self, size_bytes: int, max_block_ms: float) -> None:
        """Collect memory in turn with other callers."""
        collected = 0
        left_ms = max_block_ms
        turn = threading.Condition(self._lock)
        self._waiters.append(turn)
        try:
            while collected < size_bytes:
                started_ms = self._clock.now_ms()
                is_signalled = self._clock.wait(turn, left_ms)
                waited_ms = max(0, self._clock.now_ms() - started_ms)
                self.wait_ms += waited_ms
                left_ms -= waited_ms
                self._check_open()
                if not is_signalled:
                    self.exhausted_count += 1
                    raise BufferExhaustedError(
                        f"Failed to allocate {size_bytes} bytes within the configured max blocking time "
                        f"{max_block_ms} ms. Total memory: {self.total_bytes} bytes. Available memory: "
                        f"{self.available_bytes} bytes. Poolable size: {self.poolable_bytes} bytes"
                    )
                self._free_up(size_bytes - collected)
                got = max(0, min(size_bytes - collected, self.unpooled_bytes))
                self.unpooled_bytes -= got
                collected += got
            collected = 0
        finally:
            self.unpooled_bytes += collected
            self._waiters.remove(turn)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ProducerClosedError("Producer closed while allocating memory")

    def _free_up(self, size_bytes: int) -> None:
        """Give up kept builders until `size_bytes` are unpooled, if there are enough."""
        while self._free and self.unpooled_bytes < size_bytes:
            self._free.pop()
            self.unpooled_bytes += self.poolable_bytes
