"""Kill processes while they compact or append.

    python -m tests.broker.killed_processes compact LOG_DIR SETTINGS TOPIC...
    python -m tests.broker.killed_processes append LOG_DIR SETTINGS TOPIC...

Each topic has a process of its own, which is killed before one of its system calls: the later the topic in
the list, the later the call. SETTINGS is JSON. The first topic is compacted completely, to count the calls.
The records appended are `row(offset, T0)`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from native_log import LogDir, compact

from .written_log import row, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

T0 = 1_700_000_000_000
CALLS = ("pwrite", "ftruncate", "fsync", "rename", "replace", "unlink", "rmdir")
"""System calls that change files."""


def main() -> None:
    command, log_dir, settings, *topics = sys.argv[1:]
    config = json.loads(settings)
    if command == "compact":
        first, *others = topics
        calls = count_calls(lambda: compact_topic(log_dir, first, config))
        for number, topic in enumerate(others):
            work = partial(compact_topic, log_dir, topic, config)
            kill_at_call(work, calls * number // len(others))
    else:
        for number, topic in enumerate(topics, 1):
            kill_at_call(partial(append, log_dir, topic, config), number * 20)


def compact_topic(log_dir: str, topic: str, config: dict[str, Any]) -> None:
    assert compact(log_dir, [topic], config)["status"].to_pylist() == ["cleaned"]


def append(log_dir: str, topic: str, config: dict[str, Any]) -> None:
    with LogDir(log_dir).partition(topic, 0, config=config) as log:
        for first in range(log.log_end_offset, log.log_end_offset + 5000, 100):
            rows = [row(offset, T0) for offset in range(first, first + 100)]
            log.append(to_arrow(rows), batch_size=2000)


def kill_at_call(work: Callable[[], None], at: int) -> None:
    """Run `work` in a child process that is killed before its system call number `at`."""
    child = os.fork()
    if not child:
        record_calls(at)
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == signal.SIGKILL, f"expected to be killed at call {at}, found status {status}"


def count_calls(work: Callable[[], None]) -> int:
    """Run `work` in a child process and return the number of its system calls."""
    reader, writer = os.pipe()
    if not os.fork():
        calls = record_calls(None)
        work()
        os.write(writer, str(len(calls)).encode())
        os._exit(0)
    _, status = os.wait()
    assert status == 0
    return int(os.read(reader, 20))


def record_calls(kill_at: int | None) -> list[str]:
    """Record the system calls of this process from now on, in a list that grows; kill it before `kill_at`."""
    calls: list[str] = []

    def wrap(name: str, call: Any) -> Any:
        def record_call(*args: Any, **kwargs: Any) -> Any:
            if len(calls) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            calls.append(name)
            return call(*args, **kwargs)

        return record_call

    for name in CALLS:
        setattr(os, name, wrap(name, getattr(os, name)))
    return calls


if __name__ == "__main__":
    main()
