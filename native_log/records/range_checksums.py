"""Checksums of many overlapping ranges of the same bytes, which are read once."""

from __future__ import annotations

import zlib
from array import array
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

_STEP = 4 << 10
"""The distance of the checksums that are kept: one MiB of them for each GiB of a file."""
_READ_BYTES = 1 << 20
_CRC32C, _CRC32 = 0x82F63B78, 0xEDB88320
"""Polynomials. The lowest bit is the coefficient of x^31."""


class RangeChecksums:
    """Compute the checksums of ranges of a file.

    Of ranges that begin in ascending order, each byte is read once, and those between ranges at most once. Of
    each range, only a few KiB around its ends are read again, however long it is.

    A CRC is the remainder of a polynomial division. The CRC of a range is therefore the CRC of all bytes
    before its end, plus the CRC of all bytes before its start times x^8 for each byte of the range.
    """

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        crc: Callable[[Buffer, int], int],
        polynomial: int,
    ) -> None:
        """See `crc32c` and `crc32`.

        Args:
            read: takes a position and a number of bytes, and returns these bytes of the file.
            crc: takes bytes and the CRC of the bytes before them, and returns the CRC of all.
            polynomial: the polynomial of the CRC.
        """
        self._read = read
        self._crc = crc
        self._polynomial = polynomial
        self._from = 0
        self._prefixes: array[int] = array("I")
        """The CRCs of the first 0, _STEP, 2 * _STEP ... bytes after `_from`."""

    @classmethod
    def crc32c(cls, read: Callable[[int, int], bytes]) -> RangeChecksums:
        """Compute CRC-32C (Castagnoli), the checksum of batches of magic 2."""
        from crc32c import crc32c  # slow to import, and needed for damaged logs only

        return cls(read, crc32c, _CRC32C)

    @classmethod
    def crc32(cls, read: Callable[[int, int], bytes]) -> RangeChecksums:
        """Compute CRC-32 (IEEE 802.3), the checksum of messages of magic 0 and 1."""
        return cls(read, zlib.crc32, _CRC32)

    def of(self, start: int, end: int) -> int:
        """Return the checksum of the bytes from position `start` to before `end`."""
        if end - start <= 2 * _STEP:
            return self._crc(self._read(start, end - start), 0)
        # The bytes between ranges are read, too, unless they are many: a lookup checks batches far apart.
        known_end = self._from + (len(self._prefixes) - 1) * _STEP
        if not self._prefixes or not self._from <= start <= known_end + _READ_BYTES:
            self._from, self._prefixes = start, array("I", [0])
        self._extend(end)
        return self._before(end) ^ self._shifted(self._before(start), end - start)

    def _extend(self, end: int) -> None:
        """Compute the CRCs of all prefixes that end at or before `end`."""
        position = self._from + (len(self._prefixes) - 1) * _STEP
        crc = self._prefixes[-1]
        while end - position >= _STEP:
            size = min(_READ_BYTES, (end - position) // _STEP * _STEP)
            data = memoryview(self._read(position, size))
            for at in range(0, size, _STEP):
                crc = self._crc(data[at : at + _STEP], crc)
                self._prefixes.append(crc)
            position += size

    def _before(self, end: int) -> int:
        """Return the CRC of the bytes from `_from` to before `end`."""
        steps, rest = divmod(end - self._from, _STEP)
        prefix = self._prefixes[steps]
        return self._crc(self._read(end - rest, rest), prefix) if rest else prefix

    def _shifted(self, crc: int, count: int) -> int:
        """Return the CRC times x^8 for each of `count` bytes."""
        for bit in range(count.bit_length()):
            if count >> bit & 1:
                first, second, third, fourth = _tables(self._polynomial, bit)
                crc = (
                    first[crc & 0xFF] ^ second[crc >> 8 & 0xFF] ^ third[crc >> 16 & 0xFF] ^ fourth[crc >> 24]
                )
        return crc


@cache
def _tables(polynomial: int, bit: int) -> tuple[tuple[int, ...], ...]:
    """Return the products of x^8 for each of 2^bit bytes and each value of the four bytes of a CRC."""
    power = 1 << (31 - 8)
    for _ in range(bit):
        power = _product(power, power, polynomial)
    columns = [_product(1 << place, power, polynomial) for place in range(32)]
    return tuple(_sums(columns[first : first + 8]) for first in range(0, 32, 8))


def _sums(columns: list[int]) -> tuple[int, ...]:
    """Return the sum of each subset of eight columns."""
    sums = [0]
    for column in columns:
        sums += [column ^ sum for sum in sums]
    return tuple(sums)


def _product(a: int, b: int, polynomial: int) -> int:
    """Return the product of two polynomials modulo a third one."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (polynomial if b & 1 else 0)
    return product
