"""gzip (RFC 1952): one or several members. Zeros may pad the end, as gzip tools let them; nothing else may
follow."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from native_log.records.reference.codec.output import Output

GZIP_WINDOW = 31
"""zlib's word for "gzip header and trailer expected"."""


def decompress(payload: memoryview, output: Output) -> None:
    rest = bytes(payload)
    while True:
        member = zlib.decompressobj(GZIP_WINDOW)
        try:
            # One byte above the ceiling is enough to know. (Never 0, which would mean no bound.)
            output.add(member.decompress(rest, output.room + 1))
        except zlib.error as error:
            raise output.damaged(str(error)) from None
        if not member.eof:
            raise output.damaged(f"the stream ends within a member, {len(payload)} bytes in all")
        rest = member.unused_data
        if not rest.strip(b"\0"):
            return
