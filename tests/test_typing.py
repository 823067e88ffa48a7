"""The public API as mypy --strict sees it from a user's code."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

GOOD = """
    import native_log
    from native_log import Compression, IsolationLevel, LogDir, LogRange, LogScan, Mode, PartitionLog

    broker = LogDir("/var/kafka-logs")
    topics: dict[str, list[int]] = broker.topics()
    meta, topic_id = broker.meta_properties, broker.partition("orders", 0).topic_id
    with LogDir.create("/disk2/kafka", cluster_id=meta.cluster_id, node_id=meta.node_id) as logs:
        logs.create_topic("orders", partitions=3, topic_id=topic_id, config={"segment.bytes": 1 << 20})


    def read(log: PartitionLog, level: IsolationLevel = "read_committed", mode: Mode = "permissive") -> int:
        for batch in log.read(start_offset=100, columns=["offset"], isolation_level=level, mode=mode):
            print(batch.num_rows)
        part: LogRange = log.range(5, isolation_level=level)
        scan: LogScan = log.scan(columns=["offset"])
        start = log.offset_for_timestamp(1760000000000)
        return (0 if start is None else start) + part.end_offset + len(scan.schema)


    def append(log: PartitionLog, batch: object, compression: Compression = "lz4") -> None:
        log.append(batch, compression=compression)
        log.append(batch, compression="zstd", level=3)


    native_log.compact("/var/kafka-logs", topics=["orders"], config={"min.cleanable.dirty.ratio": 0.1})
    native_log.retain("/var/kafka-logs", config={"retention.ms": 86_400_000}, dry_run=True)
    native_log.delete_records("/var/kafka-logs", {("orders", 0): 123456})
    native_log.erase("/var/kafka-logs", "orders", keys=[b"customer-17"], how="tombstone", dry_run=True)
    native_log.recover("/var/kafka-logs", dry_run=True)
    native_log.scan("/var/kafka-logs", "orders", filter="offset > 5", remote="/tier", remote_layout="aiven")
    native_log.reindex(["/disk1/kafka", "/disk2/kafka"], exclude_topics="orders", dry_run=True)
    print(native_log.RECORD_SCHEMA.names, native_log.LogConfig.parse({}).segment_bytes)
"""

BAD = """
    import native_log
    from native_log import LogDir

    LogDir("/logs", high_watermark="latest")  # E: [arg-type]
    log = LogDir("/logs").partition("t", "0")  # E: [arg-type]
    log.read(mode="failfast")  # E: [arg-type]
    log.read("5")  # E: [arg-type]
    log.read(isolation_level="committed")  # E: [arg-type]
    log.append(None, compression="lzma")  # E: [arg-type]
    log.append_batches(b"", origin="leader")  # E: [arg-type]
    log.transactions(mode="lenient")  # E: [arg-type]
    native_log.scan("/logs", replicas="all")  # E: [arg-type]
    native_log.scan("/logs", remotes="/tier")  # E: [call-arg]
    native_log.erase("/logs", keys=["k"], how="forget")  # E: [arg-type]
"""


def mypy(code: str, tmp_path: Path) -> list[str]:
    """Return the line numbers and codes of mypy's errors."""
    file = tmp_path / "user.py"
    file.write_text(textwrap.dedent(code))
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]
    options += ["--no-pretty", "--no-error-summary", f"--cache-dir={ROOT / '.mypy_cache' / 'user'}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(file)],
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert not done.stderr, done.stderr
    errors = [line.removeprefix(f"{file}:") for line in done.stdout.splitlines() if ": error: " in line]
    return [f"{line.split(':')[0]} {line.split()[-1]}" for line in errors]


@pytest.mark.parametrize("code", [GOOD, BAD], ids=["right", "wrong"])
def test_a_users_code_is_checked(code: str, tmp_path: Path) -> None:
    lines = enumerate(textwrap.dedent(code).splitlines(), 1)
    expected = [f"{number} {line.split('# E: ')[1]}" for number, line in lines if "# E: " in line]
    assert mypy(code, tmp_path) == expected
