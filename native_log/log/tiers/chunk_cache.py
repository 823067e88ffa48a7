"""The chunks that were restored last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_MAX_BYTES = 32 << 20


class ChunkCache:
    """A cache of restored chunks of a process, up to a total size.

    A read checks the batches of a joined log before it decodes them, and opens the file anew for both.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._chunks: OrderedDict[Hashable, bytes] = OrderedDict()
        self._size_bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, restore: Callable[[], bytes]) -> bytes:
        """Return the chunk with a key. If it is not in the cache, `restore` makes it."""
        with self._lock:
            if key in self._chunks:
                self._chunks.move_to_end(key)
                return self._chunks[key]
        chunk = restore()
        with self._lock:
            if key not in self._chunks and len(chunk) <= self._max_bytes:
                self._chunks[key] = chunk
                self._size_bytes += len(chunk)
                while self._size_bytes > self._max_bytes:
                    _, dropped = self._chunks.popitem(last=False)
                    self._size_bytes -= len(dropped)
        return chunk
