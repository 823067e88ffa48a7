"""Read several ranges with several threads, in order, in bounded memory."""

from __future__ import annotations

import atexit
import threading
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa


class _HasSize(Protocol):
    """What threads read: a range or a part of one."""

    @property
    def size_bytes(self) -> int: ...


Range = TypeVar("Range", bound="_HasSize")

PART_BYTES = 16 << 20
"""How many bytes of a file one thread reads before it takes the next part."""

AHEAD_BYTES = 256 << 20
"""How many bytes of Arrow memory may be read ahead of the consumer, by all threads together."""

_readings: WeakSet[_Reading[Any]] = WeakSet()
_threads: WeakSet[threading.Thread] = WeakSet()


def read_parts(
    parts: Iterator[Range],
    read: Callable[[Range], Iterator[pa.RecordBatch]],
    threads: int,
    advance: Callable[[int], None] = lambda _: None,
    ahead_bytes: int = AHEAD_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches that `read` yields for each part, in the order of parts.

    Threads read the following parts meanwhile, as far as `ahead_bytes` allows. An error is raised after the
    batches before it. The threads end when the iterator is closed. After the batches of a part, `advance` is
    called with its number of bytes.
    """
    reading = _Reading(parts, read, threads, ahead_bytes, advance)
    _readings.add(reading)
    for number in range(threads):
        # Daemons, so that a process can exit without closing an iterator that it has not used up.
        thread = threading.Thread(target=reading.work, name=f"kafkalog-read-{number}", daemon=True)
        _threads.add(thread)
        thread.start()
    try:
        yield from reading.batches()
    finally:
        reading.close()


@atexit.register
def _end_threads() -> None:
    """End all threads before the interpreter does: it would stop them in the middle of native code."""
    for reading in list(_readings):
        reading.close()
    for thread in list(_threads):
        thread.join()


class _Reading(Generic[Range]):
    """What the threads share. Parts are numbered; `_changed` guards everything below it."""

    def __init__(
        self,
        parts: Iterator[Range],
        read: Callable[[Range], Iterator[pa.RecordBatch]],
        threads: int,
        ahead_bytes: int,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._read = read
        self._advance = advance
        self._sizes: dict[int, int] = {}
        self._most_parts = 4 * threads
        self._ahead_bytes = ahead_bytes
        self._planning = threading.Lock()
        self._parts = parts
        self._taken = 0
        self._changed = threading.Condition()
        self._current = 0  # the part that the consumer reads
        self._count: int | None = None  # of all parts; None: unknown yet
        self._batches: defaultdict[int, deque[pa.RecordBatch]] = defaultdict(deque)
        self._outcomes: dict[int, BaseException | None] = {}
        self._bytes = 0
        self._closed = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of all parts. Raise the error of a part after its batches."""
        while (batch := self._next()) is not None:
            yield batch

    def close(self) -> None:
        """Let the threads end."""
        with self._changed:
            self._closed = True
            self._batches.clear()
            self._changed.notify_all()

    def work(self) -> None:
        """Read parts until there are none left."""
        while (taken := self._take()) is not None:
            number, part = taken
            outcome: BaseException | None = None
            try:
                batches = iter(()) if part is None else self._read(part)
                for batch in batches:
                    if not self._put(number, batch):
                        return
            except BaseException as error:
                outcome = error
            with self._changed:
                self._outcomes[number] = outcome
                self._changed.notify_all()

    def _take(self) -> tuple[int, Range | None] | None:
        """Return the next part and its number, None if there are none left."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._taken < self._current + self._most_parts)
        with self._planning:
            if self._closed or self._count is not None:
                return None
            number = self._taken
            try:
                part = next(self._parts, None)
            except BaseException as error:
                with self._changed:
                    self._outcomes[number] = error
                    self._count = number + 1
                    self._changed.notify_all()
                return None
            self._taken += 1
            if part is not None:
                self._sizes[number] = part.size_bytes
                return number, part
            with self._changed:
                self._count = number
                self._changed.notify_all()
            return None

    def _put(self, number: int, batch: pa.RecordBatch) -> bool:
        """Hand a batch over, once there is room for it. Return whether to go on."""
        size_bytes = batch.get_total_buffer_size()
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_room(number, size_bytes))
            if self._closed:
                return False
            self._batches[number].append(batch)
            self._bytes += size_bytes
            self._changed.notify_all()
        return True

    def _has_room(self, number: int, size_bytes: int) -> bool:
        # The consumer's part must never wait for later parts.
        is_awaited = number == self._current and not self._batches[number]
        return is_awaited or self._bytes + size_bytes <= self._ahead_bytes

    def _next(self) -> pa.RecordBatch | None:
        """Return the next batch, None after the last one."""
        with self._changed:
            while True:
                self._changed.wait_for(self._is_ready)
                if waiting := self._batches.get(self._current):
                    batch = waiting.popleft()
                    self._bytes -= batch.get_total_buffer_size()
                    self._changed.notify_all()
                    return batch
                if self._current == self._count:
                    return None
                error = self._outcomes.pop(self._current)
                if error is not None:
                    raise error
                self._batches.pop(self._current, None)
                self._advance(self._sizes.pop(self._current, 0))
                self._current += 1
                self._changed.notify_all()

    def _is_ready(self) -> bool:
        return (
            bool(self._batches.get(self._current))
            or self._current in self._outcomes
            or self._current == self._count
        )
