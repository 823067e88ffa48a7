"""Log directories that share files with another copy, as `cp -al` and `rsync --link-dest` make them."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from markdown_blocks import ROOT

import native_log
from native_log.cli.app import kafkalog
from native_log.logdir import LogDir
from tests.contents import files

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = ROOT / "examples/kafka-logs"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return a log directory, after a crash, whose files are also in `snapshot` next to it."""
    shutil.copytree(SAMPLE, tmp_path / "snapshot")
    with next((tmp_path / "snapshot").glob("orders-0/*.log")).open("ab") as file:
        file.write(b"torn")
    (tmp_path / "snapshot/.kafka_cleanshutdown").unlink(missing_ok=True)
    shutil.copytree(tmp_path / "snapshot", tmp_path / "logs", copy_function=os.link)
    return tmp_path / "logs"


def run(command: str) -> Result:
    return CliRunner().invoke(kafkalog, command.split(), input="a\n")


@pytest.mark.parametrize("command", ["recover --yes", "produce --topic orders --partition 1"])
def test_a_change_in_place_is_refused(command: str, logs: Path) -> None:
    before = files(logs)
    result = run(f"{command} {logs}")
    assert result.exit_code != 0
    assert "expected a file with one hard link, found 2" in result.output
    assert files(logs.parent / "snapshot") == before
    if command.startswith("recover"):
        assert "expected a file with one hard link, found 2" in run(f"recover --dry-run {logs}").output


def test_recovery_of_a_log_that_is_not_truncated(logs: Path) -> None:
    result = run(f"recover --yes --topic payments {logs}")
    assert result.exit_code == 0, result.output
    assert "payments-0: undamaged" in result.output


@pytest.mark.parametrize(
    "command",
    [
        "reindex",
        "compact --yes --topic payments -c segment.ms=1",
        "retain --yes -c retention.ms=1",
        "delete-records --yes --offset payments:0:100",
        "erase --yes --topic payments --key 100119",
        "produce --topic new",
    ],
)
def test_other_changes_leave_the_other_copy_as_it_is(command: str, logs: Path) -> None:
    with next(logs.glob("orders-0/*.log")).open("r+b") as file:
        file.truncate(file.seek(-4, os.SEEK_END))
    next(logs.glob("orders-0/*.timeindex")).write_bytes(b"wrong entry.")
    before = files(logs)
    result = run(f"{command} {logs}")
    assert result.exit_code == 0, result.output
    assert files(logs) != before
    assert files(logs.parent / "snapshot") == before


def test_an_erasure_reports_links_to_what_it_erases(logs: Path) -> None:
    (segment, *_) = sorted(logs.glob("payments-0/*.log"))
    leftover = segment.with_name(f"{segment.name}.deleted")
    leftover.hardlink_to(next(logs.glob("orders-1/*.log")))
    key = LogDir(logs).partition("payments", 0).read(columns=["key"]).read_all()["key"][0].as_py()
    for dry_run in (True, False):
        inodes = [str(file.stat().st_ino) for file in (segment, leftover)]
        report = native_log.erase(logs, "payments", keys=[key], dry_run=dry_run).to_pylist()
        linked = {row["segment"]: row["reason"] for row in report if "hard links" in (row["reason"] or "")}
        assert sorted(linked) == sorted(map(str, (segment, leftover)))
        for reason, inode in zip((linked[str(segment)], linked[str(leftover)]), inodes, strict=True):
            assert f"find -inum {inode} " in reason
