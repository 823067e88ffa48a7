"""zstd (RFC 8878, KIP-110): one or several frames. Their content sizes are hints that nothing is allocated
from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zstandard

if TYPE_CHECKING:
    from native_log.records.reference.codec.output import Output

MAX_WINDOW_BYTES = 1 << 27
"""zstd's own default, and zstd-jni's: a frame that asks for more memory is refused."""
MAX_BLOCK_BYTES = 1 << 17
MIN_BLOCK_BYTES = 4
"""A header of three bytes and the byte it repeats: what a block of 128 KiB may come from."""


def decompress(payload: memoryview, output: Output) -> None:
    at = 0
    while at < len(payload):
        frame = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()
        while not frame.eof:
            if at == len(payload):
                raise output.damaged(f"the stream ends within a frame, {at} bytes in all")
            # The library gives all that its input holds at once, so it is fed no more than fits below the
            # ceiling.
            feed = payload[at : at + max(64, output.room // MAX_BLOCK_BYTES * MIN_BLOCK_BYTES)]
            try:
                output.add(frame.decompress(feed))
            except zstandard.ZstdError as error:
                raise output.damaged(str(error)) from None
            at += len(feed) - len(frame.unused_data)
