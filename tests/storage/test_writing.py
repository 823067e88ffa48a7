"""Writes that either succeed or leave the old content."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from native_log.storage import writing
from native_log.storage.writing import AppendFile, copy_range, fsync_directory, replace_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def full_disk(*_: Any) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_append_file_appends(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"kept and truncated")
    file = AppendFile(str(path), 5, allocated_bytes=20)
    file.append(b"more")
    assert path.read_bytes() == b"kept more".ljust(20, b"\0")
    file.trim()
    file.append(b"!")
    file.close()
    assert path.read_bytes() == b"kept more!"


@pytest.mark.parametrize("allocated", [0, 30])
def test_a_write_that_fails_half_way_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allocated: int
) -> None:
    file = AppendFile(str(tmp_path / "f"), allocated_bytes=allocated)
    file.append(b"before")
    before = (tmp_path / "f").read_bytes()
    pwrite = os.pwrite

    def short(descriptor: int, data: Any, position: int) -> int:
        monkeypatch.setattr(os, "pwrite", full_disk)
        return pwrite(descriptor, data[:3], position)

    monkeypatch.setattr(os, "pwrite", short)
    with pytest.raises(OSError, match="No space"):
        file.append(b"lost bytes")
    assert (tmp_path / "f").read_bytes() == before
    monkeypatch.undo()
    file.append(b" after")
    file.close()
    assert (tmp_path / "f").read_bytes().rstrip(b"\0") == b"before after"


@pytest.mark.parametrize("copied_by_system", [True, False])
def test_copy_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied_by_system: bool) -> None:
    if not copied_by_system:

        def unsupported(*_: Any) -> int:
            raise OSError(errno.EXDEV, "Invalid cross-device link")

        monkeypatch.setattr(os, "copy_file_range", unsupported)
    (tmp_path / "a").write_bytes(b"0123456789" * 1000)
    file = AppendFile(str(tmp_path / "b"))
    file.append(b"x")
    file.append_from(str(tmp_path / "a"), 5, 9990)
    assert (tmp_path / "b").read_bytes() == b"x" + (b"0123456789" * 1000)[5:9995]
    with pytest.raises(OSError, match="ends before"):
        file.append_from(str(tmp_path / "a"), 5, 10000)
    file.close()
    assert (tmp_path / "b").stat().st_size == 9991
    assert copy_range(str(tmp_path / "a"), 0, 0, -1, 0) == 0


@pytest.mark.parametrize("step", ["pwrite", "fsync", "replace"])
def test_replace_file_leaves_the_old_file_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "checkpoint"
    replace_file(path, b"old")
    monkeypatch.setattr(os, step, full_disk)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new and longer")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    monkeypatch.undo()
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"


def test_writeback_starts_while_a_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = []
    monkeypatch.setattr(writing, "start_writeback", lambda _, position, size: ranges.append((position, size)))
    mib = 1 << 20
    file = AppendFile(str(tmp_path / "f"), writeback_from=4 * mib)
    for size in (3 * mib, mib // 2, mib // 2, mib // 2, mib):
        file.append(bytes(size))
    assert ranges == [(0, 4 * mib), (4 * mib, mib * 3 // 2)]
    file.truncate(4 * mib)
    file.append_from(str(tmp_path / "f"), 0, 2 * mib)
    assert ranges[2:] == [(4 * mib, 2 * mib)]
    file.close()


@pytest.mark.parametrize(
    ("function", "change"),
    [
        ("pwrite", lambda file: file.append(b"x")),
        ("copy_file_range", lambda file: file.append_from(f"{file.path}-source", 0, 3)),
        ("fsync", lambda file: file.flush()),
        ("ftruncate", lambda file: file.truncate(1)),
        ("fsync", lambda file: fsync_directory(file.path)),
    ],
)
def test_errors_of_a_full_disk_have_the_path(
    function: str, change: Callable[[AppendFile], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f-source").write_bytes(b"abc")
    file = AppendFile(str(tmp_path / "f"))
    file.append(b"before")
    monkeypatch.setattr(os, "O_DIRECTORY", 0)  # lets fsync_directory take the file
    monkeypatch.setattr(os, function, full_disk)
    with pytest.raises(OSError, match="No space left on device") as raised:
        change(file)
    assert raised.value.filename == str(tmp_path / "f")
    monkeypatch.undo()
    file.close()
