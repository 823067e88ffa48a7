"""Recover several log directories in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import native_log
from native_log import RECOVERY_SCHEMA, LogDir, UnknownTopicOrPartitionError
from native_log.logdir import recovery

if TYPE_CHECKING:
    from pathlib import Path

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


@pytest.fixture
def torn(tmp_path: Path) -> list[Path]:
    """Write two log directories with a topic each, whose only batch is incomplete; no clean shutdown."""
    directories = []
    for topic in ("b", "a"):
        log_dir = tmp_path / f"disk-{topic}"
        with LogDir.create(log_dir) as logs:
            logs.create_topic(topic)
            logs.partition(topic, 0).append(pa.table({"value": [b"v"] * 3}))
        log = log_dir / f"{topic}-0" / f"{0:020d}.log"
        log.write_bytes(log.read_bytes()[:-1])
        (log_dir / CLEAN_SHUTDOWN).unlink()
        directories.append(log_dir)
    return directories


def test_rows_are_sorted_over_all_directories(torn: list[Path]) -> None:
    table = native_log.recover(torn, from_start=True)
    assert table.schema == RECOVERY_SCHEMA
    assert table.select(["topic", "status", "logEndOffset"]).to_pylist() == [
        {"topic": "a", "status": "cut", "logEndOffset": 0},
        {"topic": "b", "status": "cut", "logEndOffset": 0},
    ]
    assert table["cut"].to_pylist()[0][0]["position"] == 0
    assert all((log_dir / CLEAN_SHUTDOWN).exists() for log_dir in torn)


def test_a_dry_run_changes_nothing(torn: list[Path]) -> None:
    assert (
        native_log.recover(torn, from_start=True, dry_run=True)["status"].to_pylist() == ["would be cut"] * 2
    )
    assert not any((log_dir / CLEAN_SHUTDOWN).exists() for log_dir in torn)


@pytest.mark.parametrize(("pid", "text"), [(7, "in use by process 7"), (0, "in use")])
def test_a_dry_run_warns_of_a_writer(
    pid: int, text: str, torn: list[Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The pid is 0 if the process runs in another container."""
    monkeypatch.setattr(recovery, "lock_holder", lambda path: pid if path == torn[0] else None)
    native_log.recover(torn, dry_run=True)
    assert caplog.messages == [f"{torn[0]} is {text}: batches that are being written may look damaged"]


def test_a_topic_is_found_in_either_directory(torn: list[Path]) -> None:
    assert native_log.recover(torn, "a")["topic"].to_pylist() == ["a"]
    with pytest.raises(UnknownTopicOrPartitionError, match="there is no topic c"):
        native_log.recover(torn, "c")
