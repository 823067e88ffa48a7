"""`kafkalog grep`, `cat --where` and `ls --count`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from click.testing import CliRunner

from native_log import LogDir
from native_log.cli.app import kafkalog

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def run(*arguments: object) -> Result:
    return CliRunner().invoke(kafkalog, [str(argument) for argument in arguments], catch_exceptions=False)


START = datetime(2026, 11, 1, tzinfo=UTC)


def value(number: int) -> str:
    return json.dumps({"id": number, "state": "FAILED" if number % 10 == 3 else "ok"})


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("grep") / "logs"
    with LogDir.create(path) as logs:
        for topic in ("orders", "payments"):
            logs.create_topic(topic, 2)
            for number in range(2):
                logs.partition(topic, number).append(
                    pa.record_batch(
                        {
                            "key": [f"{topic[0]}{number}-{i}" for i in range(50)],
                            "value": [
                                f'{{"id": {i}, "state": "{"FAILED" if i % 10 == 3 else "ok"}"}}'
                                for i in range(50)
                            ],
                            "timestamp": pa.array(
                                [START + timedelta(minutes=i) for i in range(50)], pa.timestamp("us", "UTC")
                            ),
                            "headers": pa.array(
                                [[{"key": "trace", "value": b"t%d" % i}] for i in range(50)],
                                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
                            ),
                        }
                    )
                )
    return path


def lines(*arguments: object, code: int = 0) -> list[str]:
    result = run(*arguments)
    assert result.exit_code == code, result.stderr
    return result.stdout.splitlines()


def test_a_regular_expression(directory: Path) -> None:
    found = lines("grep", r'"id": 1?3\b.*FAILED', directory)
    assert [line.split("\t")[:2] for line in found] == [
        [f"{topic}-{number}", offset]
        for topic in ("orders", "payments")
        for number in (0, 1)
        for offset in ("3", "13")
    ]
    assert lines("grep", "failed", directory, code=1) == []
    assert len(lines("grep", "-i", "failed", directory, "-t", "orders")) == 10
    assert len(lines("grep", "-F", '"id": 13,', directory)) == 4
    assert lines("grep", "-F", "1?3", directory, code=1) == []
    assert len(lines("grep", "-e", "t13", "--in", "headers", directory)) == 4
    assert lines("grep", "t13", "--in", "value", directory, code=1) == []


def test_keys_times_and_sql(directory: Path) -> None:
    def offsets(*arguments: object, code: int = 0) -> list[int]:
        return [int(text) for text in lines("grep", *arguments, "-f", "%o\\n", code=code)]

    assert offsets("--key", "o1-7", directory) == [7]
    assert offsets("--key-prefix", "o1-4", "ok", directory) == [4, 40, 41, 42, 44, 45, 46, 47, 48, 49]
    assert offsets("FAILED", directory, "-t", "orders", "--offset", 20, "--end-offset", 40) == [23, 33] * 2
    assert offsets("--from", "2026-11-01T00:45:00", directory, "-t", "orders") == [45, 46, 47, 48, 49] * 2
    assert offsets("FAILED", "--until", "2026-11-01T00:10:00", directory, "-t", "payments") == [3, 3]
    assert offsets("--where", "key = 'p0-5' OR offset = 1 AND topic = 'orders'", directory) == [1, 1, 5]
    assert offsets("FAILED", directory, "--limit", 3) == [3, 13, 23]


def test_topics(directory: Path) -> None:
    counts = ["payments-0\t5", "payments-1\t5"]
    assert lines("grep", "-c", "FAILED", directory, "-t", "payments") == counts
    assert lines("grep", "-c", "FAILED", directory, "--exclude-topic", "orders") == counts


def test_partitions(directory: Path) -> None:
    assert lines("grep", "-c", "FAILED", directory, "-p", 1) == ["orders-1\t5", "payments-1\t5"]
    result = run("grep", "FAILED", directory, "-p", "2-7")
    assert result.exit_code == 2
    assert "expected a partition 2 to 7 of orders, payments, found 0, 1" in result.stderr


def test_where_logs_end_and_which_directories(directory: Path, tmp_path: Path) -> None:
    logs = shutil.copytree(directory, tmp_path / "logs")
    (logs / "payments-0").rename(logs / f"payments-0.{'0' * 32}-delete")
    (logs / "replication-offset-checkpoint").write_text("0\n1\norders 0 13\n")
    options = ("--high-watermark", "checkpoint", "--include-deleted")
    assert lines("grep", "-c", "FAILED", logs, "-p", 0) == ["orders-0\t5"]
    assert lines("grep", "-c", "FAILED", logs, "-p", 0, *options) == ["orders-0\t1", "payments-0\t5"]


def test_counts_and_formats(directory: Path) -> None:
    assert lines("grep", "-c", "FAILED", directory) == [
        *("orders-0\t5", "orders-1\t5", "payments-0\t5", "payments-1\t5")
    ]
    assert lines("grep", "-c", "FAILED", directory, "--limit", 7) == ["orders-0\t5", "orders-1\t2"]
    assert lines("grep", "-c", "nothing", directory, code=1) == []
    (found,) = lines("grep", "--key", "o1-7", directory, "-f", "json")
    assert json.loads(found)["value"] == '{"id": 7, "state": "ok"}'


def test_usage_errors(directory: Path) -> None:
    for arguments, message in [
        (("FAILED",), "expected PATTERN and PATH"),
        (("(", directory), "regular expression"),
        (("--where", "nokey = 1", directory), "nokey"),
        (("FAILED", directory, "-t", "nothing"), "nothing"),
        (("--key", "o1-7", "--in", "value", directory), "expected PATTERN with --in"),
        (("FAILED", directory, "--offset", 2, "--end-offset", 1), "expected --offset up to --end-offset"),
    ]:
        result = run("grep", *arguments)
        assert result.exit_code == 2
        assert message in result.stderr


def test_a_pipe_that_closes_ends_it(directory: Path) -> None:
    command = f"{sys.executable} -m native_log grep ok {directory} | head -n 1"
    found = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert found.stdout.startswith("orders-0\t0\t")
    assert found.stderr == ""


def test_cat_where(directory: Path) -> None:
    found = lines("cat", "--where", "offset >= 48 AND key LIKE 'o%'", directory, "-f", "%k\\n")
    assert found == ["o0-48", "o0-49", "o1-48", "o1-49"]
    tail = lines(
        "cat", "--where", "value LIKE '%FAILED%'", "--tail", 1, "-t", "orders", directory, "-f", "%o\\n"
    )
    assert tail == ["43", "43"]
    result = run("cat", "--where", "offset + 1 = 2", directory)
    assert result.exit_code == 2
    assert "cannot express" in result.stderr


def test_ls_count(directory: Path) -> None:
    table = lines("ls", "--count", directory)
    assert table[1].endswith("RECORDS")
    assert [line.split()[-1] for line in table[2:6]] == ["50"] * 4
    listed = json.loads("\n".join(lines("ls", "--count", "--json", directory)))
    assert [each["records"] for each in listed["partitions"]] == [50] * 4
    assert json.loads("\n".join(lines("ls", "--json", directory)))["partitions"][0]["records"] is None
