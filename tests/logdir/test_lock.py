from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from native_log.logdir import lock_holder

_HOLD = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); input()"


@contextmanager
def held_lock(log_dir: Path) -> Iterator[int]:
    """Another process holds the lock as a broker does; its pid."""
    command = [sys.executable, "-c", _HOLD, str(log_dir / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.communicate("\n")


def test_no_file(tmp_path: Path) -> None:
    assert lock_holder(tmp_path) is None
    assert not (tmp_path / ".lock").exists()


def test_a_file_left_by_a_crash(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    assert lock_holder(tmp_path) is None


def test_a_running_broker_is_named_and_not_disturbed(tmp_path: Path) -> None:
    with held_lock(tmp_path) as pid:
        (tmp_path / ".lock").chmod(0o444)
        assert lock_holder(tmp_path) == pid
        assert lock_holder(tmp_path) == pid
    assert lock_holder(tmp_path) is None
