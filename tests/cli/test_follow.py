"""`kafkalog cat --follow`."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from click.testing import CliRunner

from native_log import LogDir
from native_log.cli.app import kafkalog

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "logs"
    with LogDir.create(root) as log_dir:
        log_dir.create_topic("t", partitions=2)
        log_dir.create_topic("other")
    write(root, "t", 0, "a", "b")
    write(root, "t", 1, "c", "d")
    return root


def write(root: Path, topic: str, partition: int, *values: str) -> None:
    with LogDir(root).partition(topic, partition) as log:
        log.append(pa.table({"key": list(values), "value": list(values)}))


def cat(root: Path, *arguments: str, expect: int = 0) -> list[str]:
    result = CliRunner().invoke(kafkalog, ["cat", str(root), "-f", "%t-%p %o %s\\n", "--follow", *arguments])
    assert result.exit_code == expect, result.output
    return result.stdout.splitlines()


@pytest.mark.usefixtures("interruptible")
def test_records_are_printed_until_it_is_interrupted(root: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "native_log",
        "cat",
        str(root),
        "--follow",
        "--tail",
        "1",
        "-t",
        "t",
        "-t",
        "u",
    ]
    command += ["--exclude-topic", "other", "-f", "%t-%p %o %s\\n", "--key-prefix", "new", "--key", "b"]
    LogDir(root).create_topic("u")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "t-0 1 b\n"
        write(root, "other", 0, "new")
        write(root, "t", 1, "not", "new1")
        assert process.stdout.readline() == "t-1 3 new1\n"
        write(root, "u", 0, "new2")
        assert process.stdout.readline() == "u-0 0 new2\n"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (130, "", "\n")


def test_it_ends_after_the_limit(root: Path) -> None:
    assert cat(root, "--limit", "4") == ["t-0 0 a", "t-0 1 b", "t-1 0 c", "t-1 1 d"]
    assert cat(root, "--limit", "3", "-p", "1", "--tail", "1", "--limit", "1") == ["t-1 1 d"]


@pytest.mark.parametrize("end", ["--end-offset", "--until"])
def test_it_has_no_end(root: Path, end: str) -> None:
    result = CliRunner().invoke(kafkalog, ["cat", str(root), "--follow", end, "1"])
    assert result.exit_code == 2
    assert "expected --follow without an end" in result.stderr


def test_an_arrow_stream(root: Path) -> None:
    command = [sys.executable, "-m", "native_log", "cat", str(root), "--follow", "-p", "0", "--tail", "1"]
    command += ["--format", "arrow", "--columns", "value", "--topic", "t", "--limit", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        stream = pa.ipc.open_stream(process.stdout)
        assert stream.read_next_batch().to_pydict() == {"value": [b"b"]}
        write(root, "t", 0, "e")
        assert stream.read_next_batch().to_pydict() == {"value": [b"e"]}
        write(root, "t", 0, "f", "g")
        assert stream.read_next_batch().to_pydict() == {"value": [b"f"]}
        assert process.wait(60) == 0


def test_a_termination_ends_it(root: Path) -> None:
    command = [sys.executable, "-m", "native_log", "cat", str(root), "--follow", "-t", "t", "--tail", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.terminate()
        assert not process.communicate(timeout=60)[1].strip()
        assert process.returncode == -signal.SIGTERM


def test_offsets_apply_to_new_partitions(root: Path) -> None:
    write(root, "other", 0, *"abcdef")
    assert cat(root, "--offset", "2", "-t", "other", "--limit", "2") == ["other-0 2 c", "other-0 3 d"]
