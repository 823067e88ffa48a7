"""Checksums of overlapping ranges: right for every range, and the bytes are read once."""

from __future__ import annotations

import random
import zlib

import crc32c
import pytest

from native_log.records.range_checksums import RangeChecksums

DATA = random.Random(5).randbytes(3 << 20)
EDGES = (0, 1, 4095, 4096, 4097, 8191, 8192, 8193, 70_000, 1 << 20, (1 << 20) + 1, 3 << 20)


class Reads:
    """Reads of DATA, counted."""

    def __init__(self) -> None:
        self.bytes = 0

    def __call__(self, position: int, size: int) -> bytes:
        self.bytes += size
        return DATA[position : position + size]


@pytest.mark.parametrize("name", ["crc32c", "crc32"])
@pytest.mark.parametrize("reverse", [False, True])
def test_ranges_have_the_checksums_of_their_bytes(name: str, reverse: bool) -> None:
    expected = crc32c.crc32c if name == "crc32c" else zlib.crc32
    checksums = getattr(RangeChecksums, name)(Reads())
    chance = random.Random(7)
    ranges = [(start, end) for start in EDGES for end in EDGES if start <= end]
    ranges += [tuple(sorted(chance.choices(range(len(DATA)), k=2))) for _ in range(100)]
    for start, end in sorted(ranges, reverse=reverse):
        assert checksums.of(start, end) == expected(DATA[start:end]), (start, end)


def test_bytes_are_read_once() -> None:
    reads = Reads()
    checksums = RangeChecksums.crc32c(reads)
    for start in range(0, 100_000, 100):
        checksums.of(start, len(DATA) - start)
    assert reads.bytes <= len(DATA) + 1000 * 2 * 4096
