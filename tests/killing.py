"""Run work in a process that is killed at its n-th change of a file."""

from __future__ import annotations

import builtins
import io
import os
import resource
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CALLS = ("rename", "replace", "unlink", "remove", "rmdir", "mkdir", "ftruncate", "utime")
_WRITES = ("write", "pwrite")
_TOO_LONG_SECONDS = 60


def survives(call: Callable[[], object], step: int) -> bool:
    """Run `call` in a child process that is killed right before its `step`-th change of a file.

    A write is killed when half of it is done. Written data outlives the process, so fsync changes nothing.
    Return whether `call` finished before that.
    """
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(_TOO_LONG_SECONDS)
            _count_down(step)
            call()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, f"signal {os.WTERMSIG(status)}"
        return False
    assert os.waitstatus_to_exitcode(status) == 0, "it failed by itself"
    return True


def _count_down(left: int) -> None:
    def is_time() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    def killing(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if is_time():
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **named)

        return call

    def half_writing(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(descriptor: int, data: Any, *more: Any) -> Any:
            if is_time():
                function(
                    descriptor, memoryview(data).cast("B")[: len(memoryview(data).cast("B")) // 2], *more
                )
                os.kill(os.getpid(), signal.SIGKILL)
            return function(descriptor, data, *more)

        return call

    class File(io.FileIO):
        def write(self, data: Any) -> int:
            if is_time():
                super().write(memoryview(data).cast("B")[: len(memoryview(data).cast("B")) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return super().write(data)

    def opened(path: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        return File(path, mode) if "w" in mode and "b" in mode else real_open(path, mode, *arguments, **named)

    real_open = builtins.open
    builtins.open = opened
    for name in _CALLS:
        setattr(os, name, killing(getattr(os, name)))
    for name in _WRITES:
        setattr(os, name, half_writing(getattr(os, name)))


@contextmanager
def no_file_grows_beyond(size_bytes: int) -> Iterator[None]:
    """Make writes beyond this size fail, as on a nearly full disk, with an OSError that names no file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
