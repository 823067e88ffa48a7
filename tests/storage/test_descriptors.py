"""Processes that may open few files."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from native_log import LogDir

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = 100

PREPARE = """
import resource, sys
soft, hard = map(int, sys.argv[2:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
"""

PRODUCE = """
from native_log.producer import KafkaLogProducer
with KafkaLogProducer(sys.argv[1]) as producer:
    futures = [producer.send("t", b"value", partition=number) for number in range(100)]
    producer.flush()
print(*[future.exception for future in futures if future.exception], sep="\\n")
"""

APPEND = """
import pyarrow as pa
from native_log import LogDir
with LogDir(sys.argv[1]) as logs:
    opened = [logs.partition("t", number) for number in range(100)]
    for log in opened:
        log.append(pa.table({"value": [b"value"]}))
"""


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    LogDir.create(tmp_path / "logs").create_topic("t", partitions=PARTITIONS)
    return tmp_path / "logs"


def run(script: str, logs: Path, soft: int, hard: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PREPARE + script, str(logs), str(soft), str(hard)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def records(logs: Path) -> int:
    return LogDir(logs).read("t", columns=["offset"]).read_all().num_rows


@pytest.mark.parametrize("script", [PRODUCE, APPEND], ids=["produce", "append"])
def test_the_limit_is_raised(script: str, logs: Path) -> None:
    result = run(script, logs, 150, 1000)
    assert result.returncode == 0, result.stderr
    assert records(logs) == PARTITIONS


@pytest.mark.parametrize("script", [PRODUCE, APPEND], ids=["produce", "append"])
def test_a_limit_that_cannot_be_raised(script: str, logs: Path) -> None:
    """It is an error at once. A log is not read without its indexes because of it."""
    result = run(script, logs, 150, 150)
    output = result.stdout + result.stderr
    assert "Too many open files: this process may open 150; raise the limit with ulimit -n" in output
    assert "index cannot be read" not in output
    assert 0 < records(logs) < PARTITIONS
