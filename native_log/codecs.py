"""Kafka's compression codecs (Kafka: CompressionType, KIP-390).

| id | name | levels | default level | magic |
|---|---|---|---|---|
| 0 | none | | | 0, 1, 2 |
| 1 | gzip | 1 to 9; -1: zlib's default, 6 | -1 | 0, 1, 2 |
| 2 | snappy | | | 0, 1, 2 |
| 3 | lz4 | 1 to 17 | 9 | 0, 1, 2 |
| 4 | zstd | -131072 to 22 | 3 | 2 |

Lz4's level 9 selects its fast compressor; every other level selects its high-compression one.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Codec:
    """A compression codec."""

    id: int
    """Bits 0 to 2 of a batch's attributes."""
    name: str
    """Its name in `compression.type`."""
    min_level: int = 0
    """Inclusive."""
    max_level: int = 0
    """Inclusive."""
    default_level: int | None = None
    """None: the codec has no levels."""
    magics: tuple[int, ...] = (0, 1, 2)
    """The batch formats that allow the codec."""

    def has_level(self, level: int) -> bool:
        """Return whether `level` is one of the codec's levels."""
        if self.default_level is None or (self is GZIP and level == 0):
            return False
        return self.min_level <= level <= self.max_level

    @property
    def levels(self) -> str:
        """The levels in words, for messages."""
        if self is GZIP:
            return "-1 or a number from 1 to 9"
        return f"a number from {self.min_level} to {self.max_level}"


NONE = Codec(0, "none")
GZIP = Codec(1, "gzip", -1, 9, -1)
SNAPPY = Codec(2, "snappy")
LZ4 = Codec(3, "lz4", 1, 17, 9)
ZSTD = Codec(4, "zstd", -131072, 22, 3, magics=(2,))

CODECS = {codec.name: codec for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD)}
"""By name, in the order of their ids."""
CODECS_BY_ID = {codec.id: codec for codec in CODECS.values()}
