"""Where decompressed bytes are put together, under a ceiling."""

from __future__ import annotations

from native_log.records.reference.damage import DamagedBatchError


class Output:
    def __init__(self, codec: str, ceiling: int) -> None:
        self._codec = codec
        self._ceiling = ceiling
        self._bytes = bytearray()

    @property
    def room(self) -> int:
        """How many bytes may still be added."""
        return self._ceiling - len(self._bytes)

    def add(self, block: bytes) -> None:
        if len(block) > self.room:
            raise self.too_large()
        self._bytes += block

    def tail(self, size: int) -> bytes:
        """The last `size` bytes, or all there are."""
        return bytes(self._bytes[-size:])

    def result(self) -> memoryview:
        return memoryview(self._bytes).toreadonly()

    def damaged(self, message: str) -> DamagedBatchError:
        return DamagedBatchError("compression", f"{self._codec}: {message}")

    def too_large(self) -> DamagedBatchError:
        return DamagedBatchError(
            "too-large",
            f"{self._codec}: decompressed, the batch is larger than max_batch_bytes = {self._ceiling}",
        )
