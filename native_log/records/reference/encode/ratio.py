"""The estimated compression ratio of the next batch."""

from __future__ import annotations

import struct


class Ratio:
    """The producer's estimate of the compression ratio, in 32-bit floating point like there (Kafka:
    CompressionRatioEstimator, MemoryRecordsBuilder.estimatedBytesWritten)."""

    def __init__(self, value: float, *, compressed: bool) -> None:
        self.value = _float32(value)
        self._compressed = compressed

    def estimate(self, plain_bytes: int) -> int:
        if not self._compressed:
            return plain_bytes
        return int(_float32(_float32(_float32(plain_bytes) * self.value) * _float32(1.05)))

    def observe(self, plain_bytes: int, compressed_bytes: int) -> None:
        if not self._compressed:
            return
        observed = _float32(_float32(compressed_bytes) / _float32(plain_bytes))
        step = _float32(0.05) if observed > self.value else -_float32(0.005)
        self.value = max(_float32(self.value + step), observed)


def _float32(value: float) -> float:
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    return float(rounded)
