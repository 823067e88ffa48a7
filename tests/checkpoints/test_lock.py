from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from broker_lock import held_lock

from native_log import LogDir, LogDirInUseError
from native_log.checkpoints import lock
from native_log.checkpoints.lock import LogDirLock, lock_holder
from native_log.log import partition_log

RECORD = pa.record_batch({"value": ["v"]})

BROKER = """
import fcntl, sys
with open(sys.argv[1] + "/.lock", "r+") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("locked")
    except OSError:
        print("rejected")
"""
WRITER = """
import sys, pyarrow as pa
from native_log import LogDir, LogDirInUseError
try:
    with LogDir(sys.argv[1]) as logs:
        print(logs.partition("t", 0).append(pa.record_batch({"value": ["from another process"]})))
except LogDirInUseError as error:
    print(error)
"""


def in_another_process(code: str, log_dir: Path, *arguments: str) -> str:
    command = [sys.executable, "-c", code, str(log_dir), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def open_and_close(log_dir: Path) -> None:
    """Open and close the lock file, as a copy of the directory does."""
    (log_dir / ".lock").read_bytes()


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    with LogDir.create(tmp_path / "logs") as logs:
        logs.create_topic("t")
    return tmp_path / "logs"


def values(log_dir: Path) -> list[bytes]:
    read: list[bytes] = (
        LogDir(log_dir).partition("t", 0).read(columns=["value"]).read_all()["value"].to_pylist()
    )
    return read


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


def test_the_lock_survives_other_descriptors_of_its_process(log_dir: Path) -> None:
    with LogDir(log_dir) as logs:
        log = logs.partition("t", 0)
        log.append(RECORD)
        assert f"process {os.getpid()}" in in_another_process(WRITER, log_dir)
        open_and_close(log_dir)
        assert in_another_process(BROKER, log_dir) == "rejected"
        assert "locked by a process" in in_another_process(WRITER, log_dir)
        log.append(RECORD)
        assert f"process {os.getpid()}" in in_another_process(WRITER, log_dir)
    assert in_another_process(BROKER, log_dir) == "locked"
    assert in_another_process(WRITER, log_dir) == "2"
    assert values(log_dir) == [b"v", b"v", b"from another process"]


def test_another_path_to_the_directory_is_locked_too(log_dir: Path, tmp_path: Path) -> None:
    """A bind mount gives such paths: another path to the same file."""
    (tmp_path / "mounted").mkdir()
    with LogDirLock(log_dir):
        (tmp_path / "mounted/.lock").hardlink_to(log_dir / ".lock")
        with pytest.raises(LogDirInUseError):
            LogDirLock(tmp_path / "mounted")
        assert in_another_process(BROKER, log_dir) == "rejected"


FORK = """
import os, subprocess, sys, pyarrow as pa
from pathlib import Path
from native_log import LogDir, LogDirInUseError
from native_log.checkpoints.lock import lock_holder

path, broker = Path(sys.argv[1]), sys.argv[2]
record = pa.record_batch({"value": ["v"]})
logs = LogDir(path)
log = logs.partition("t", 0)
log.append(record)
to_parent, to_child = os.pipe(), os.pipe()
if (child := os.fork()) == 0:
    assert lock_holder(path) == os.getppid()
    for append in (log.append, LogDir(path).partition("t", 0).append):
        try:
            append(record)
            os._exit(1)
        except LogDirInUseError as error:
            assert f"process {os.getppid()}" in str(error), error
    logs.close()
    os.write(to_parent[1], b"tried")
    os.read(to_child[0], 1)
    os._exit(0)
os.read(to_parent[0], 5)
log.append(record)
subprocess.run([sys.executable, "-c", broker, path])
logs.close()
subprocess.run([sys.executable, "-c", broker, path])
os.write(to_child[1], b".")
print(os.waitpid(child, 0)[1])
"""


def test_a_forked_process_neither_writes_nor_keeps_or_drops_the_lock(log_dir: Path) -> None:
    assert in_another_process(FORK, log_dir, BROKER).split() == ["rejected", "locked", "0"]
    assert values(log_dir) == [b"v", b"v"]


FORK_BESIDE_A_THREAD = """
import os, signal, sys, threading, pyarrow as pa
from native_log import LogDir
from native_log.checkpoints import lock
from native_log.checkpoints import write_session

def hold(guard, held, done):
    with guard:
        held.set()
        done.wait()

done = threading.Event()
threads = []
for guard in (lock._guard, write_session._guard):
    held = threading.Event()
    threads.append(threading.Thread(target=hold, args=(guard, held, done)))
    threads[-1].start()
    held.wait()
if (child := os.fork()) == 0:
    signal.alarm(30)  # without this, a failure would hang
    with LogDir(sys.argv[1]) as logs:
        logs.partition("t", 0).append(pa.record_batch({"value": ["v"]}))
    os._exit(0)
print(os.waitpid(child, 0)[1])
done.set()
"""


def test_a_forked_process_does_not_wait_for_a_thread_of_its_parent(log_dir: Path) -> None:
    assert in_another_process(FORK_BESIDE_A_THREAD, log_dir) == "0"
    assert values(log_dir) == [b"v"]


def test_a_lock_file_that_was_replaced_stops_the_writer(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_log, "_LOCK_CHECK_MS", 0)
    logs = LogDir(log_dir)
    log = logs.partition("t", 0)
    log.append(RECORD)
    (log_dir / ".lock").unlink()
    assert in_another_process(BROKER.replace("r+", "w"), log_dir) == "locked"
    with pytest.raises(LogDirInUseError, match="removed or replaced"):
        log.append(RECORD)
    with pytest.raises(LogDirInUseError, match="removed or replaced"):
        logs.close()
    assert values(log_dir) == [b"v"]
    assert not (log_dir / ".kafka_cleanshutdown").exists()


def test_the_result_of_a_check_may_have_an_age(log_dir: Path) -> None:
    with LogDirLock(log_dir) as held:
        held.check()
        (log_dir / ".lock").unlink()
        held.check(max_age_ms=3_600_000)
        with pytest.raises(LogDirInUseError, match="removed or replaced"):
            held.check()


def test_a_posix_lock_is_always_checked(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_OFD_SETLK", None)
    with LogDirLock(log_dir) as held:
        held.check()
        (log_dir / ".lock").unlink()
        with pytest.raises(LogDirInUseError, match="removed or replaced"):
            held.check(max_age_ms=3_600_000)


def test_a_lock_file_removed_by_a_stopping_broker_is_created_again(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may be removed after it is opened and before it is locked."""
    locking, removed = lock._lock_description, []

    def removing(descriptor: int, path: Path) -> bool:
        if not removed:
            removed.append(path)
            path.unlink()
        return locking(descriptor, path)

    monkeypatch.setattr(lock, "_lock_description", removing)
    with LogDirLock(log_dir):
        assert removed
        assert in_another_process(BROKER, log_dir) == "rejected"


@pytest.fixture
def no_description_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_OFD_SETLK", None)


@pytest.mark.usefixtures("no_description_locks")
def test_without_description_locks_the_lock_is_taken_again(log_dir: Path) -> None:
    with LogDir(log_dir) as logs:
        log = logs.partition("t", 0)
        log.append(RECORD)
        assert in_another_process(BROKER, log_dir) == "rejected"
        open_and_close(log_dir)
        log.append(RECORD)
        assert in_another_process(BROKER, log_dir) == "rejected"
        assert f"process {os.getpid()}" in in_another_process(WRITER, log_dir)
    assert values(log_dir) == [b"v", b"v"]


@pytest.mark.usefixtures("no_description_locks")
def test_without_description_locks_a_second_writer_is_seen(log_dir: Path) -> None:
    logs = LogDir(log_dir)
    log = logs.partition("t", 0)
    log.append(RECORD)
    log.flush()
    open_and_close(log_dir)
    assert in_another_process(WRITER, log_dir) == "1"
    with pytest.raises(LogDirInUseError, match="another process works in the log directory"):
        log.append(RECORD)
    logs.close()
    assert values(log_dir) == [b"v", b"from another process"]


@pytest.mark.usefixtures("no_description_locks")
def test_without_description_locks_a_broker_that_took_the_lock_is_named(log_dir: Path) -> None:
    logs = LogDir(log_dir)
    log = logs.partition("t", 0)
    log.append(RECORD)
    open_and_close(log_dir)
    with held_lock(log_dir) as pid, pytest.raises(LogDirInUseError, match=f"process {pid}"):
        log.append(RECORD)
    logs.close()
    assert values(log_dir) == [b"v"]


def test_a_file_system_without_locks_raises_an_error(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: Any) -> int:
        raise OSError(errno.ENOLCK, "No locks available")

    descriptors = sorted(Path("/dev/fd").iterdir())
    monkeypatch.setattr(fcntl, "fcntl", no_locks)
    with pytest.raises(OSError, match="expected a file system with locks") as failed:
        LogDir(log_dir).partition("t", 0).append(RECORD)
    assert (failed.value.errno, failed.value.filename) == (errno.ENOLCK, str(log_dir))
    assert values(log_dir) == []
    assert sorted(Path("/dev/fd").iterdir()) == descriptors
