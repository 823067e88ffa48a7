"""Commands on the directory of a running broker, which changes files while they are read."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import native_log
from native_log.cli.app import kafkalog
from native_log.storage.local import LocalStorage
from tests.builders.copies import batches, compact, delete_segment, write_copy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WHOLE = batches(0, 20)
COMMANDS = {
    "ls": ["ls"],
    "count": ["ls", "--count"],
    "verify": ["verify"],
    "transactions": ["transactions"],
    "report": ["report", "--full"],
    "compact": ["compact", "--dry-run", "--topic", "t", "--conf", "min.cleanable.dirty.ratio=0"],
    "erase": ["erase", "--dry-run", "--key", "k"],
}


CHANGES = {
    "delete": partial(delete_segment, base_offset=0),
    "compact": partial(compact, kept=WHOLE[:10:2], merged=15),
    "remove": shutil.rmtree,
}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """The partitions a-0 and t-0, with three segments each."""
    log_dir = tmp_path / "data"
    write_copy(log_dir, WHOLE, rolls=[15, 30]).rename(log_dir / "a-0")
    write_copy(log_dir, WHOLE, rolls=[15, 30])
    native_log.reindex(log_dir)
    return log_dir


@pytest.fixture
def change_at_open(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, Callable[[Path], object]], list[Any]]:
    """Return a function that has a partition directory changed when the first of its .log files is opened.

    It returns a list, which is empty once the directory was changed.
    """
    open_file = LocalStorage.open

    def change_at_open(directory: Path, change: Callable[[Path], object]) -> list[Any]:
        changes = [change]

        def open_changed(self: LocalStorage, path: str, **options: Any) -> Any:
            if changes and path.startswith(f"{directory}/") and path.endswith(".log"):
                changes.pop()(directory)
            return open_file(self, path, **options)

        monkeypatch.setattr(LocalStorage, "open", open_changed)
        return changes

    return change_at_open


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_fails(
    command: str,
    change: Callable[[Path], object],
    log_dir: Path,
    tmp_path: Path,
    change_at_open: Callable[[Path, Callable[[Path], object]], list[Any]],
) -> None:
    changes = change_at_open(log_dir / "t-0", change)
    name, *options = COMMANDS[command]
    output = ["--output", str(tmp_path / "report.html")] if name == "report" else []
    result = CliRunner().invoke(kafkalog, [name, str(log_dir), *options, *output])
    assert not changes
    assert (result.exit_code, "No such file" in result.output) == (0, False), result.output
    if output:
        assert "cannot be" not in (tmp_path / "report.html").read_text()
