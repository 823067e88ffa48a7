"""kafkalog diff, and kafkalog cat --replicas merge."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner

import native_log
from native_log.cli.app import kafkalog
from tests.builders.copies import batches, damage, write_copy

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def run(*arguments: object) -> Result:
    return CliRunner().invoke(kafkalog, [*map(str, arguments)])


def test_equal_directories_exit_with_0(tmp_path: Path) -> None:
    for name in "ab":
        write_copy(tmp_path / name, batches(0, 5))
    result = run("diff", tmp_path / "a", tmp_path / "b")
    assert (result.exit_code, result.stdout) == (0, "no differences\n")


def test_each_difference_is_a_line(tmp_path: Path) -> None:
    whole = batches(0, 20)
    write_copy(tmp_path / "a", whole)
    directory = write_copy(tmp_path / "b", whole[:-1])
    path, position = damage(directory, whole[4])
    result = run("diff", tmp_path / "a", tmp_path / "b")
    assert result.exit_code == 1
    end, damaged, summary = result.stdout.splitlines()
    assert end == (
        f"t-0: log-end-offset: {directory}, offsets 57 to 59: 57, in the leading copy 60 "
        f"({tmp_path / 'a' / 't-0'})"
    )
    assert damaged.startswith(f"t-0: damaged: {path}, position {position}, offsets 12 to 14: ")
    assert summary == "2 differences"


def test_json_rows_are_those_of_the_function(tmp_path: Path) -> None:
    write_copy(tmp_path / "a", batches(0, 5))
    write_copy(tmp_path / "b", batches(0, 4))
    result = run("diff", "--json", tmp_path / "a", tmp_path / "b")
    expected = native_log.diff(tmp_path / "a", tmp_path / "b").read_all().to_pylist()
    assert [json.loads(line) for line in result.stdout.splitlines()] == expected


def test_wrong_usage(tmp_path: Path) -> None:
    write_copy(tmp_path / "a", batches(0, 5))
    assert run("diff", tmp_path / "a").exit_code == 2
    assert run("diff", tmp_path / "a", tmp_path / "none").exit_code == 2
    assert run("diff", tmp_path / "a", tmp_path / "a", "--topic", "u").exit_code == 2


def test_cat_prints_merged_copies(tmp_path: Path) -> None:
    whole = batches(0, 20)
    directories = [write_copy(tmp_path / "a", whole), write_copy(tmp_path / "b", whole[:15])]
    damage(directories[0], whole[4])
    paths = [tmp_path / "a", tmp_path / "b"]
    assert run("cat", *paths).exit_code == 1
    result = run("cat", "--replicas", "merge", "--format", "%o\\n", *paths)
    assert result.exit_code == 0
    assert result.stdout.split() == [str(offset) for offset in range(60)]
    followed = run("cat", "--replicas", "merge", "--follow", "--limit", "60", "--format", "%o\\n", *paths)
    assert (followed.exit_code, followed.stdout) == (0, result.stdout)
