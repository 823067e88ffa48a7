"""A log directory that several tasks write to."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log import LogDir
from native_log.config import LogConfig
from native_log.log.writing.encoding import Encoding
from native_log.publish import commit as publishing
from native_log.publish.job import WriteJob
from native_log.publish.staging import StagedFile, StagingWriter, TaskAttempt

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from native_log.records.encode import Part

NOW_MS = 1_700_000_000_000


def records(start: int, end: int) -> pa.RecordBatch:
    numbers = range(start, end)
    return pa.record_batch({"key": [f"k{i}" for i in numbers], "value": [f"v{i}" for i in numbers]})


def stage(
    job: WriteJob,
    rows: Iterable[tuple[int, pa.RecordBatch | Part]],
    *,
    attempt: str = "0",
    topic: str = "t",
    config: dict[str, str] | None = None,
    compression: str = "none",
    batch_size: int = 500,
) -> list[StagedFile]:
    """What one task stages: (partition, records)."""
    encoding = Encoding(compression, None, batch_size)
    writer = StagingWriter(TaskAttempt(job, attempt, encoding, LogConfig.parse(config or {}), NOW_MS))
    is_there = topic in LogDir(job.log_dir, allow_empty=True).topics()
    for partition, part in rows:
        directory = f"{topic}-{partition}" if is_there else job.new_partition_dir(topic, partition)
        given, numbers = (part, None) if isinstance(part, pa.RecordBatch) else part
        writer.append(topic, partition, directory, given, numbers)
    return writer.close()


def write(data: Path, start: int, end: int, *, partitions: int = 2, tasks: int = 2, **how: Any) -> Any:
    """Records start to end - 1, dealt out among tasks and partitions, committed."""
    job, staged = staged_job(data, start, end, partitions=partitions, tasks=tasks, config=how.get("config"))
    return publishing.commit(job, staged, how.pop("config", {}), partitions, now_ms=NOW_MS, **how)


def staged_job(
    data: Path,
    start: int,
    end: int,
    *,
    partitions: int = 2,
    tasks: int = 2,
    config: dict[str, str] | None = None,
    topic: str = "t",
) -> tuple[WriteJob, list[StagedFile]]:
    job = WriteJob.begin(data)
    staged = []
    step = -(-(end - start) // (tasks * partitions))
    parts = [(i % partitions, records(s, min(end, s + step))) for i, s in enumerate(range(start, end, step))]
    for task in range(tasks):
        mine = parts[task * partitions : (task + 1) * partitions]
        staged += stage(job, mine, attempt=str(task), config=config, topic=topic)
    return job, staged


def values(data: Path, topic: str = "t") -> list[str]:
    """All values of a topic, sorted; offsets have to have no gap."""
    logs = LogDir(data, allow_empty=True)
    found = []
    for partition in logs.topics().get(topic, []):
        log = logs.partition(topic, partition)
        table = pa.Table.from_batches(
            log.read(columns=["offset", "value"]), pa.schema([("offset", pa.int64()), ("value", pa.binary())])
        )
        assert table.column("offset").to_pylist() == list(range(log.log_start_offset, log.high_watermark))
        found += [value.decode() for value in table.column("value").to_pylist()]
    return sorted(found)


def expected(*ranges: tuple[int, int]) -> list[str]:
    return sorted(f"v{i}" for start, end in ranges for i in range(start, end))


def tree(data: Path) -> dict[str, str]:
    """Every file of a directory, by its path, with a hash of its content."""
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(data.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
