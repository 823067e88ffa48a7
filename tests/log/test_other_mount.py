"""Read a plan on another host.

Files have the same contents, sizes and times there, but other inode numbers (FUSE numbers files by mount).
The file system may lack locks and holes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from native_log import LogDir, LogTruncatedError
from native_log.log import PartitionLog
from native_log.log.reading.reader import Reader
from native_log.segment.files import file_name
from tests.builders.batches import batch
from tests.builders.logs import write_log
from tests.contents import offsets

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.log import LogRange


def plan(path: Path) -> list[LogRange]:
    """Write a log of four segments and split it into tasks. The last segment is preallocated."""
    write_log(path, {o: [batch(o), batch(o + 3)] for o in range(0, 24, 6)})
    os.truncate(path / file_name(18, "log"), 100_000)
    for number, base in enumerate(range(0, 24, 6)):
        os.utime(path / file_name(base, "log"), (1_700_000_000 + number,) * 2)
    return pickle.loads(pickle.dumps(PartitionLog.open(path).range().split_at([3, 9, 13, 19])))


def remount(path: Path) -> None:
    """Copy the files, so that they have other inode numbers."""
    before = {file.name: file.stat() for file in path.iterdir()}
    path.rename(path.with_name("mounted elsewhere"))
    shutil.copytree(path.with_name("mounted elsewhere"), path)
    for name, stat in before.items():
        replaced = (path / name).stat()
        assert (replaced.st_ino != stat.st_ino, replaced.st_mtime_ns) == (True, stat.st_mtime_ns)


@pytest.fixture
def relocations(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Collect the errors after which a reader located its range again."""
    seen: list[object] = []
    relocate = Reader._locate_again

    def counted(self: Reader, error: Any) -> Any:
        seen.append(error)
        relocate(self, error)

    monkeypatch.setattr(Reader, "_locate_again", counted)
    return seen


def test_a_plan_is_valid_on_another_mount(tmp_path: Path, relocations: list[object]) -> None:
    tasks = plan(tmp_path / "t-0")
    remount(tmp_path / "t-0")
    assert [offsets(task.read(["offset"])) for task in tasks] == [
        [0, 1, 2],
        [3, 4, 5, 6, 7, 8],
        [9, 10, 11, 12],
        [13, 14, 15, 16, 17, 18],
        [19, 20, 21, 22, 23],
    ]
    assert relocations == []


def test_later_appends_do_no_harm(tmp_path: Path, relocations: list[object]) -> None:
    path = tmp_path / "t-0"
    write_log(path, {0: [batch(0), batch(3)]})
    first, second = PartitionLog.open(path).range().split_at([3])
    write_log(path, {0: [batch(0), batch(3), batch(6)]})
    os.utime(path / file_name(0, "log"), (1_700_000_000,) * 2)
    assert offsets(first.read(["offset"])) == [0, 1, 2]
    assert relocations == []
    remount(path)
    assert offsets(second.read(["offset"])) == [3, 4, 5]


def test_a_lost_segment_is_distinguished_from_a_merged_one(tmp_path: Path) -> None:
    tasks = plan(tmp_path / "t-0")
    remount(tmp_path / "t-0")
    (tmp_path / "t-0" / file_name(12, "log")).unlink()
    with pytest.raises(FileNotFoundError, match="from offset 12 on"):
        list(tasks[2].read(["offset"]))
    with pytest.raises(FileNotFoundError, match="from offset 13 on"):
        list(tasks[3].read(["offset"]))
    # As compaction does when it merges 6 and 12, keeping the modification time of the last one.
    cleaned = tmp_path / "t-0" / file_name(6, "log")
    cleaned.write_bytes(batch(6) + batch(9) + batch(14, 2))
    os.utime(cleaned, (1_700_000_002,) * 2)
    assert offsets(tasks[2].read(["offset"])) == [9, 10, 11]
    assert offsets(tasks[3].read(["offset"])) == [14, 15, 18]


def test_a_segment_merged_before_any_record_was_read(tmp_path: Path) -> None:
    """The first segment stays the same. Only the segment that covers the removed one shows the merge."""
    path = tmp_path / "t-0"
    write_log(path, {0: [], 6: [], 12: [batch(12)], 18: [batch(18)]})
    task = PartitionLog.open(path).range()
    (path / file_name(12, "log")).unlink()
    (path / file_name(6, "log")).write_bytes(batch(13, 2))
    assert offsets(task.read(["offset"])) == [13, 14, 18, 19, 20]


def test_a_compacted_file_is_recognized_as_another_file(tmp_path: Path, relocations: list[object]) -> None:
    tasks = plan(tmp_path / "t-0")
    remount(tmp_path / "t-0")
    file = tmp_path / "t-0" / file_name(6, "log")
    time = file.stat().st_mtime
    file.write_bytes(batch(6) + batch(10, 2))  # one record less, so the file is shorter
    os.utime(file, (time, time))
    assert offsets(tasks[2].read(["offset"])) == [10, 11, 12]
    assert len(relocations) == 1


def test_no_locks_and_no_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan(tmp_path / "t-0")
    (tmp_path / ".lock").touch()
    asked = []

    def no_locks(*arguments: object) -> None:
        asked.append("lock")
        raise OSError(errno.ENOLCK, "No locks available")

    def no_holes(*arguments: object) -> None:
        asked.append("hole")
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(fcntl, "fcntl", no_locks)
    monkeypatch.setattr(os, "lseek", no_holes)
    assert offsets(LogDir(tmp_path).partition("t", 0).read(columns=["offset"])) == list(range(24))
    assert set(asked) == {"lock", "hole"}


def test_a_compaction_planned_on_another_mount(tmp_path: Path) -> None:
    plan(tmp_path / "t-0")
    segment, other = PartitionLog.open(tmp_path / "t-0").segments[:2]
    remount(tmp_path / "t-0")
    segment.open_unchanged().close()
    with (tmp_path / "t-0" / file_name(6, "log")).open("ab") as file:
        file.write(batch(12))
    with pytest.raises(LogTruncatedError, match="something else changes this log"):
        other.open_unchanged()
