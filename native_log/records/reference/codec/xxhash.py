"""xxHash32 with seed 0, the checksum of LZ4 frames."""

from __future__ import annotations

import struct

PRIME1, PRIME2, PRIME3, PRIME4, PRIME5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
MASK = 0xFFFFFFFF
LANES = struct.Struct("<4I")
LANE = struct.Struct("<I")


def xxh32(data: memoryview) -> int:
    at = 0
    if len(data) >= LANES.size:
        lanes = [(PRIME1 + PRIME2) & MASK, PRIME2, 0, -PRIME1 & MASK]
        while len(data) - at >= LANES.size:
            words = LANES.unpack_from(data, at)
            lanes = [
                rotate(lane + word * PRIME2, 13) * PRIME1 & MASK
                for lane, word in zip(lanes, words, strict=True)
            ]
            at += LANES.size
        hashed = sum(rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        hashed = PRIME5
    hashed += len(data)
    while len(data) - at >= LANE.size:
        hashed = rotate(hashed + LANE.unpack_from(data, at)[0] * PRIME3, 17) * PRIME4
        at += LANE.size
    for byte in data[at:]:
        hashed = rotate(hashed + byte * PRIME5, 11) * PRIME1
    hashed &= MASK
    hashed = (hashed ^ hashed >> 15) * PRIME2 & MASK
    hashed = (hashed ^ hashed >> 13) * PRIME3 & MASK
    return hashed ^ hashed >> 16


def rotate(value: int, by: int) -> int:
    value &= MASK
    return (value << by | value >> (32 - by)) & MASK
