"""verify does not report a write that is in progress as a problem."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from native_log import LogDir, verify
from native_log.log.verification import verify_log
from native_log.logdir import directory_state
from native_log.publish import partitions
from native_log.segment.segment import LogSegment
from tests.builders.batches import TRANSACTIONAL, Rec, marker, v2
from tests.builders.commits import write
from tests.builders.interruptions import after_next_call, before_next_call

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with one partition."""
    LogDir.create(tmp_path / "data")
    write(tmp_path / "data", 0, 100, partitions=1)
    return tmp_path / "data"


@pytest.fixture
def during(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory when a commit has appended its records, but not the prefix of the first batch."""
    during, after = tmp_path / "during", tmp_path / "after"
    shutil.copytree(data, after)
    with monkeypatch.context() as patch:
        before_next_call(patch, partitions, "write_first_prefix", lambda: shutil.copytree(after, during))
        write(after, 100, 200, partitions=1)
    return during


@pytest.fixture
def after(during: Path) -> Path:
    """The directory after the commit."""
    return during.with_name("after")


def become(data: Path, state: Path) -> None:
    """Give the log directory `data` the files of another one."""
    for path in data.rglob("*"):
        if path.is_file():
            path.unlink()
    shutil.copytree(state, data, dirs_exist_ok=True)


def append(data: Path, *content: bytes) -> None:
    with (data / "t-0/00000000000000000000.log").open("ab") as file:
        file.write(b"".join(content))


def test_a_commit_begins_after_the_log_was_opened(
    data: Path, during: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = after_next_call(monkeypatch, LogDir, "open_copy", lambda: become(data, during))
    assert verify(data).to_pylist() == []
    assert not changes


def test_a_commit_ends_before_the_log_is_opened_again(
    data: Path, during: Path, after: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    become(data, during)
    changes = before_next_call(monkeypatch, LogDir, "reopen_copy", lambda: become(data, after))
    found = verify(data).to_pylist()
    assert [problem["kind"] for problem in found] == ["unfinished-write"]  # nobody holds the lock
    assert not changes


def test_a_broker_that_has_started_since_writes_a_batch(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start() -> None:
        append(data, v2([Rec()], 100), v2([Rec()], 101)[:20])
        monkeypatch.setattr(directory_state, "lock_holder", lambda _: 1234)

    changes = after_next_call(monkeypatch, LogDir, "open_copy", start)
    assert verify(data).to_pylist() == []
    assert not changes


def test_a_marker_is_appended_between_two_steps(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(data, v2([Rec()], 100, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0))
    log = LogDir(data).partition("t", 0)
    changes = after_next_call(monkeypatch, LogSegment, "open", lambda: append(data, marker(101, 7)))
    assert list(verify_log(log)) == []
    assert not changes
