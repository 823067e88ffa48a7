"""Stage and commit records as several tasks of a job do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from native_log import LogDir
from native_log.config import LogConfig
from native_log.log.writing.record_encoding import RecordEncoder
from native_log.publish import commit as publishing
from native_log.publish.job import WriteJob
from native_log.publish.staging import StagedFile, StagingWriter, TaskAttempt

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from native_log.publish.partitions import Published
    from native_log.records.encoding import Part

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
    """Stage `rows`, given as (partition, records), as one attempt at a task does."""
    encoding = RecordEncoder(compression, None, batch_size)
    writer = StagingWriter(TaskAttempt(job, attempt, encoding, LogConfig.parse(config or {}), NOW_MS))
    exists = topic in LogDir(job.log_dir, allow_empty=True).topics()
    for partition, part in rows:
        directory = f"{topic}-{partition}" if exists else job.new_partition_dir(topic, partition)
        batch, indices = (part, None) if isinstance(part, pa.RecordBatch) else part
        writer.append(topic, partition, directory, batch, indices)
    return writer.close()


def write(
    data: Path,
    start: int,
    end: int,
    *,
    partitions: int = 2,
    tasks: int = 2,
    config: dict[str, str] | None = None,
    version: tuple[str, int] | None = None,
) -> list[Published]:
    """Commit records `start` to `end` (exclusive), distributed over tasks and partitions."""
    job, staged = staged_job(data, start, end, partitions=partitions, tasks=tasks, config=config)
    return publishing.commit(job, staged, config or {}, partitions, version=version, now_ms=NOW_MS)


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
    """Begin a job and stage records as `write` does, without the commit."""
    job = WriteJob.begin(data)
    staged = []
    step = -(-(end - start) // (tasks * partitions))
    parts = [(i % partitions, records(s, min(end, s + step))) for i, s in enumerate(range(start, end, step))]
    for task in range(tasks):
        rows = parts[task * partitions : (task + 1) * partitions]
        staged += stage(job, rows, attempt=str(task), config=config, topic=topic)
    return job, staged


def values(data: Path, topic: str = "t") -> list[str]:
    """Return all values of a topic, sorted. Check that its offsets have no gaps."""
    logs = LogDir(data, allow_empty=True)
    result: list[str] = []
    for partition in logs.topics().get(topic, []):
        log = logs.partition(topic, partition)
        table = pa.Table.from_batches(
            log.read(columns=["offset", "value"]), pa.schema([("offset", pa.int64()), ("value", pa.binary())])
        )
        assert table.column("offset").to_pylist() == list(range(log.log_start_offset, log.high_watermark))
        result += [value.decode() for value in table.column("value").to_pylist()]
    return sorted(result)


def expected(*ranges: tuple[int, int]) -> list[str]:
    return sorted(f"v{i}" for start, end in ranges for i in range(start, end))
