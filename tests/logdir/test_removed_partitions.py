"""Partitions that a running broker deletes after the log directory was opened."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import native_log
from native_log.logdir.verification import open_all_copies, verify_partitions
from tests.builders.copies import batches, damage, write_copy

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = batches(0, 4)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two partitions, of which the second one is damaged."""
    write_copy(tmp_path, WHOLE).rename(tmp_path / "a-0")
    damage(write_copy(tmp_path, WHOLE), WHOLE[1])
    native_log.reindex(tmp_path / "a-0")
    return tmp_path


def kinds(log_dir: Path, *removed: str) -> dict[str, list[str]]:
    """Return the kinds of problems by directory, if some directories are removed before they are checked."""
    opened = open_all_copies(log_dir)
    copies = opened.all_copies(opened.partitions())
    for name in removed:
        path = log_dir / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return {
        directory.path.name: [problem.kind for problem in problems]
        for directory, problems in verify_partitions(opened, copies)
    }


def test_a_removed_partition_has_no_problems(log_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert kinds(log_dir) == {"a-0": [], "t-0": ["crc", "time-index"]}
    assert kinds(log_dir, "t-0") == {"a-0": [], "t-0": []}
    assert f"{log_dir}/t-0 was removed before it was checked" in caplog.text


def test_partitions_are_not_removed_if_nothing_is_left_beside_them(log_dir: Path) -> None:
    """A disk may have been unmounted."""
    names = [path.name for path in log_dir.iterdir()]
    assert kinds(log_dir, *names) == {"a-0": ["unreadable"], "t-0": ["unreadable"]}
