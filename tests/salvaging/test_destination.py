"""The new log directory appears whole or not at all."""

from __future__ import annotations

import itertools
import shutil
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import native_log
from native_log import LogDir, LogDirInUseError
from native_log.checkpoints.lock import LogDirLock
from tests.contents import states
from tests.killing import no_file_grows_beyond, survives

from .support import rows

if TYPE_CHECKING:
    from pathlib import Path

UNFINISHED = ".unfinished-salvage"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Write a log directory with two partitions. One is damaged."""
    path = tmp_path / "source"
    with LogDir.create(path, cluster_id="c" * 22, node_id=3) as logs:
        logs.create_topic("t", 2)
        for partition in (0, 1):
            with logs.partition("t", partition, config={"segment.bytes": 400}) as log:
                for first in range(0, 12, 3):
                    log.append(pa.table({"value": [b"%03d" % (first + n) * 30 for n in range(3)]}))
    (damaged, *_) = sorted((path / "t-1").glob("*.log"))
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    return path


def test_a_kill_at_any_change_leaves_the_source_and_the_next_run_finishes(
    source: Path, tmp_path: Path
) -> None:
    before, expected = states(source), rows(source)
    copy = tmp_path / "copy"
    run = partial(native_log.salvage, source, copy, threads=1)
    for step in itertools.count():
        completed = survives(run, step)
        assert states(source) == before
        if copy.exists():  # it has its name only when it is complete
            assert rows(copy) == expected
            assert native_log.verify(copy).num_rows == 0
        else:
            assert {path.name for path in tmp_path.iterdir()} <= {"source", copy.name + UNFINISHED}
            run()
            assert rows(copy) == expected
        assert not (tmp_path / f"copy{UNFINISHED}").exists()
        shutil.rmtree(copy)
        if completed:
            break
    assert step > 30


def test_a_failed_write_leaves_nothing(source: Path, tmp_path: Path) -> None:
    with no_file_grows_beyond(300), pytest.raises(OSError, match=r"File too large") as raised:
        native_log.salvage(source, tmp_path / "copy")
    assert "copy" in str(raised.value.filename)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_an_interrupt_leaves_nothing(source: Path, tmp_path: Path) -> None:
    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        native_log.salvage(source, tmp_path / "copy", on_progress=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_destination_with_files_is_rejected(source: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy/file").touch()
    with pytest.raises(FileExistsError, match="expected a path that does not exist"):
        native_log.salvage(source, tmp_path / "copy", dry_run=True)
    (tmp_path / "copy/file").unlink()
    native_log.salvage(source, tmp_path / "copy")
    assert rows(tmp_path / "copy") == rows(source)


@pytest.mark.parametrize("dest", ["source", "source/copy", "source/t-0/copy", "."])
def test_a_destination_in_the_source_is_rejected(dest: str, source: Path, tmp_path: Path) -> None:
    before = states(source)
    with pytest.raises((ValueError, FileExistsError)):
        native_log.salvage(source / "t-0", tmp_path / dest)
    assert states(source) == before


def test_too_little_space_is_noticed_before(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage: Any = lambda _: SimpleNamespace(free=1000)  # noqa: E731
    monkeypatch.setattr(shutil, "disk_usage", usage)
    with pytest.raises(OSError, match="of free space") as raised:
        native_log.salvage(source, tmp_path / "new/copy", dry_run=True)
    assert raised.value.filename == str(tmp_path)


def test_two_runs_with_one_destination(source: Path, tmp_path: Path) -> None:
    staging = tmp_path / f"copy{UNFINISHED}"
    staging.mkdir()

    def salvage_while_locked() -> None:
        with pytest.raises(LogDirInUseError):
            native_log.salvage(source, tmp_path / "copy")

    with LogDirLock(staging):
        assert survives(salvage_while_locked, 10_000)
    assert staging.exists()
    native_log.salvage(source, tmp_path / "copy")
    assert not staging.exists()


def test_the_identity_of_the_source_is_kept(source: Path, tmp_path: Path) -> None:
    native_log.salvage(source, tmp_path / "copy")
    ours, theirs = LogDir(tmp_path / "copy").meta_properties, LogDir(source).meta_properties
    assert (ours.cluster_id, ours.node_id) == (theirs.cluster_id, theirs.node_id)
    assert ours.directory_id != theirs.directory_id
    (source / "meta.properties").write_text("version=0\nbroker.id=5\ncluster.id=old\n")
    native_log.salvage(source, tmp_path / "zookeeper")
    text = (tmp_path / "zookeeper/meta.properties").read_text()
    assert "broker.id=5" in text
    assert "version=0" in text
