"""Dry runs over a bucket report what they report over the same files on a disk. Changes are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import native_log
from native_log.cli.app import kafkalog
from native_log.errors import NotALogDirError
from tests.builders.golden import DATA

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.s3_server import S3Server

pytestmark = pytest.mark.object_store

NOW_MS = 1_800_000_000_000
GOLDEN = "golden/kafka-4.1"
Job = tuple["Callable[..., Any]", str, dict[str, Any]]

JOBS: list[Job] = [
    (
        native_log.compact,
        f"{GOLDEN}/compact-tomb-drop/round1-before/data",
        {"topics": "compact-tomb-drop", "now_ms": NOW_MS},
    ),
    (
        native_log.compact,
        f"{GOLDEN}/compact-txn/round1-before/data",
        {"topics": "compact-txn", "now_ms": NOW_MS},
    ),
    (native_log.retain, f"{GOLDEN}/ret-all/before/data", {"config": {"retention.ms": 1}, "now_ms": NOW_MS}),
    (native_log.delete_records, f"{GOLDEN}/ret-all/before/data", {"offsets": {("ret-all", 0): 5}}),
    (native_log.erase, f"{GOLDEN}/plain-zstd/data", {"key_prefix": "k1"}),
]


def run(job: Job, place: str, s3: S3Server, dry_run: bool = True) -> list[dict[str, Any]]:
    function, path, arguments = job
    table = function(f"{place}/{path}", dry_run=dry_run, storage_options=s3.options, **arguments)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job[0].__name__}-{job[1]}")
def test_a_dry_run_gives_the_same_report(job: Job, s3: S3Server) -> None:
    found = run(job, "s3://data", s3)
    assert found == run(job, str(DATA), s3)
    assert any("would be" in str(row) for row in found)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job[0].__name__}-{job[1]}")
def test_a_change_is_refused(job: Job, s3: S3Server) -> None:
    with pytest.raises(NotALogDirError, match="copy the directory to a disk, and change it there"):
        run(job, "s3://data", s3, dry_run=False)


@pytest.mark.parametrize(
    "command",
    [
        ["ls"],
        ["cat", "--tail", "3", "--topic", "events"],
        ["verify"],
        ["groups"],
        ["transactions"],
        ["compact", "--dry-run"],
        ["retain", "--dry-run"],
        ["report", "--full", "--output", "-"],
    ],
    ids=" ".join,
)
def test_commands(command: list[str], s3: S3Server) -> None:
    path = f"{GOLDEN}/whole-broker/data"
    options = [text for name, value in s3.options.items() for text in ("--storage-option", f"{name}={value}")]
    remote, local = (
        CliRunner().invoke(kafkalog, [command[0], f"{place}/{path}", *command[1:], *options])
        for place in ("s3://data", str(DATA))
    )
    assert (remote.exit_code, remote.stderr) == (
        local.exit_code,
        local.stderr.replace(str(DATA), "s3://data"),
    )
    if command[0] != "report":  # it also shows the local file system
        assert len(remote.output.splitlines()) == len(local.output.splitlines())
    assert remote.output


@pytest.mark.parametrize(
    "command", [["recover"], ["reindex"], ["salvage", "out"], ["produce", "--topic", "t"]], ids=str
)
def test_commands_that_change_a_directory_refuse_urls(command: list[str], s3: S3Server) -> None:
    arguments = [command[0], f"s3://data/{GOLDEN}/whole-broker/data", *command[1:]]
    result = CliRunner().invoke(kafkalog, arguments, input="")
    assert result.exit_code == 2
    assert "copy the directory to a disk" in result.stderr
