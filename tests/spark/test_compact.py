"""Compaction with Spark has the same result as `native_log.compact`, byte for byte."""

from __future__ import annotations

import logging
import pickle
import shutil
import struct
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PythonException

import native_log
from kafkalog_spark import cluster, compact
from kafkalog_spark.cluster import DDL, SESSION_SETTINGS, collect_rows, task_rows, tuned_session
from kafkalog_spark.compaction import large
from kafkalog_spark.compaction.exchange import PackWriter
from kafkalog_spark.compaction.inspection import create_attempt_directory
from kafkalog_spark.compaction.messages import RunSettings
from kafkalog_spark.errors import PathNotVisibleError
from native_log.checkpoints.lock import LogDirLock
from native_log.checkpoints.offset_checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    read_offset_checkpoint,
    write_offset_checkpoint,
)
from native_log.log.replacing.interrupted import STAGING_DIRECTORY
from native_log.records import scan
from tests.builders.compaction_rounds import ALWAYS, broker_rounds
from tests.builders.ownership import OWNER, as_root, give, owners
from tests.contents import files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

CONFIG = {**ALWAYS, "segment.bytes": "40000", "delete.retention.ms": "1000"}
NOW_MS = 1795219001123
IN_PARTS = {"small_bytes": 0, "split_bytes": 3000}

pytestmark = pytest.mark.spark


def log_dir(to: Path, number: str, only: tuple[str, ...] = ()) -> Path:
    """Create a log directory with all partitions that Kafka 4.1 compacted in this round, before the round."""
    to.mkdir()
    first_dirty = {}
    for case in broker_rounds():
        if number in case.before.name and case.kafka == "kafka-4.1" and (not only or case.topic in only):
            data = case.before / "data"
            shutil.copytree(data / f"{case.topic}-0", to / f"{case.topic}-0", copy_function=shutil.copy2)
            saved = read_offset_checkpoint(data / CLEANER_OFFSET_CHECKPOINT).get((case.topic, 0))
            if saved is not None:
                first_dirty[case.topic, 0] = saved
    write_offset_checkpoint(to / CLEANER_OFFSET_CHECKPOINT, first_dirty)
    return to


def topics(data: Path) -> list[str]:
    """Return all topics. A topic that no broker has compacted must be named to be compacted."""
    return list(native_log.LogDir(data).topics())


def rows(statistics: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in statistics.collect()]


def mtimes(directory: Path) -> dict[str, int]:
    return {str(p.relative_to(directory)): p.stat().st_mtime_ns for p in directory.rglob("*.log")}


@pytest.mark.parametrize("number", ["round1", "round2", "round3"])
@pytest.mark.parametrize("options", [{}, IN_PARTS], ids=["small", "in-parts"])
def test_the_files_are_those_of_native_log(
    spark: SparkSession, tmp_path: Path, number: str, options: dict[str, int]
) -> None:
    local, distributed = log_dir(tmp_path / "local", number), log_dir(tmp_path / "distributed", number)
    expected = native_log.compact(local, topics(local), config=CONFIG, now_ms=NOW_MS).to_pylist()

    result = rows(compact(spark, distributed, topics(distributed), config=CONFIG, now_ms=NOW_MS, **options))

    assert result == expected
    assert {row["status"] for row in result} == {"cleaned"}
    assert files(distributed) == files(local)
    assert mtimes(distributed) == mtimes(local)


@as_root
def test_new_files_belong_to_the_owner_of_the_directory(spark: SparkSession, tmp_path: Path) -> None:
    give(log_dir(tmp_path / "logs", "round2"))
    before = files(tmp_path / "logs")
    compact(spark, tmp_path / "logs", topics(tmp_path / "logs"), config=CONFIG, now_ms=NOW_MS, **IN_PARTS)
    assert files(tmp_path / "logs") != before
    assert owners(tmp_path / "logs") == {(OWNER, OWNER)}


@pytest.mark.parametrize("ratio", [0, 1], ids=["compacted", "not-worth-it"])
@pytest.mark.parametrize("options", [{}, IN_PARTS], ids=["small", "in-parts"])
def test_old_segments_are_deleted_as_by_native_log(
    spark: SparkSession, tmp_path: Path, options: dict[str, int], ratio: int
) -> None:
    local, distributed = log_dir(tmp_path / "local", "round2"), log_dir(tmp_path / "distributed", "round2")
    limits = {"cleanup.policy": "compact,delete", "retention.bytes": 9000, "retention.ms": -1}
    config = CONFIG | limits | {"segment.bytes": 5000, "min.cleanable.dirty.ratio": ratio}
    expected = native_log.compact(local, topics(local), config=config, now_ms=NOW_MS).to_pylist()

    planned = rows(
        compact(
            spark, distributed, topics(distributed), config=config, now_ms=NOW_MS, dry_run=True, **options
        )
    )
    result = rows(compact(spark, distributed, topics(distributed), config=config, now_ms=NOW_MS, **options))

    assert result == expected
    outcome = "skipped" if ratio else "cleaned"
    assert {row["status"] for row in result} == {outcome}
    assert [row | {"status": outcome} for row in planned] == expected
    assert {row["status"] for row in planned} == {"skipped" if ratio else "would be cleaned"}
    assert sum(row["segmentsDeleted"] for row in result) > 5
    assert files(distributed) == files(local)


def test_keys_that_exceed_the_memory_of_a_task(spark: SparkSession, tmp_path: Path) -> None:
    local, distributed = log_dir(tmp_path / "local", "round2"), log_dir(tmp_path / "distributed", "round2")
    native_log.compact(local, topics(local), config=CONFIG, now_ms=NOW_MS)

    compact(
        spark,
        distributed,
        topics(distributed),
        config={**CONFIG, "log.cleaner.dedupe.buffer.size": "1024"},
        now_ms=NOW_MS,
        **IN_PARTS,
    )

    assert files(distributed) == files(local)


@pytest.mark.parametrize("options", [{}, IN_PARTS], ids=["small", "in-parts"])
def test_a_dry_run_returns_the_same_and_writes_nothing(
    spark: SparkSession, tmp_path: Path, options: dict[str, int]
) -> None:
    data = log_dir(tmp_path / "data", "round2", ("compact-txn", "compact-idem"))
    before = files(data)

    planned = rows(compact(spark, data, topics(data), config=CONFIG, now_ms=NOW_MS, dry_run=True, **options))

    assert files(data) == before
    done = rows(compact(spark, data, topics(data), config=CONFIG, now_ms=NOW_MS, **options))
    assert {row["status"] for row in done} == {"cleaned"}
    assert planned == [row | {"status": "would be cleaned"} for row in done]


@pytest.mark.parametrize("options", [{}, IN_PARTS], ids=["small", "in-parts"])
def test_a_corrupt_batch_fails_only_its_partition(
    spark: SparkSession, tmp_path: Path, options: dict[str, int]
) -> None:
    data = log_dir(tmp_path / "data", "round1", ("compact-txn", "compact-idem"))
    partition = data / "compact-idem-0"
    path = sorted(partition.glob("*.log"))[1]
    content = bytearray(path.read_bytes())
    content[90] ^= 0xFF
    path.write_bytes(content)
    before = files(partition)

    corrupt, other = rows(compact(spark, data, topics(data), config=CONFIG, now_ms=NOW_MS, **options))

    assert (corrupt["topic"], corrupt["status"]) == ("compact-idem", "failed")
    assert str(path) in corrupt["reason"]
    assert "position 0, offset" in corrupt["reason"]
    assert files(partition) == before
    assert other["status"] == "cleaned"
    assert list(read_offset_checkpoint(data / CLEANER_OFFSET_CHECKPOINT)) == [("compact-txn", 0)]


def test_files_of_failed_attempts_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    """Such files remain after a retried task, speculative execution, or a killed driver."""
    local, distributed = log_dir(tmp_path / "local", "round1"), log_dir(tmp_path / "distributed", "round1")
    native_log.compact(local, topics(local), config=CONFIG, now_ms=NOW_MS)
    settings = RunSettings(0, NOW_MS, False)
    for partition in distributed.glob("*-0"):
        (partition / STAGING_DIRECTORY).mkdir()
        attempt = create_attempt_directory(str(partition), settings)
        assert attempt is not None
        (attempt / "00000000000000000000.log.cleaned").write_bytes(b"half a seg")
        with PackWriter(str(partition), 2) as keys:
            assert len(list(keys.write([b"half ", b"a pack"]))) == 1
        assert sorted(partition.glob(f"{STAGING_DIRECTORY}/*.keys"))

    compact(spark, distributed, topics(distributed), config=CONFIG, now_ms=NOW_MS, **IN_PARTS)

    assert files(distributed) == files(local)


def test_a_failed_run_leaves_no_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("this task fails")

    data = log_dir(tmp_path / "data", "round1", ("compact-idem",))
    before = files(data)
    monkeypatch.setattr(large, "rewrite_groups", fail)
    with pytest.raises(PythonException, match="this task fails"):
        compact(spark, data, topics(data), config=CONFIG, now_ms=NOW_MS, **IN_PARTS)
    assert files(data) == before
    assert not list(data.glob(f"*/{STAGING_DIRECTORY}"))


def test_transactions_late_in_a_log(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are discovered while its keys are collected, and the log is compacted again from the start."""
    both = ("compact-idem", "compact-txn")
    local, distributed = (log_dir(tmp_path / name, "round1", both) for name in ("local", "distributed"))
    for data in (local, distributed):
        append_log(data / "compact-idem-0", data / "compact-txn-0")
    expected = native_log.compact(local, topics(local), config=CONFIG, now_ms=NOW_MS).to_pylist()

    with caplog.at_level(logging.INFO, "kafkalog_spark"):
        result = rows(
            compact(spark, distributed, topics(distributed), config=CONFIG, now_ms=NOW_MS, **IN_PARTS)
        )

    assert len([message for message in caplog.messages if message.startswith("surveying 1 ")]) == 2
    assert result == expected
    assert {row["status"] for row in result} == {"cleaned"}
    assert files(distributed) == files(local)


def append_log(partition: Path, other: Path) -> None:
    """Append the segments of `other` to those of `partition`, with the offsets that follow."""
    shift = native_log.LogDir(partition.parent).partition(partition.name[:-2], 0).log_end_offset
    for path in sorted(other.glob("*.log")):
        data = bytearray(path.read_bytes())
        batches = scan(bytes(data)).batches
        for position, offset in zip(
            batches.column("position").to_pylist(), batches.column("baseOffset").to_pylist(), strict=True
        ):
            struct.pack_into(">q", data, position, offset + shift)
        new = partition / f"{int(path.stem) + shift:020}.log"
        new.write_bytes(data)
        shutil.copystat(path, new)


def test_a_directory_in_use_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    data = log_dir(tmp_path / "data", "round1", ("compact-idem",))
    hold = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); "
        "print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(data / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        before = files(data)
        with pytest.raises(native_log.LogDirInUseError, match=str(holder.pid)):
            compact(spark, data, topics(data))
        assert files(data) == before
        holder.communicate(b"\n")
    with LogDirLock(data):
        pass


def test_a_path_that_executors_do_not_see(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkalog_spark.compaction import job
    from native_log.log.sources.directory import DirectorySource

    data = log_dir(tmp_path / "data", "round1", ("compact-idem",))

    def invisible(path: str, *others: Any, **more: Any) -> DirectorySource:
        return DirectorySource(f"/nowhere{path}", *others, **more)

    monkeypatch.setattr(job, "DirectorySource", invisible)
    before = files(data)
    with pytest.raises(PathNotVisibleError, match=r"/nowhere.*mount it"):
        compact(spark, data, topics(data))
    assert files(data) == before


def test_only_named_topics_are_compacted(spark: SparkSession, tmp_path: Path) -> None:
    data = log_dir(tmp_path / "data", "round1", ("compact-txn", "compact-idem"))
    before = files(data / "compact-txn-0")

    (row,) = rows(compact(spark, data, ["compact-idem"], CONFIG, NOW_MS))

    assert (row["topic"], row["status"]) == ("compact-idem", "cleaned")
    assert files(data / "compact-txn-0") == before
    with pytest.raises(native_log.UnknownTopicOrPartitionError, match="no topic other"):
        compact(spark, data, ["other"])


def test_each_value_is_a_task(spark: SparkSession) -> None:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        values = [pickle.loads(row.payload) for row in cluster.rows(batches)]
        yield cluster.row_batch(values[0], pickle.dumps(values))

    with tuned_session(spark):
        result = list(collect_rows(task_rows(spark, range(40)).mapInArrow(work, DDL)))
    assert sorted((row.number, pickle.loads(row.payload)) for row in result) == [(i, [i]) for i in range(40)]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 2),
        ({"spark.dynamicAllocation.enabled": "true"}, 2),
        ({"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "50"}, 50),
        (
            {
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.maxExecutors": "50",
                "spark.executor.cores": "4",
            },
            200,
        ),
    ],
)
def test_cores_with_dynamic_allocation(settings: dict[str, str], expected: int) -> None:
    """An application starts with few executors, and gets more for its tasks."""
    context = SimpleNamespace(defaultParallelism=2, getConf=lambda: settings)
    assert cluster.cores(SimpleNamespace(sparkContext=context)) == expected  # type: ignore[arg-type]


def test_the_settings_of_the_session_are_restored(spark: SparkSession, tmp_path: Path) -> None:
    before = {name: spark.conf.get(name) for name in SESSION_SETTINGS}
    assert before != SESSION_SETTINGS
    compact(spark, log_dir(tmp_path / "data", "round1", ("compact-idem",)), "compact-idem", dry_run=True)
    with pytest.raises(native_log.UnknownTopicOrPartitionError):
        compact(spark, tmp_path / "data", ["other"], dry_run=True)
    assert {name: spark.conf.get(name) for name in SESSION_SETTINGS} == before
