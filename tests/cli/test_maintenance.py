"""kafkalog verify, recover, reindex."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from native_log.cli.app import kafkalog
from native_log.logdir import LogDir
from native_log.logdir.verification import verify_log
from tests.conftest import golden_id
from tests.log.support import PARTITIONS, batch, open_golden

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import GoldenPartition


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        kafkalog.main([str(arg) for arg in args], prog_name="kafkalog")
    return int(ended.value.code or 0), capsys.readouterr().out


def damaged(partition: GoldenPartition) -> bool:
    # v0-snappy and the like are among these; a garbage or missing index is a problem, too.
    names = ("corrupt-", "torn-", "crash", "noindex-removed", "compact-crash")
    return any(name in partition.fixture for name in names)


@pytest.mark.parametrize("partition", [p for p in PARTITIONS if not damaged(p)], ids=golden_id)
def test_logs_that_brokers_left_in_order_have_no_problems(partition: GoldenPartition) -> None:
    assert [str(problem) for problem in verify_log(open_golden(partition))] == []


def test_verify_tells_what_is_wrong_and_recover_mends_it(
    golden_copy: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = golden_copy("kafka-4.1/corrupt-bad-crc")
    code, out = run(capsys, "verify", path)
    assert code == 1
    assert "00000000000000000080.log, position 2752, offset 119: the checksum" in out
    assert "1 partition checked, 1 problem\n" in out
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    code, out = run(capsys, "recover", "--dry-run", "--from-start", path)
    assert code == 0
    assert "would be cut" in out and "position 2752" in out and "3199 bytes and 1 later segments" in out
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    code, out = run(capsys, "recover", "--from-start", path)
    assert code == 0
    assert "offsets 0 to 119" in out
    assert (path / ".kafka_cleanshutdown").exists()
    assert (path / "recovery-point-offset-checkpoint").read_text() == "0\n1\ncorrupt-bad-crc 0 119\n"
    assert run(capsys, "verify", path) == (0, "1 partition checked, no problems\n")
    assert "whole, offsets 0 to 119" in run(capsys, "recover", path)[1]


def test_reindex_makes_what_was_lost_again(golden_copy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = golden_copy("kafka-4.1/txn")
    (directory,) = (one for one in path.iterdir() if one.is_dir())
    transactions = {file.name: file.read_bytes() for file in directory.glob("*.txnindex")}
    assert transactions
    for kind in ("index", "timeindex", "txnindex"):
        for file in directory.glob(f"*.{kind}"):
            file.unlink()
    assert run(capsys, "verify", path)[0] == 1
    code, out = run(capsys, "reindex", path)
    assert (code, "indexed" in out) == (0, True)
    assert {file.name: file.read_bytes() for file in directory.glob("*.txnindex")} == transactions
    assert run(capsys, "verify", path)[0] == 0


def test_reindex_says_where_a_log_is_damaged(golden_copy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = golden_copy("kafka-4.1/corrupt-bad-crc")
    with pytest.raises(SystemExit) as ended:
        kafkalog.main(["reindex", str(path)], prog_name="kafkalog")
    assert ended.value.code == 1
    assert "position 2752" in capsys.readouterr().err


def test_recover_of_one_topic_does_not_mark_the_directory_clean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = LogDir.create(tmp_path / "logs")
    log_dir.create_topic("a")
    log_dir.create_topic("b")
    shutil.copy(tmp_path / "logs" / ".kafka_cleanshutdown", tmp_path)
    (tmp_path / "logs" / ".kafka_cleanshutdown").unlink()
    (tmp_path / "logs" / "a-0" / f"{0:020d}.log").write_bytes(batch(0) + b"torn")
    code, out = run(capsys, "recover", "-t", "a", tmp_path / "logs")
    assert (code, out.count("\n")) == (0, 1)
    assert "4 bytes" in out
    assert not (tmp_path / "logs" / ".kafka_cleanshutdown").exists()
    run(capsys, "recover", tmp_path / "logs")
    assert (tmp_path / "logs" / ".kafka_cleanshutdown").exists()
