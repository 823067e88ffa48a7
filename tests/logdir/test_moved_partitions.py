"""Partitions that a broker moves to another log directory, or deletes, while they are found, opened or read.

A broker that moves a partition gives the new directory its name, and then renames the old one to `-delete`.
It removes that a minute later.
"""

from __future__ import annotations

import json
import os
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_spark.options.read import parse_read_options
from kafkalog_spark.read.plan import plan_splits
from native_log import LogDir
from native_log.checkpoints.names import deleted_name
from native_log.checkpoints.partition_metadata import write_topic_id
from native_log.logdir import directory_state, moved_partitions
from native_log.logdir.followed_logdir import FollowedLogDir
from native_log.logdir.live_directory import LiveDirectory
from native_log.logdir.live_logdir import LiveLogDir
from native_log.logdir.options import LogDirOptions
from native_log.storage.local import LocalStorage
from tests.builders.copies import batches, rows, rows_of, write_copy
from tests.builders.interruptions import before_next_call

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from native_log.log.readable_log import ReadableLog

WHOLE = batches(0, 20)
KEY = ("t", 0)
TOPIC_IDS = ["AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"]
ID = "f" * 32


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """The log directories of one broker. The second one has t-0, both have another partition."""
    paths = [tmp_path / name for name in ("first", "second")]
    for path, topic in zip(paths, "ab", strict=True):
        write_copy(path, WHOLE[:2]).rename(path / f"{topic}-0")
    write_topic_id(write_copy(paths[1], WHOLE[:15], rolls=[15, 30]), TOPIC_IDS[0])
    return paths


def delete(directory: Path, uid: str = ID) -> None:
    directory.rename(directory.with_name(deleted_name(*KEY, uid)))


def move(paths: list[Path], uid: str = ID) -> None:
    """Move t-0 from the second log directory to the first one."""
    old, new = (path / "t-0" for path in reversed(paths))
    shutil.copytree(old, new)
    delete(old, uid)


@pytest.fixture
def after_listing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, Callable[[], object]], list[Any]]:
    """Return a function that has something called after a directory is listed next.

    It returns a list, which is empty once that was called.
    """
    list_directory = LocalStorage.list

    def after_listing(directory: Path, change: Callable[[], object]) -> list[Any]:
        changes = [change]

        def list_and_change(self: LocalStorage, path: str) -> Any:
            entries = list_directory(self, path)
            if path == str(directory) and changes:
                changes.pop()()
            return entries

        monkeypatch.setattr(LocalStorage, "list", list_and_change)
        return changes

    return after_listing


def test_a_partition_is_found_while_it_moves(paths: list[Path], after_listing: Any) -> None:
    changes = after_listing(paths[0], lambda: move(paths))
    log = LogDir(paths).partition(*KEY)
    assert not changes
    assert log.path == paths[0] / "t-0"
    assert rows(log.read(columns=["offset", "value"])) == rows_of(WHOLE[:15])


def test_a_live_partition_is_not_lost_while_it_moves(paths: list[Path], after_listing: Any) -> None:
    log_dir = LiveLogDir(paths)
    log = log_dir.partition(*KEY)
    changes = after_listing(paths[0], lambda: move(paths))
    shutil.copytree(paths[0] / "a-0", paths[0] / "new-0")  # the directory is listed again
    assert log_dir.refresh().removed == ()
    assert not changes
    assert log_dir.partition(*KEY) is log
    assert log.path == paths[0] / "t-0"


def test_a_live_partition_moves_after_it_was_found(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = LiveLogDir(paths)
    log = log_dir.partition(*KEY)
    changes = before_next_call(monkeypatch, LiveDirectory, "refresh", partial(move, paths))
    assert log_dir.refresh().removed == ()
    assert not changes
    assert log_dir.partition(*KEY) is log
    assert log.path == paths[0] / "t-0"


def test_a_live_partition_moves_before_it_is_opened(paths: list[Path]) -> None:
    log_dir = LiveLogDir(paths)
    move(paths)
    shutil.copytree(paths[0] / "a-0", paths[0] / "new-0")
    assert log_dir.partition(*KEY).path == paths[0] / "t-0"
    assert log_dir.refresh().added == (("new", 0),)


def test_a_partition_that_is_deleted_before_it_is_opened_is_not_followed(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = before_next_call(monkeypatch, LiveLogDir, "open_logs", partial(delete, paths[1] / "t-0"))
    with LogDir(paths).follow(timeout_ms=1) as arriving:
        assert list(arriving) == []
    assert not changes


def test_the_new_directory_is_watched(paths: list[Path]) -> None:
    log_dir = LiveLogDir(paths)
    followed = FollowedLogDir(log_dir, lambda topic, _: topic == "t", {KEY: 0}, "read_uncommitted", {})
    assert set(followed.new_directories()) == {*map(str, paths), str(paths[1] / "t-0")}
    assert len(list(followed.read(["offset"]))) == 3
    for number, path in enumerate(list(paths)):
        move(paths, str(number))
        paths.reverse()
        followed.refresh(None)
        assert followed.new_directories() == [str(path / "t-0")]
        assert list(followed.read(["offset"])) == []


def test_a_plan_finds_partitions_that_have_moved(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    changes = before_next_call(monkeypatch, LogDir, "open_logs", partial(move, paths))
    options = {"paths": json.dumps(list(map(str, paths))), "subscribe": "t"}
    ((planned,),) = plan_splits(parse_read_options(options))
    assert not changes
    assert planned.path == str(paths[0] / "t-0")


@pytest.mark.parametrize("is_created_again", [False, True])
def test_a_deleted_partition_is_read_until_its_files_are_gone(
    is_created_again: bool, paths: list[Path]
) -> None:
    directory = paths[1] / "t-0"
    planned = LogDir(paths).partition(*KEY).range()
    reading = planned.read(["offset", "value"], max_rows=4)
    read = rows([next(reading)])
    delete(directory)
    if is_created_again:
        write_topic_id(write_copy(paths[1], batches(0, 20, tag="new")), TOPIC_IDS[1])
    assert read + rows(reading) == rows_of(WHOLE[:15])
    assert rows(planned.read(["offset", "value"])) == rows_of(WHOLE[:15])


def test_another_deleted_partition_is_not_read(paths: list[Path], tmp_path: Path) -> None:
    planned = LogDir(paths).partition(*KEY).range()
    (paths[1] / "t-0").rename(tmp_path / "away")
    other = write_copy(paths[1], batches(0, 15, tag="other"), rolls=[15, 30])
    for path in other.iterdir():
        os.utime(path, (1, 1))
    delete(other)
    with pytest.raises(FileNotFoundError, match="the partition was removed while it was read"):
        list(planned.read())


def save(path: Path, entries: str, node_id: int = 1) -> None:
    """Save high watermarks, as the broker with this id does."""
    properties = f"version=1\ncluster.id=c\nnode.id={node_id}\ndirectory.id={path.name}\n"
    (path / "meta.properties").write_text(properties)
    count = entries.count("\n")
    (path / "replication-offset-checkpoint").write_text(f"0\n{count}\n{entries}")


def open_log(paths: list[Path], how: Any = "auto") -> ReadableLog:
    return LogDir(paths, high_watermark=how).partition(*KEY)


def open_live_log(paths: list[Path], how: Any = "auto") -> ReadableLog:
    return LiveLogDir(paths, LogDirOptions(high_watermark=how)).partition(*KEY).log


opened_by = pytest.mark.parametrize("open_log", [open_log, open_live_log])


@opened_by
@pytest.mark.parametrize(
    ("entries", "node_ids", "seconds_later", "high_watermark"),
    [
        pytest.param("", (1, 1), 0, 30, id="not saved since"),
        pytest.param("t 0 33\n", (1, 1), 5, 33, id="saved since"),
        pytest.param("t 0 0\n", (1, 1), 0, 30, id="saved during the move"),
        pytest.param("t 0 0\n", (1, 1), 5, 30, id="the old directory was left out, or is saved now"),
        pytest.param("t 0 9\n", (1, 1), -60, 30, id="moved back to a directory without partitions"),
        pytest.param("t 0 0\n", (1, 1), 60, 0, id="deleted and created again"),
        pytest.param("", (1, 2), 0, 0, id="another broker"),
    ],
)
def test_the_high_watermark_is_still_where_the_partition_was(
    open_log: Callable[..., ReadableLog],
    entries: str,
    node_ids: tuple[int, int],
    seconds_later: int,
    high_watermark: int,
    paths: list[Path],
) -> None:
    """A broker saves the high watermarks of each log directory every five seconds."""
    move(paths)
    for path, node_id, saved, seconds in zip(
        paths, node_ids, (entries, "t 0 30\n"), (1000 + seconds_later, 1000), strict=True
    ):
        save(path, saved, node_id)
        os.utime(path / "replication-offset-checkpoint", (seconds, seconds))
    log = open_log(paths, "checkpoint")
    assert (log.path, log.high_watermark) == (paths[0] / "t-0", high_watermark)
    assert log.checkpointed_high_watermark == (high_watermark if node_ids == (1, 1) else None)


@opened_by
@pytest.mark.parametrize(("saved_after", "high_watermark"), [(1, 30), (3, 30), (None, 0)])
def test_the_high_watermark_is_nowhere_while_a_broker_saves_it(
    open_log: Callable[..., ReadableLog],
    saved_after: int | None,
    high_watermark: int,
    paths: list[Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It saves one log directory after the other. A new partition has none for some seconds."""
    move(paths)
    save(paths[0], "a 0 6\n")
    save(paths[1], "b 0 6\n")
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == saved_after:
            save(paths[0], "a 0 6\nt 0 30\n")

    monkeypatch.setattr(directory_state, "lock_holder", lambda _: 1)
    monkeypatch.setattr(moved_partitions.time, "sleep", pause)
    log = open_log(paths)
    assert (log.path, log.high_watermark) == (paths[0] / "t-0", high_watermark)
    assert len(pauses) == (saved_after or 4)
    assert sum(pauses) < 0.2
    pauses.clear()
    save(paths[0], "a 0 6\nt 0 30\n")
    assert open_log(paths).high_watermark == 30
    assert pauses == []
