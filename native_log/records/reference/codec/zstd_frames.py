"""zstd (RFC 8878, KIP-110): one or more frames. No memory is allocated for the content size that a frame
claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zstandard

if TYPE_CHECKING:
    from native_log.records.reference.codec.output import Output

MAX_WINDOW_BYTES = 1 << 27
"""The default limit of zstd and zstd-jni: frames that need a larger window are rejected."""
MAX_BLOCK_BYTES = 1 << 17
MIN_BLOCK_BYTES = 4
"""The least size of a block that expands to 128 KiB: a header of 3 bytes and the byte to repeat."""


def decompress(payload: memoryview, output: Output) -> None:
    at = 0
    while at < len(payload):
        frame = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()
        while not frame.eof:
            if at == len(payload):
                raise output.damaged(f"expected the rest of a frame, found the end after {at} bytes")
            # The library returns all content of its input at once. Limit the input to what cannot exceed the
            # limit of the output.
            feed = payload[at : at + max(64, output.room // MAX_BLOCK_BYTES * MIN_BLOCK_BYTES)]
            try:
                output.add(frame.decompress(feed))
            except zstandard.ZstdError as error:
                raise output.damaged(str(error)) from None
            at += len(feed) - len(frame.unused_data)
