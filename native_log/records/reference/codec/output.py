"""A buffer of limited size for decompressed bytes."""

from __future__ import annotations

from native_log.records.reference.damage import DamagedBatchError


class Output:
    def __init__(self, codec: str, limit: int) -> None:
        self._codec = codec
        self._limit = limit
        self._bytes = bytearray()

    @property
    def room(self) -> int:
        """The number of bytes that can still be added."""
        return self._limit - len(self._bytes)

    def add(self, block: bytes) -> None:
        if len(block) > self.room:
            raise self.too_large()
        self._bytes += block

    def tail(self, size: int) -> bytes:
        """Return the last `size` bytes, or all if there are fewer."""
        return bytes(self._bytes[-size:])

    def result(self) -> memoryview:
        return memoryview(self._bytes).toreadonly()

    def damaged(self, message: str) -> DamagedBatchError:
        return DamagedBatchError("compression", f"{self._codec}: {message}")

    def too_large(self) -> DamagedBatchError:
        return DamagedBatchError(
            "too-large",
            f"expected a batch of at most max_batch_bytes = {self._limit} bytes, found one that decompresses "
            f"({self._codec}) to more; raise max_batch_bytes",
        )
