"""A process that is killed loses no record that was acknowledged."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from native_log import LogDir, recover, verify
from native_log.producer import KafkaLogProducer
from tests.killing import survives

if TYPE_CHECKING:
    from pathlib import Path

SAFE = {"acks": "all", "flush.messages": 1, "linger.ms": 0}
ROLLING = {"segment.bytes": 1024, "index.interval.bytes": 0, "batch.size": 200}


def check(path: Path, acknowledged: int, sent: int) -> None:
    """Check that the log loads, and contains the first records in order: at least those acknowledged."""
    if not (path / ".kafka_cleanshutdown").exists():
        recover(path)
    assert verify(path).num_rows == 0
    rows = LogDir(path).partition("t", 0).read(columns=["value", "offset"]).read_all().to_pydict()
    values = [b"%d " % number * 5 for number in range(len(rows["value"]))]
    assert (rows["value"], rows["offset"]) == (values, list(range(len(values))))
    assert acknowledged <= len(values) <= sent


def test_a_process_killed_at_a_change_of_a_file(tmp_path: Path) -> None:
    acknowledged = mmap.mmap(-1, 8)  # shared with the forked process

    def produce(path: Path) -> None:
        with KafkaLogProducer(path, SAFE | ROLLING) as producer:
            for number in range(40):
                producer.send("t", b"%d " % number * 5).get(60)
                acknowledged[:] = struct.pack("q", number + 1)

    counts = set()
    for step in range(0, 10_000, 17):
        path = tmp_path / f"logs{step}"
        LogDir.create(path).create_topic("t")
        acknowledged[:] = bytes(8)
        finished = survives(partial(produce, path), step)
        (count,) = struct.unpack("q", acknowledged)
        check(path, count, 40)
        counts.add(count)
        if finished:
            break
    assert {0, 40} < counts


CHILD = """
import sys
from native_log.producer import KafkaLogProducer

producer = KafkaLogProducer(sys.argv[1], dict(pair.split("=") for pair in sys.argv[2:]))
for number in range(10**6):
    callback = lambda metadata, error: sys.stdout.write(f"{metadata.offset}\\n") and sys.stdout.flush()
    producer.send("t", b"%d " % number * 5, callback=callback)
"""


@pytest.mark.parametrize("settings", [{}, {"compression.type": "zstd", "segment.bytes": 20_000}])
def test_a_process_killed_while_it_sends(tmp_path: Path, settings: dict[str, Any]) -> None:
    path = tmp_path / "logs"
    pairs = [f"{name}={value}" for name, value in (SAFE | settings).items()]
    command = [sys.executable, "-c", CHILD, str(path), *pairs]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(3000):
            last = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read().splitlines()
    acknowledged = int(rest[-2]) if len(rest) > 1 else last  # the last line may be incomplete
    check(path, acknowledged + 1, 10**6)
