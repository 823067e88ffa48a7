"""Create log directories and topics; the lock; sessions of several writers."""

from __future__ import annotations

import errno
import gc
import itertools
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import native_log
from native_log.checkpoints import lock, write_session
from native_log.checkpoints.lock import LogDirLock
from native_log.checkpoints.offset_checkpoints import update_offset_checkpoints
from native_log.errors import (
    EmptyLogDirError,
    InvalidTopicError,
    LogDirInUseError,
    TopicExistsError,
)
from native_log.log.writing.appender import LogAppender
from native_log.logdir import LogDir, lock_holder
from native_log.logdir.create import assign_log_dirs, random_uuid

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORD = pa.record_batch({"value": [b"x"]})


def test_a_new_log_directory(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "logs"
    log_dir = LogDir.create(path, cluster_id="5L6g3nShT-eMCtK--X86sw", node_id=3)
    properties = log_dir.meta_properties
    assert properties is not None
    assert (properties.version, properties.cluster_id, properties.node_id) == (1, "5L6g3nShT-eMCtK--X86sw", 3)
    assert len(properties.directory_id or "") == 22
    assert log_dir.directories[0].clean_shutdown
    assert log_dir.topics() == {}
    with pytest.raises(EmptyLogDirError):
        LogDir(path)
    with pytest.raises(FileExistsError):
        LogDir.create(path)


@pytest.mark.parametrize(
    "ids", [{"cluster_id": ""}, {"cluster_id": "a b"}, {"cluster_id": "a\nversion=0"}, {"node_id": -1}]
)
def test_invalid_ids_are_rejected(tmp_path: Path, ids: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected a cluster id"):
        LogDir.create(tmp_path / "logs", **ids)
    assert not (tmp_path / "logs").exists()


def test_directories_of_one_broker_share_cluster_and_node_but_not_their_own_id(tmp_path: Path) -> None:
    first, second = (d.meta_properties for d in LogDir.create([tmp_path / "a", tmp_path / "b"]).directories)
    assert first is not None and second is not None
    assert (first.cluster_id, first.node_id) == (second.cluster_id, second.node_id)
    assert first.directory_id != second.directory_id


def test_a_directory_with_other_files_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    with pytest.raises(FileExistsError, match="empty"):
        LogDir.create(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lost+found"]


def test_a_new_topic_can_be_read_and_written(tmp_path: Path) -> None:
    log_dir = LogDir.create(tmp_path / "logs")
    made = log_dir.create_topic("orders", 3, topic_id="P5bDlQCIQHmAQMJz6LqCtA")
    assert log_dir.topics() == LogDir(tmp_path / "logs").topics() == {"orders": [0, 1, 2]}
    for partition in made:
        log = log_dir.partition("orders", partition.partition)
        assert log.topic_id == "P5bDlQCIQHmAQMJz6LqCtA"
        assert (log.log_start_offset, log.log_end_offset, list(log.read())) == (0, 0, [])
        sizes = {file.name: file.stat().st_size for file in partition.path.iterdir()}
        assert sizes == {
            **{f"{0:020d}.{kind}": 0 for kind in ("log", "index", "timeindex")},
            "leader-epoch-checkpoint": 4,
            "partition.metadata": 43,
        }
    assert log_dir.partition("orders", 2).append(RECORD) == 0
    log_dir.close()
    assert LogDir(tmp_path / "logs").partition("orders", 2).log_end_offset == 1
    assert (tmp_path / "logs" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(
    ("topic", "partitions", "error"),
    [("a/b", 1, InvalidTopicError), ("", 1, InvalidTopicError), ("..", 1, InvalidTopicError),
     ("x" * 250, 1, InvalidTopicError), ("__cluster_metadata", 1, InvalidTopicError), ("t", 0, ValueError),
     ("there", 1, TopicExistsError)],
)  # fmt: skip
def test_invalid_topics_are_rejected(
    tmp_path: Path, topic: str, partitions: int, error: type[Exception]
) -> None:
    log_dir = LogDir.create(tmp_path / "logs")
    log_dir.create_topic("there")
    with pytest.raises(error):
        log_dir.create_topic(topic, partitions)
    with pytest.raises(ValueError, match="22 characters"):
        log_dir.create_topic("t", topic_id="A" * 22)
    assert log_dir.topics() == LogDir(tmp_path / "logs").topics() == {"there": [0]}


def test_new_partitions_go_where_the_fewest_are(tmp_path: Path) -> None:
    log_dir = LogDir.create([tmp_path / "a", tmp_path / "b"])
    log_dir.create_topic("t", 3)
    log_dir.create_topic("u", 4)
    placed = {
        (partition.topic, partition.partition): partition.path.parent.name
        for partition in log_dir.partitions()
    }
    assert placed == {
        ("t", 0): "a", ("t", 1): "b", ("t", 2): "a",
        ("u", 0): "b", ("u", 1): "a", ("u", 2): "b", ("u", 3): "a",
    }  # fmt: skip
    assert [path.name for path in assign_log_dirs([tmp_path / "a", tmp_path / "b"], 1)] == ["b"]


def test_all_partitions_of_a_topic_are_created_in_one_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = LogDir.create([tmp_path / "a", tmp_path / "b"])
    written: list[int] = []

    def update(updates: Mapping[Path, Mapping[tuple[str, int], int | None]]) -> None:
        written.append(sum(map(len, updates.values())))
        update_offset_checkpoints(updates)

    monkeypatch.setattr(write_session, "update_offset_checkpoints", update)
    log_dir.create_topic("t", 8)
    assert written == [3 * 4, 3 * 4]  # three checkpoint files of each directory, each written once


@pytest.mark.parametrize("number", [1, 7, 20])
def test_a_topic_that_cannot_be_created_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    log_dir = LogDir.create([tmp_path / "a", tmp_path / "b"])
    before = sorted(tmp_path.rglob("*"))
    failing_fsync(number, monkeypatch)
    with pytest.raises(OSError, match="No space"):
        log_dir.create_topic("t", 4)
    monkeypatch.undo()
    assert {path for path in tmp_path.rglob("*") if path.is_dir()} == {tmp_path / "a", tmp_path / "b"}
    assert [path for path in sorted(tmp_path.rglob("*")) if path.name != ".lock"] == before
    assert log_dir.topics() == {}
    assert len(log_dir.create_topic("t", 4)) == 4


def test_a_topic_that_could_not_be_created_is_not_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another log keeps the session of the directory."""
    with LogDir.create(tmp_path / "logs") as log_dir:
        log_dir.create_topic("other")
        log_dir.partition("other", 0).append(RECORD)
        failing_fsync(1, monkeypatch)
        with pytest.raises(OSError, match="No space"):
            log_dir.create_topic("t")
        monkeypatch.undo()
        log_dir.create_topic("t")
        log_dir.partition("t", 0).append(RECORD)
    assert LogDir(tmp_path / "logs").partition("t", 0).log_end_offset == 1


def failing_fsync(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the `number`th fsync fail."""
    fsync, calls = os.fsync, itertools.count(1)

    def failing(descriptor: int) -> None:
        if next(calls) == number:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)


@pytest.mark.parametrize("number", range(1, 9))
def test_a_partition_that_cannot_be_created_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    log_dir = LogDir.create(tmp_path / "logs")
    failing_fsync(number, monkeypatch)
    with pytest.raises(OSError, match="No space"):
        log_dir.create_topic("t")
    monkeypatch.undo()
    assert not (tmp_path / "logs" / "t-0").exists()
    assert log_dir.topics() == {}
    log_dir.create_topic("t")


def test_ids_never_begin_with_a_dash() -> None:
    ids = {random_uuid() for _ in range(500)}
    assert len(ids) == 500
    assert all(len(id) == 22 and not id.startswith("-") for id in ids)


def in_another_process(code: str) -> str:
    script = (
        f"from pathlib import Path\nfrom native_log.checkpoints.lock import LogDirLock, lock_holder\n{code}"
    )
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_lock_is_held_until_the_last_in_the_process_closes_it(tmp_path: Path) -> None:
    holder = f"print(lock_holder(Path({str(tmp_path)!r})))"
    first, second = LogDirLock(tmp_path), LogDirLock(tmp_path)
    assert lock_holder(tmp_path) is None  # this process holds it; the query does not release it
    assert in_another_process(holder) == str(os.getpid())
    first.close()
    first.close()
    assert in_another_process(holder) == str(os.getpid())
    taken = f"try:\n    LogDirLock(Path({str(tmp_path)!r}))\nexcept Exception as e:\n    print(e)"
    assert f"process {os.getpid()}" in in_another_process(taken)
    second.close()
    assert in_another_process(holder) == "None"


def test_a_directory_locked_by_another_process_is_rejected_and_not_changed(tmp_path: Path) -> None:
    log_dir = LogDir.create(tmp_path / "logs")
    log_dir.create_topic("t")
    code = (
        "import fcntl, sys\n"
        f"file = open({str(tmp_path / 'logs' / '.lock')!r}, 'w')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\nprint('held', flush=True)\nsys.stdin.read()"
    )
    before = {file: file.read_bytes() for file in (tmp_path / "logs").rglob("*") if file.is_file()}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for change in (
            lambda: log_dir.create_topic("u"),
            lambda: log_dir.partition("t", 0).append(RECORD),
            lambda: native_log.recover(tmp_path / "logs"),
            lambda: native_log.reindex(tmp_path / "logs"),
        ):
            with pytest.raises(LogDirInUseError, match=f"process {process.pid}"):
                change()
        process.communicate("")
    assert {file: file.read_bytes() for file in (tmp_path / "logs").rglob("*") if file.is_file()} == before
    log_dir.partition("t", 0).append(RECORD)
    log_dir.close()


def test_several_logs_of_one_directory_share_its_session(tmp_path: Path) -> None:
    mark = tmp_path / "logs" / ".kafka_cleanshutdown"
    log_dir = LogDir.create(tmp_path / "logs")
    log_dir.create_topic("t", 2)
    mark.write_bytes(b'{"version":0,"brokerEpoch":42}')
    logs = [log_dir.partition("t", number) for number in (0, 1)]
    for log in logs:
        log.append(RECORD)
    logs[0].close()
    assert not mark.exists()
    logs[1].close()
    assert mark.read_bytes() == b'{"version":0,"brokerEpoch":42}'
    assert (tmp_path / "logs" / "recovery-point-offset-checkpoint").read_text() == "0\n2\nt 0 1\nt 1 1\n"


def test_a_log_that_was_not_closed_cleanly_leaves_no_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = LogDir.create(tmp_path / "logs")
    log_dir.create_topic("t")
    log = log_dir.partition("t", 0)
    log.append(RECORD)

    def failing(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="Input/output"):
        log.close()
    monkeypatch.undo()
    assert not (tmp_path / "logs" / ".kafka_cleanshutdown").exists()
    assert lock_holder(tmp_path / "logs") is None


PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def appending_code() -> list[str]:
    """Return the code blocks of the page about Python that append to a log."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [block for block in blocks if ".append(" in block]


@pytest.mark.parametrize("code", appending_code())
def test_documented_code_for_appending_leaves_the_directory_closed(code: str, tmp_path: Path) -> None:
    exec(code.replace("data/kafka-logs", str(tmp_path / "logs")), {})
    assert (tmp_path / "logs" / ".kafka_cleanshutdown").exists()
    assert LogDir(tmp_path / "logs").partition("orders", 0).log_end_offset == 2
    assert not lock._held


def test_the_page_about_python_shows_how_to_append() -> None:
    assert appending_code()


def test_a_log_dropped_without_close_warns_and_releases_the_lock(tmp_path: Path) -> None:
    with LogDir.create(tmp_path / "logs") as logs:
        logs.create_topic("t")
    with pytest.warns(ResourceWarning, match=r"t-0: expected close\(\) after the last append"):
        LogDir(tmp_path / "logs").partition("t", 0).append(RECORD)
    assert not (tmp_path / "logs" / ".kafka_cleanshutdown").exists()
    taken = f"LogDirLock(Path({str(tmp_path / 'logs')!r})); print('taken')"
    assert in_another_process(taken) == "taken"
    with LogDir(tmp_path / "logs") as logs:
        assert logs.partition("t", 0).append(RECORD) == 1


def test_a_log_dir_keeps_the_logs_that_it_must_close(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with LogDir.create(tmp_path / "logs") as logs:
            logs.create_topic("t", 2)
            for number in (0, 1):
                logs.partition("t", number).append(RECORD)
            gc.collect()
            assert len(logs._logs._written) == 2
    assert not logs._logs._written
    assert (tmp_path / "logs" / ".kafka_cleanshutdown").exists()


def test_one_log_that_cannot_be_closed_does_not_keep_others_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = LogDir.create(tmp_path / "logs")
    logs.create_topic("t", 3)
    opened = [logs.partition("t", number) for number in range(3)]
    for log in opened:
        log.append(RECORD)
    close = LogAppender.close

    def failing(appender: LogAppender) -> None:
        if appender.active.path.endswith("t-1/00000000000000000000.log"):
            raise OSError(errno.EIO, "Input/output error")
        close(appender)

    monkeypatch.setattr(LogAppender, "close", failing)
    with pytest.raises(OSError, match="Input/output"):
        logs.close()
    assert [log._writing for log in opened] == [None, None, None]
    assert not lock._held
