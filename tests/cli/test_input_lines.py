"""Lines of files and pipes, and signals that end them."""

from __future__ import annotations

import io
import signal
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.cli.input_lines import Line, LineTooLongError, read_lines
from native_log.cli.stop_signals import StopSignals

_LIMIT = 5


def lines_of(data: bytes, chunk_sizes: list[int]) -> tuple[list[Line], int]:
    """Return the lines of a pipe that returns its data in these portions, and the number of bytes read."""
    sizes = iter(chunk_sizes)
    portions = list(read_lines(io.BytesIO(data), _LIMIT, lambda file, _: file.read(next(sizes, 3))))
    return [line for lines, _ in portions for line in lines], sum(size for _, size in portions)


@given(
    st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"bcd", b"\xff", b"123456"]), max_size=20),
    st.lists(st.integers(1, 9)),
)
def test_lines_do_not_depend_on_how_a_pipe_returns_them(parts: list[bytes], chunk_sizes: list[int]) -> None:
    data = b"".join(parts)
    *expected, last = (line.removesuffix(b"\r") for line in data.split(b"\n"))
    if data and not data.endswith(b"\n"):
        expected.append(last)
    lines, size_bytes = lines_of(data, chunk_sizes)
    assert [None if isinstance(line, LineTooLongError) else line for line in lines] == [
        line if len(line) <= _LIMIT else None for line in expected
    ]
    assert size_bytes == len(data)


def test_a_line_that_is_too_long_takes_no_memory() -> None:
    read: list[int] = []

    def endless(_: io.BytesIO, max_bytes: int) -> bytes:
        read.append(max_bytes)
        return b"x" * max_bytes if len(read) < 100 else b""

    tracemalloc.start()
    try:
        portions = read_lines(io.BytesIO(), 1000, endless)  # type: ignore[arg-type]
        lines = [str(line) for some, _ in portions for line in some]
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    message = "expected a line of at most 1000 bytes, found a longer one; for larger records, set"
    assert [line.startswith(message) for line in lines] == [True]
    assert peak_bytes < 10 * read[0] < sum(read)


def test_a_signal_ends_a_wait_and_nothing_else() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopSignals() as signals:
        with pytest.raises(KeyboardInterrupt), signals.interruptible():
            signal.raise_signal(signal.SIGTERM)
        assert signals.received == [signal.SIGTERM]
    with StopSignals() as signals:
        signal.raise_signal(signal.SIGINT)
        assert signals.received == [signal.SIGINT]
        with pytest.raises(KeyboardInterrupt), signals.interruptible():
            pytest.fail("a wait after a signal must not begin")
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
