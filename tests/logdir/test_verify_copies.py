"""verify and report check every copy of a partition, not only the one that is read."""

from __future__ import annotations

import json
import logging
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import native_log
from native_log import LogDir
from native_log.cli.app import kafkalog
from native_log.reporting.figures import Extent
from native_log.reporting.layout import Table
from native_log.reporting.sections.directories import directory_section
from native_log.reporting.survey import survey
from tests.builders.copies import Batch, batches, damage, write_copy
from tests.reporting.examples import NOW_MS

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def run(*arguments: object) -> Result:
    return CliRunner().invoke(kafkalog, [*map(str, arguments)])


@pytest.fixture
def log_dirs(tmp_path: Path) -> list[Path]:
    """Three copies. The longest one is undamaged, and each of the others has a damaged batch."""
    whole = batches(0, 20)
    log_dirs = [tmp_path / name for name in ("r1", "r2", "r3")]
    for log_dir, log in zip(log_dirs, (whole, whole[:-2], whole[:-2]), strict=True):
        directory = write_indexed(log_dir, log)
        if log_dir != log_dirs[0]:
            damage(directory, whole[4])
    return log_dirs


def write_indexed(log_dir: Path, log: list[Batch]) -> Path:
    directory = write_copy(log_dir, log)
    native_log.reindex(log_dir)
    return directory


def test_the_damage_of_each_copy_is_a_problem(log_dirs: list[Path]) -> None:
    problems = native_log.verify(log_dirs).to_pylist()
    files = [str(log_dir / "t-0/00000000000000000000.log") for log_dir in log_dirs[1:]]
    assert [(problem["kind"], problem["path"]) for problem in problems] == [("crc", file) for file in files]
    assert native_log.verify(log_dirs[0]).num_rows == 0


def test_the_command_fails_for_damage_in_any_copy(log_dirs: list[Path]) -> None:
    result = run("verify", *log_dirs)
    assert (result.exit_code, result.stderr) == (1, "")
    assert [line.split(",")[0] for line in result.stdout.splitlines()[:-1]] == [
        str(log_dir / "t-0/00000000000000000000.log") for log_dir in log_dirs[1:]
    ]
    assert result.stdout.endswith("\n3 directories of 1 partition checked, 2 problems\n")
    assert run("verify", log_dirs[0]).stdout == "1 partition checked, no problems\n"


def test_json_names_the_copy(log_dirs: list[Path]) -> None:
    result = run("verify", "--json", *log_dirs)
    paths = [json.loads(line)["path"] for line in result.stdout.splitlines()]
    assert [path.startswith(str(log_dir)) for path, log_dir in zip(paths, log_dirs[1:], strict=True)] == [
        True,
        True,
    ]


def test_the_report_counts_the_problems_of_all_copies(log_dirs: list[Path]) -> None:
    log_dir = LogDir(log_dirs)
    figures = survey(log_dir, log_dir.partitions(), Extent(verification=True), NOW_MS)
    assert [(problem.kind, problem.count) for problem in figures.problems or ()] == [("crc", 2)]


def test_the_report_has_the_figures_of_all_copies(log_dirs: list[Path]) -> None:
    log_dir = LogDir(log_dirs)
    figures = survey(log_dir, log_dir.partitions(), Extent(), NOW_MS)
    assert [
        (copy.log_dir, copy.log_end_offset, copy.is_leading, copy.is_read) for copy in figures.copies
    ] == [
        (str(log_dirs[0]), 60, True, True),
        (str(log_dirs[1]), 54, False, False),
        (str(log_dirs[2]), 54, False, False),
    ]
    directories, copies = directory_section(figures).parts
    assert isinstance(directories, Table) and isinstance(copies, Table)
    assert [row[4] for row in directories.rows] == ["1", "1", "1"]
    assert [row[:4] for row in copies.rows] == [
        ("t-0", str(log_dirs[0]), "*", "60"),
        ("t-0", str(log_dirs[1]), "", "54"),
        ("t-0", str(log_dirs[2]), "", "54"),
    ]


def test_a_directory_that_is_given_twice_is_checked_once(log_dirs: list[Path]) -> None:
    link = log_dirs[0].with_name("link")
    link.symlink_to(log_dirs[1])
    assert native_log.verify([log_dirs[1], log_dirs[1] / "t-0", link]).num_rows == 1


def test_a_deleted_directory_is_checked_beside_the_new_one(tmp_path: Path) -> None:
    old = write_indexed(tmp_path / "logs", batches(0, 5))
    damage(old, batches(0, 5)[2])
    deleted = old.rename(tmp_path / "logs" / f"t-0.{'0' * 32}-delete")
    write_indexed(tmp_path / "logs", batches(0, 5))
    assert native_log.verify(tmp_path / "logs").num_rows == 0
    (problem,) = native_log.verify(tmp_path / "logs", include_deleted=True).to_pylist()
    assert problem["path"].startswith(str(deleted))


def test_one_warning_says_which_copies_are_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, length in (("r1", 5), ("r2", 9)):
        write_copy(tmp_path / name, batches(0, length))
        shutil.copytree(tmp_path / name / "t-0", tmp_path / name / "t-1")
        shutil.copytree(tmp_path / "r1/t-0", tmp_path / name / "equal-0")
    shutil.copytree(tmp_path / "r1/t-0", tmp_path / "r1/single-0")
    with caplog.at_level(logging.WARNING):
        LogDir(tmp_path / "r1", tmp_path / "r2")
    (message,) = caplog.messages
    assert message == (
        "3 partitions exist in several directories, and only the longest copy of each is read: "
        f"1 in {tmp_path / 'r1'}, 2 in {tmp_path / 'r2'}"
    )


def test_the_warning_about_one_partition_has_the_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = [write_copy(tmp_path / name, batches(0, length)) for name, length in (("r1", 5), ("r2", 9))]
    LogDir(tmp_path / "r1", tmp_path / "r2")
    assert caplog.messages == [
        f"t-0 exists 2 times: {paths[1]} (log end offset 27) is read, not {paths[0]} (log end offset 15)"
    ]
