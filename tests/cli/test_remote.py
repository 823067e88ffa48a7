"""Remote storage on the command line."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from native_log.cli.app import kafkalog
from tests.builders.golden_tiered import tiered

if TYPE_CHECKING:
    from pathlib import Path

PARTITION = tiered("lts-overlap", "overlap-mid")
DATA, TIER = str(PARTITION.folder / "data"), str(PARTITION.folder / "tier")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(kafkalog, arguments)


def test_cat_prints_records_in_remote_storage() -> None:
    result = run("cat", DATA, "--remote", TIER, "-t", "overlap-mid", "-f", "%o\n")
    assert [int(line) for line in result.output.split()] == [row["offset"] for row in PARTITION.rows()]


def test_cat_without_a_path_reads_remote_storage_alone() -> None:
    result = run("cat", "--remote", TIER, "--remote-metadata", DATA, "-t", "overlap-mid", "-f", "%o\n")
    assert [int(line) for line in result.output.split()] == list(range(428))


def test_mode_drop_malformed_continues_after_lost_offsets(tmp_path: Path) -> None:
    folder = shutil.copytree(PARTITION.folder, tmp_path / "copy")
    (path,) = folder.glob("tier/*/overlap-mid-*/*0163-*.log")
    path.unlink()
    rest = [row["offset"] for row in PARTITION.rows() if not 163 <= row["offset"] <= 222]
    options = [str(folder / "data"), "--remote", str(folder / "tier"), "-t", "overlap-mid", "-f", "%o\n"]
    for command in (["cat"], ["grep", "--where", "offset >= 0"]):
        result = run(*command, *options)
        assert result.exit_code == 1
        assert "expected offsets 163 to 222 in a segment" in result.stderr
        result = run(*command, *options, "--mode", "dropMalformed")
        assert result.exit_code == 0
        assert [int(line) for line in result.stdout.split()] == rest
        assert "expected offsets 163 to 222 in a segment" in result.stderr


def test_grep_finds_records_in_remote_storage() -> None:
    key = PARTITION.rows()[0]["key"].decode()
    expected = [row["offset"] for row in PARTITION.rows() if row["key"] == key.encode()]
    for paths in ([DATA], ["--remote-metadata", DATA]):
        result = run("grep", "--key", key, *paths, "--remote", TIER, "-t", "overlap-mid", "-f", "%o\n")
        offsets = [int(line) for line in result.output.split()]
        assert offsets == [offset for offset in expected if paths == [DATA] or offset < 428]
    result = run("grep", "-F", key, "--remote", TIER, "--remote-metadata", DATA, "-t", "overlap-mid", "-c")
    assert result.output.startswith("overlap-mid-0\t")


def test_ls_lists_whole_logs() -> None:
    result = run("ls", DATA, "--remote", TIER, "-t", "overlap-mid", "--json")
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.output)["partitions"]
    assert (row["logStartOffset"], row["logEndOffset"]) == (0, 456)
    assert 0 < row["remoteSegments"] < row["segments"]
    assert (
        f"{row['segments']} ({row['remoteSegments']} remote)"
        in run("ls", DATA, "--remote", TIER, "-t", "overlap-mid").output
    )
    assert run("ls", "--remote", TIER, "-t", "overlap-mid").exit_code == 0


def test_verify_checks_remote_segments(tmp_path: Path) -> None:
    folder = shutil.copytree(PARTITION.folder, tmp_path / "copy")
    command = ["verify", str(folder / "data"), "--remote", str(folder / "tier"), "-t", "overlap-mid"]
    assert run(*command).exit_code == 0
    (path,) = folder.glob("tier/*/overlap-mid-*/*0163-*.log")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert str(path) in run(*command).output
    path.unlink()
    result = run(*command)
    assert result.exit_code == 1
    assert "expected offsets 163 to 222 in remote storage, found none" in result.output


def test_report_shows_remote_segments(tmp_path: Path) -> None:
    folder = shutil.copytree(PARTITION.folder, tmp_path / "copy")
    command = ["report", str(folder / "data"), "--remote", str(folder / "tier"), "-t", "overlap-mid", "-o"]
    assert run(*command, str(tmp_path / "local.html")).exit_code == 0
    row = json.loads(run("ls", DATA, "--remote", TIER, "-t", "overlap-mid", "--json").output)["partitions"][0]
    page = (tmp_path / "local.html").read_text()
    assert f"<td>{row['segments']} ({row['remoteSegments']} remote)</td>" in page.replace(
        ' class="number"', ""
    )
    assert "Offsets include local and remote segments." in page
    next(folder.glob("tier/*/overlap-mid-*/*0163-*.log")).unlink()
    assert run(*command, str(tmp_path / "full.html"), "--full").exit_code == 0
    assert "expected offsets 163 to 222 in remote storage, found none" in (tmp_path / "full.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cat"], "Missing argument 'PATH...'."),
        (["cat", DATA, "--remote-prefix", "p"], "expected --remote with the other options"),
        (["cat", "--remote", TIER, "--follow"], "expected --follow with a PATH"),
        (["grep", "--remote", TIER], "PATTERN may be left out with --key or --where"),
        (["grep", "a"], "PATH with --remote"),
        (["grep", "--key", "a"], "PATH with --remote"),
        (["ls", "--remote", TIER, "--verify"], "expected --verify with a PATH"),
        (["verify", "--remote", TIER], "expected a PATH with --remote"),
        (["report", "--remote", TIER, "-o", "-"], "expected a PATH with --remote"),
        (["cat", DATA, "--remote", TIER, "--remote-layout", "aiven"], "of layout aiven, found none"),
    ],
)
def test_combinations_that_are_rejected(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code != 0
    assert message in f"{result.output} {result.stderr} {result.exception}"
