"""A cache of bytes up to a total size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


class ByteCache:
    """A cache that evicts the least recently used values. It is thread-safe. A pickled copy is empty."""

    def __init__(self, max_bytes: int) -> None:
        """Create an empty cache. The sum of the sizes of its values is at most `max_bytes`."""
        self._max_bytes = max_bytes
        self._values: OrderedDict[Hashable, bytes] = OrderedDict()
        self._size_bytes = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[ByteCache], tuple[int]]:
        return ByteCache, (self._max_bytes,)

    def get(self, key: Hashable) -> bytes | None:
        """Return the value with a key; None if there is none."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Hashable, value: bytes) -> None:
        """Add a value, unless its key has one. Evict others if the cache is full."""
        with self._lock:
            if key in self._values or len(value) > self._max_bytes:
                return
            self._values[key] = value
            self._size_bytes += len(value)
            while self._size_bytes > self._max_bytes:
                _, dropped = self._values.popitem(last=False)
                self._size_bytes -= len(dropped)
