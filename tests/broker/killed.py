"""Processes that are killed while they compact or append, each before a later one of its system calls.

    python -m tests.broker.killed compact LOG_DIR SETTINGS TOPIC...
    python -m tests.broker.killed append LOG_DIR SETTINGS TOPIC...

SETTINGS is JSON. The first topic is compacted to the end, to count the calls. What is appended to a topic is
`row(offset, T0)`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from native_log import LogDir, compact

from .written import row, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

T0 = 1_700_000_000_000
CALLS = ("pwrite", "ftruncate", "fsync", "rename", "replace", "unlink", "rmdir")
"""Those that change files."""


def main() -> None:
    what, log_dir, settings, *topics = sys.argv[1:]
    config = json.loads(settings)
    if what == "compact":
        first, *others = topics
        calls = calls_made(lambda: compact_one(log_dir, first, config))
        for number, topic in enumerate(others):
            killed(lambda topic=topic: compact_one(log_dir, topic, config), calls * number // len(others))
    else:
        for number, topic in enumerate(topics, 1):
            killed(lambda topic=topic: append(log_dir, topic, config), number * 20)


def compact_one(log_dir: str, topic: str, config: dict[str, Any]) -> None:
    assert compact(log_dir, [topic], config)["status"].to_pylist() == ["cleaned"]


def append(log_dir: str, topic: str, config: dict[str, Any]) -> None:
    with LogDir(log_dir).partition(topic, 0, config=config) as log:
        for first in range(log.log_end_offset, log.log_end_offset + 5000, 100):
            rows = [row(offset, T0) for offset in range(first, first + 100)]
            log.append(to_arrow(rows), batch_size=2000)


def killed(work: Callable[[], None], at: int) -> None:
    """Have a child process do it, that is killed before call number `at`."""
    child = os.fork()
    if not child:
        count_calls(at)
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == signal.SIGKILL, f"to be killed at call {at}, it ended with {status}"


def calls_made(work: Callable[[], None]) -> int:
    """How many such calls it takes, in a child process."""
    reader, writer = os.pipe()
    if not os.fork():
        calls = count_calls(None)
        work()
        os.write(writer, str(len(calls)).encode())
        os._exit(0)
    _, status = os.wait()
    assert status == 0
    return int(os.read(reader, 20))


def count_calls(killed_at: int | None) -> list[str]:
    """The names of the calls, as they are made from here on."""
    made: list[str] = []

    def counted(name: str, call: Any) -> Any:
        def changing(*args: Any, **kwargs: Any) -> Any:
            if len(made) == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
            made.append(name)
            return call(*args, **kwargs)

        return changing

    for name in CALLS:
        setattr(os, name, counted(name, getattr(os, name)))
    return made


if __name__ == "__main__":
    main()
