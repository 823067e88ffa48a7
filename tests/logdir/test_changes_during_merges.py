"""Copies whose files change while one is chosen, or while they are merged, as on running brokers."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

import pytest

from native_log import LogDir
from native_log.log.live import live_merged_log
from native_log.log.replicas import merge as merging
from native_log.logdir import catalog
from native_log.logdir.live_logdir import LiveLogDir
from native_log.logdir.options import LogDirOptions
from native_log.segment.files import file_name
from tests.builders.copies import batches, compact, delete_segment, rows, rows_of, write_copy
from tests.builders.interruptions import before_next_call

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WHOLE = batches(0, 20)
KEY = ("t", 0)
CHANGES = {
    "delete": (partial(delete_segment, base_offset=0), WHOLE),
    "compact": (partial(compact, kept=WHOLE[:10:2], merged=15), [*WHOLE[:10:2], *WHOLE[10:]]),
    "remove": (shutil.rmtree, WHOLE),
}
"""What happens to the leading copy, and the batches that the merged log has then."""


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """The log directories with two copies of three segments. The first copy leads."""
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        write_copy(path, WHOLE, rolls=[15, 30])
    return paths


@pytest.mark.parametrize("name", CHANGES)
def test_copies_are_opened_again(name: str, paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    change, expected = CHANGES[name]
    changes = before_next_call(monkeypatch, merging, "merge", partial(change, paths[0] / "t-0"))
    log = LogDir(paths, replicas="merge").partition(*KEY)
    assert not changes
    assert rows(log.read(columns=["offset", "value"])) == rows_of(expected)


@pytest.mark.parametrize("name", CHANGES)
def test_live_copies_are_opened_again(name: str, paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    change, expected = CHANGES[name]
    changes = before_next_call(monkeypatch, live_merged_log, "merge", partial(change, paths[0] / "t-0"))
    log = LiveLogDir(paths, LogDirOptions(replicas="merge")).partition(*KEY).log
    assert not changes
    assert rows(log.range().read(["offset", "value"])) == rows_of(expected)


@pytest.mark.parametrize("name", CHANGES)
def test_live_copies_are_refreshed_again(
    name: str, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = LiveLogDir(paths, LogDirOptions(replicas="merge"))
    log_dir.partition(*KEY)
    new = batches(20, 22)
    for path in paths:
        with (path / "t-0" / file_name(30, "log")).open("ab") as file:
            file.write(b"".join(batch.data for batch in new))
    change, expected = CHANGES[name]
    changes = before_next_call(monkeypatch, live_merged_log, "merge", partial(change, paths[0] / "t-0"))
    assert log_dir.refresh().logs[KEY].is_changed
    assert not changes
    log = log_dir.partition(*KEY).log
    assert rows(log.range().read(["offset", "value"])) == rows_of([*expected, *new])


def test_a_partition_that_is_removed_during_a_merge_is_gone(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = LiveLogDir(paths, LogDirOptions(replicas="merge"))
    log_dir.partition(*KEY)

    def remove() -> None:
        for path in paths:
            shutil.rmtree(path / "t-0")

    delete_segment(paths[0] / "t-0", 0)
    before_next_call(monkeypatch, live_merged_log, "merge", remove)
    assert log_dir.refresh().logs == {}
    assert log_dir.refresh().removed == (KEY,)


def truncate_last(directory: Path) -> None:
    """Replace the last segment by one with two batches."""
    delete_segment(directory, 30)
    write_copy(directory.parent, batches(10, 12))


@pytest.mark.parametrize("change", [truncate_last, shutil.rmtree])
def test_the_longest_copy_is_chosen(
    change: Callable[[Path], object], paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = before_next_call(monkeypatch, catalog, "believed_end", partial(change, paths[1] / "t-0"))
    log = LogDir(paths).partition(*KEY)
    assert not changes
    assert rows(log.read(columns=["offset", "value"])) == rows_of(WHOLE)


def test_a_copy_that_is_removed_before_the_choice_is_not_chosen(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    remove = partial(shutil.rmtree, paths[0] / "t-0")
    before_next_call(monkeypatch, catalog.PartitionCandidates, "choose", remove)
    log = LogDir(paths).partition(*KEY)
    assert log.path == paths[1] / "t-0"
    assert rows(log.read(columns=["offset", "value"])) == rows_of(WHOLE)
    assert f"{paths[0] / 't-0'}: No such file or directory" in caplog.text
    assert f"(log end offset 60) is read, not {paths[0] / 't-0'} (cannot be opened)" in caplog.text
