"""Choose the bits of a batch's header that tests flip."""

from __future__ import annotations

from tests.effort import EFFORT


def header_bits(header_bytes: int, checked_from: int) -> list[int]:
    """Return bits to flip, counted from the lowest bit of the first byte.

    Args:
        header_bytes: the size of the header.
        checked_from: the first byte that the checksum covers. A CRC finds each flip of a single bit, so that
            one bit of each such byte is enough. More effort takes more of them.
    """
    unchecked = [*range(8 * checked_from)]
    each = min(8, max(1, round(EFFORT)))
    return unchecked + [
        8 * byte + (byte + turn) % 8 for byte in range(checked_from, header_bytes) for turn in range(each)
    ]
