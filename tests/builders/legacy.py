"""Build messages of magic 0 and 1, byte by byte. Every field can be made to lie."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from .batches import T0
from .codecs import CODECS, FLAVOURS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def message(
    magic: int,
    offset: int = 0,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    *,
    timestamp: int = T0,
    attributes: int = 0,
    crc: int | None = None,
    size: int | None = None,
    key_length: int | None = None,
    value_length: int | None = None,
) -> bytes:
    def sized(data: bytes | None, lie: int | None) -> bytes:
        length = -1 if data is None else len(data)
        return struct.pack(">i", length if lie is None else lie) + (data or b"")

    checked = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic == 1 else b"")
    checked += sized(key, key_length) + sized(value, value_length)
    crc = zlib.crc32(checked) if crc is None else crc
    size = 4 + len(checked) if size is None else size
    return struct.pack(">qiI", offset, size, crc) + checked


def wrapper(
    magic: int,
    inner: Sequence[bytes],
    offset: int,
    codec: str | int,
    *,
    compress: Callable[[bytes], bytes] | None = None,
    attributes: int = 0,
    **fields: int | None,
) -> bytes:
    number = CODECS[codec] if isinstance(codec, str) else codec
    compressed = (compress or FLAVOURS[str(codec)]["v0" if magic == 0 and codec == "lz4" else "plain"])(
        b"".join(inner)
    )
    return message(magic, offset, None, compressed, attributes=number | attributes, **fields)  # type: ignore[arg-type]
