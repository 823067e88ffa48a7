"""Wait for changes of directories, with inotify and without."""

from __future__ import annotations

import errno
import os
import struct
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from native_log import watch
from native_log.watch import DirectoryWatch

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is a part of Linux")
NEVER_MS = 3_600_000


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[DirectoryWatch]:
    with DirectoryWatch(NEVER_MS) as watching:
        assert watching.add([str(tmp_path)])
        yield watching


def test_changes_are_reported_by_directory(watched: DirectoryWatch, tmp_path: Path) -> None:
    first, other = tmp_path / "one", tmp_path / "other"
    first.mkdir()
    other.mkdir()
    assert watched.add([str(tmp_path), str(first), str(other)])
    assert not watched.add([str(first)])
    assert watched.wait() == {str(tmp_path)}
    (first / "file").write_bytes(b"1")
    assert watched.wait() == {str(first)}
    with open(first / "file", "ab", buffering=0) as file:
        file.write(b"2")
        assert watched.wait() == {str(first)}
    (first / "file").rename(other / "file")
    assert watched.wait() == {str(first), str(other)}
    os.truncate(other / "file", 0)
    assert watched.wait() == {str(other)}
    (other / "file").unlink()
    assert watched.wait() == {str(other)}
    assert watched.wait(timeout_ms=0) == set()


def test_another_directory_of_the_same_name(watched: DirectoryWatch, tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    for forget in (lambda: path.rename(tmp_path / "old"), path.rmdir):
        path.mkdir()
        watched.wait()
        assert watched.add([str(path)])
        forget()
        watched.wait()
        path.mkdir()
        watched.wait()
        assert watched.add([str(path)])
        (path / "file").touch()
        assert watched.wait() == {str(path)}
        (path / "file").unlink()
        path.rmdir()
        watched.wait()


def test_a_missing_directory_is_not_watched(watched: DirectoryWatch, tmp_path: Path) -> None:
    assert not watched.add([str(tmp_path / "missing")])


def test_after_the_interval_any_directory_may_have_changed(tmp_path: Path) -> None:
    """Even if others change all the time."""
    now = 0.0
    with DirectoryWatch(1000, clock=lambda: now) as watching:
        watching.add([str(tmp_path)])
        for second in (0.3, 0.6, 0.9):
            (tmp_path / "file").write_bytes(b"")
            now = second
            assert watching.wait() == {str(tmp_path)}
        now = 1.0
        assert watching.wait() is None
        (tmp_path / "file").write_bytes(b"")
        assert watching.wait() == {str(tmp_path)}


def test_without_inotify(tmp_path: Path) -> None:
    now = 0.0
    with DirectoryWatch(1000, inotify=False, clock=lambda: now) as watching:
        assert not watching.add([str(tmp_path)])
        assert watching.wait(timeout_ms=0) == set()
        now = 1.0
        assert watching.wait() is None


@pytest.mark.parametrize("inotify", [False, True])
def test_another_thread_wakes_it(inotify: bool) -> None:
    with DirectoryWatch(NEVER_MS, inotify=inotify) as watching:
        threading.Thread(target=watching.wake).start()
        assert watching.wait() == set()
        assert watching.wait() == set(), "it does not wait any more"


def test_too_many_changes(watched: DirectoryWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    overflow = struct.pack("iIII", -1, 0x4000, 0, 0)
    answers = iter([overflow])

    def read(*_: object) -> bytes:
        try:
            return next(answers)
        except StopIteration:
            raise BlockingIOError from None

    watched.wake()
    monkeypatch.setattr(watched, "_sleep", lambda *_: True)
    monkeypatch.setattr(watch.os, "read", read)
    assert watched.wait() is None


def test_too_many_directories(watched: DirectoryWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are watching by polling."""

    class Full:
        def inotify_add_watch(self, *_: object) -> int:
            return -1

    monkeypatch.setattr(watched._inotify, "_libc", Full())
    monkeypatch.setattr(watch.ctypes, "get_errno", lambda: errno.ENOSPC)
    assert not watched.add(["/"])


@pytest.mark.parametrize("broken", ["no function", "no instance"])
def test_a_system_without_inotify(broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        if broken == "no instance":

            def inotify_init1(self, _: int) -> int:
                return -1

    monkeypatch.setattr(watch.ctypes, "CDLL", lambda *_, **__: Library())
    with DirectoryWatch(1) as watching:
        assert not watching.add([str(tmp_path)])
        assert watching.wait() is None


def test_descriptors_are_closed(tmp_path: Path) -> None:
    before = open_descriptors()
    with DirectoryWatch(NEVER_MS) as watching:
        watching.add([str(tmp_path)])
    assert open_descriptors() == before
