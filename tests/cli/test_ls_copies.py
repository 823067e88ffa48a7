"""`kafkalog ls` of the directories of several brokers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import native_log
from native_log.cli.app import kafkalog
from tests.builders.copies import batches, damage, write_copy

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log_dirs(tmp_path: Path) -> list[Path]:
    """r1 is the longest copy, r2 has the highest leader epoch, and r3 is damaged."""
    old = batches(0, 9)
    logs = {
        "r1": (old, 24),
        "r2": ([*old[:6], *batches(6, 8, epoch=1)], 21),
        "r3": (old[:6], None),
    }
    for name, (log, high_watermark) in logs.items():
        directory = write_copy(tmp_path / name, log, high_watermark=high_watermark)
        native_log.reindex(tmp_path / name)
        if name == "r3":
            damage(directory, old[2])
    return [tmp_path / name for name in logs]


def ls(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(kafkalog, ["ls", *map(str, arguments)])
    assert (result.exit_code, result.stderr) == (code, "")
    return str(result.stdout)


def test_all_copies_are_side_by_side(log_dirs: list[Path]) -> None:
    headings, table, totals = ls(*log_dirs).split("\n\n")
    assert [heading.split()[0] for heading in headings.splitlines()] == [str(path) for path in log_dirs]
    head, *rows = (line.split() for line in table.splitlines())
    assert head[:8] == ["TOPIC", "PARTITION", "DIRECTORY", "BEST", "START", "END", "HW", "EPOCH"]
    assert rows[0][:6] == ["t", "0", "r1", "0", "27", "24"]
    assert rows[1][:8] == ["t", "0", "r2", "*", "0", "24", "21", "1"]
    assert rows[2][:7] == ["t", "0", "r3", "0", "18", "–", "0"]
    assert totals.startswith("1 topic, 1 partition, 3 copies, 3 segments, ")


def test_json_has_all_copies(log_dirs: list[Path]) -> None:
    def fields(*names: str, arguments: tuple[str, ...] = (), code: int = 0) -> list[tuple[Any, ...]]:
        partitions = json.loads(ls(*log_dirs, "--json", *arguments, code=code))["partitions"]
        return [tuple(partition[name] for name in names) for partition in partitions]

    assert fields("logEndOffset", "highWatermark", "leaderEpoch", "isLeading") == [
        (27, 24, 0, False),
        (24, 21, 1, True),
        (18, None, 0, False),
    ]
    assert fields("path", "problems") == [(str(path / "t-0"), None) for path in log_dirs]
    assert fields("problems", arguments=("--verify",), code=1) == [(0,), (0,), (1,)]


def test_verified_copies(log_dirs: list[Path]) -> None:
    table = ls(*log_dirs, "--verify", code=1).split("\n\n")[1].splitlines()
    assert [line.split()[-1] for line in table] == ["PROBLEMS", "0", "0", "1"]
    assert ls(log_dirs[0], "--verify").splitlines()[2].split()[-1] == "0"


def test_one_copy_of_each_partition(log_dirs: list[Path]) -> None:
    """The directories of one broker have a table each."""
    (log_dirs[1] / "t-0").rename(log_dirs[1] / "t-1")
    tables = ls(*log_dirs[:2]).split("\n\n")
    assert [table.splitlines()[0].split()[0] for table in tables[:2]] == [str(path) for path in log_dirs[:2]]
    (partition, other) = json.loads(ls(*log_dirs[:2], "--json"))["partitions"]
    assert (partition["isLeading"], other["isLeading"]) == (None, None)
