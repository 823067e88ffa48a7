from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.logdir import lock_holder

from .broker import held_lock

if TYPE_CHECKING:
    from pathlib import Path


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
