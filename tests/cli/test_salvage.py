"""kafkalog salvage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import native_log
from native_log.cli.app import kafkalog
from tests.builders.batches import batch
from tests.builders.golden import GOLDEN

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

BAD_CRC = str(GOLDEN / "kafka-4.1/corrupt-bad-crc/data")
UNDAMAGED = str(GOLDEN / "kafka-4.1/corrupt-undamaged/data")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(kafkalog, ["salvage", *map(str, arguments)])


def test_the_report_shows_what_is_lost(tmp_path: Path) -> None:
    result = run(BAD_CRC, tmp_path / "copy")
    assert result.exit_code == 1
    copied, lost = result.stdout.splitlines()[1:3]
    assert copied.split() == ["corrupt-bad-crc-0", "copied", "0", "239", "16", "KiB"]
    assert lost.split()[:6] == ["corrupt-bad-crc-0", "lost", "119", "133", "671", "B"]
    assert "00000000000000000080.log, position 2752" in lost
    assert result.stdout.splitlines()[-1] == "1 partition, 16 KiB copied; 1 range lost"
    assert native_log.verify(tmp_path / "copy").num_rows == 0


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    result = run("--dry-run", BAD_CRC, tmp_path / "copy")
    assert result.exit_code == 1
    assert "1 partition, 16 KiB would be copied; 1 range would be lost" in result.stdout
    assert not list(tmp_path.iterdir())


def test_json_rows_are_those_of_the_report(tmp_path: Path) -> None:
    result = run("--json", BAD_CRC, tmp_path / "copy")
    report = native_log.salvage(BAD_CRC, tmp_path / "again")
    assert [json.loads(line) for line in result.stdout.splitlines()] == report.to_pylist()


def test_nothing_lost_is_success(tmp_path: Path) -> None:
    result = run(UNDAMAGED, tmp_path / "copy")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "1 partition, 17 KiB copied; 0 ranges lost"


def test_several_sources_and_other_ids(tmp_path: Path) -> None:
    options = ("--cluster-id", "c" * 22, "--node-id", 4)
    assert run(*options, BAD_CRC, UNDAMAGED, tmp_path / "copy").exit_code == 1
    log_dir = native_log.LogDir(tmp_path / "copy")
    assert log_dir.topics() == native_log.LogDir([BAD_CRC, UNDAMAGED]).topics()
    assert log_dir.meta_properties.node_id == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((BAD_CRC,), "Missing argument"),
        ((BAD_CRC, f"{BAD_CRC}/copy"), "the source must not be changed"),
        ((BAD_CRC, GOLDEN), "expected a path that does not exist"),
        ((BAD_CRC, "/new", "--topic", "other"), "there is no topic other"),
        ((BAD_CRC, "/new", "--cluster-id", "a b"), "expected a cluster id"),
    ],
)
def test_wrong_usage(arguments: tuple[object, ...], message: str) -> None:
    result = run(*arguments, "--dry-run")
    assert result.exit_code == 2
    assert message in result.stderr


def test_the_last_line_counts_gaps(tmp_path: Path) -> None:
    (directory,) = native_log.LogDir.create(tmp_path / "logs").create_topic("t")
    for base_offset in (0, 600):
        (directory.path / f"{base_offset:020}.log").write_bytes(batch(base_offset))
    result = run(tmp_path / "logs", tmp_path / "copy")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].endswith("0 ranges lost; 1 partition with gaps of unknown cause")
