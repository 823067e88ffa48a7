"""What root creates in a log directory belongs to the directory's owner: a broker does not run as root."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from markdown_blocks import ROOT

from native_log.cli.app import kafkalog
from native_log.storage import ownership
from native_log.storage.opening import make_folder, open_file
from tests.builders.ownership import OWNER, as_root, give, owners

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = ROOT / "examples/kafka-logs"


@pytest.fixture(autouse=True)
def no_earlier_warnings() -> None:
    """Each warning is given once in a process."""
    ownership._warn.cache_clear()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return the log directory of a broker that runs as OWNER and was killed."""
    logs = tmp_path / "logs"
    shutil.copytree(SAMPLE, logs)
    (logs / ".kafka_cleanshutdown").unlink(missing_ok=True)
    give(tmp_path)
    return logs


@as_root
@pytest.mark.parametrize(
    "command",
    [
        "recover --yes --save-to {root}/saved {logs}",
        "reindex {logs}",
        "compact --yes --topic orders -c segment.ms=1 {logs}",
        "retain --yes -c retention.ms=1 {logs}",
        "delete-records --yes --offset orders:0:100 {logs}",
        "erase --yes --topic orders --key customer-059 {logs}",
        "produce --topic orders {logs}",
        "produce --topic new {logs}",
        "produce --topic new {root}/new/logs",
        "salvage {logs} {root}/salvaged",
        "restore --topic orders {logs} {root}/restored",
    ],
)
def test_new_files_belong_to_the_owner_of_the_directory(command: str, logs: Path, tmp_path: Path) -> None:
    if command.startswith("recover"):
        with next(logs.glob("orders-0/*.log")).open("ab") as file:
            file.write(b"torn")
    inodes = {file.stat().st_ino for file in tmp_path.rglob("*")}
    result = CliRunner().invoke(
        kafkalog, command.format(root=tmp_path, logs=logs).split(), input="a\nb\n", catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    assert {file.stat().st_ino for file in tmp_path.rglob("*")} - inodes  # there are new files
    assert owners(tmp_path) == {(OWNER, OWNER)}


@as_root
def test_files_that_exist_keep_their_owner(logs: Path, tmp_path: Path) -> None:
    """The owner of the directory could have linked another file there."""
    secret = tmp_path / "secret"
    secret.touch()
    os.chown(secret, 0, 0)
    (logs / "linked").hardlink_to(secret)
    os.close(open_file(logs / "linked", os.O_RDWR | os.O_CREAT))
    with pytest.raises(FileExistsError):
        open_file(logs / "linked", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    assert secret.stat().st_uid == 0


@as_root
def test_a_folder_that_another_task_has_just_created(logs: Path) -> None:
    (logs / "staging").mkdir()
    make_folder(logs / "staging")
    os.close(open_file(logs / "staging" / "file", os.O_RDWR | os.O_CREAT))
    assert owners(logs / "staging") == {(OWNER, OWNER)}


@as_root
def test_root_without_the_right_to_give_files_away(
    logs: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    for name in ("a", "b"):
        make_folder(logs / name)
    assert [f"chown -R {OWNER}:{OWNER} {logs}" in message for message in caplog.messages] == [True]


def test_another_user_is_warned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(SAMPLE, tmp_path / "logs")
    delete = f"delete-records --yes --offset orders:0:100 {tmp_path}/logs"
    owner = tmp_path.stat().st_uid
    assert CliRunner().invoke(kafkalog, delete.split()).exit_code == 0
    assert not caplog.messages
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert CliRunner().invoke(kafkalog, delete.replace("100", "101").split()).exit_code == 0
    (message,) = caplog.messages
    assert f"with id {owner}, but new files in it will belong to the user of this process" in message
    assert message.endswith(f"chown -R {owner}:{tmp_path.stat().st_gid} {tmp_path}/logs")
