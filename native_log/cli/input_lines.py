"""Read lines from files and pipes, with bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK_BYTES = 256 * 1024
"""The most bytes that are read at once. A pipe returns what it has, so lines are not held back."""


class LineTooLongError(ValueError):
    """A line is longer than the limit. Its content was skipped."""


Line = bytes | LineTooLongError


def read_lines(
    file: BinaryIO, max_bytes: int, read: Callable[[BinaryIO, int], bytes]
) -> Iterator[tuple[list[Line], int]]:
    r"""Yield the lines of a file, several at a time, and the number of bytes that were read for them.

    A line ends with \n or \r\n, which are removed. The last line need not have an end.

    Args:
        file: the file.
        max_bytes: a longer line, without its end, is replaced by a LineTooLongError.
        read: reads at most this number of bytes from the file; b"": the file ends.
    """
    rest = b""
    is_skipping = False
    while chunk := read(file, _CHUNK_BYTES):
        data = rest + chunk
        *whole, rest = data.split(b"\n")
        lines: list[Line] = [*whole]
        if b"\r" in data or len(data) > max_bytes:
            lines = [_without_end(line, max_bytes) for line in whole]
        if is_skipping and lines:
            # The error stands for the whole line, whose beginning was discarded.
            lines[0] = _too_long(max_bytes)
            is_skipping = False
        if len(rest) > max_bytes + 1:  # It may end with the \r of \r\n.
            rest, is_skipping = b"", True
        elif is_skipping:
            rest = b""
        yield lines, len(chunk)
    if is_skipping:
        yield [_too_long(max_bytes)], 0
    elif rest:
        yield [_without_end(rest, max_bytes)], 0


def _without_end(line: bytes, max_bytes: int) -> Line:
    line = line.removesuffix(b"\r")
    return line if len(line) <= max_bytes else _too_long(max_bytes)


def _too_long(max_bytes: int) -> LineTooLongError:
    return LineTooLongError(
        f"expected a line of at most {max_bytes} bytes, found a longer one; for larger records, set "
        "max.request.size with -X"
    )
