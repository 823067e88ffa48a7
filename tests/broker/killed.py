"""python -m tests.broker.killed LOG_DIR SETTINGS TOPIC...: compacts the topics, each killed a little later.

The first is compacted to the end; of the others each process is killed before a later one of its system calls
that change files, from the first to the last. SETTINGS is JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from native_log import compact

CALLS = ("pwrite", "ftruncate", "fsync", "rename", "replace", "unlink", "rmdir")


def main() -> None:
    log_dir, settings, first, *others = sys.argv[1:]
    reader, writer = os.pipe()
    compact_in_child(log_dir, settings, first, None, writer)
    calls = int(os.read(reader, 20))
    for number, topic in enumerate(others):
        compact_in_child(log_dir, settings, topic, calls * number // len(others), writer)


def compact_in_child(log_dir: str, settings: str, topic: str, killed_at: int | None, writer: int) -> None:
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        expected = 0 if killed_at is None else signal.SIGKILL
        assert status == expected, f"{topic} was to be killed at {killed_at}, ended with {status}"
        return
    write, done = os.write, 0

    def counted(call: Any) -> Any:
        def changing(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            if done == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
            done += 1
            return call(*args, **kwargs)

        return changing

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    status = compact(log_dir, [topic], json.loads(settings))["status"].to_pylist()
    write(writer, str(done).encode() if status == ["cleaned"] else str(status).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
