"""gzip (RFC 1952): one or more members. Only zeros may follow, which gzip tools ignore as padding."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from native_log.records.reference.codec.output import Output

GZIP_WINDOW = 31
"""The wbits argument of zlib for gzip headers and trailers."""


def decompress(payload: memoryview, output: Output) -> None:
    rest = bytes(payload)
    while True:
        member = zlib.decompressobj(GZIP_WINDOW)
        try:
            # One byte more than the limit, to detect a larger stream. (0 would mean no limit.)
            output.add(member.decompress(rest, output.room + 1))
        except zlib.error as error:
            raise output.damaged(str(error)) from None
        if not member.eof:
            raise output.damaged(f"expected the rest of a member, found the end after {len(payload)} bytes")
        rest = member.unused_data
        if not rest.strip(b"\0"):
            return
