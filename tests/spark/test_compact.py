"""Compaction with Spark gives what the local cleaner gives, byte for byte."""

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
from kafkalog_spark.compaction.inspection import staging
from kafkalog_spark.compaction.messages import Settings
from kafkalog_spark.errors import PathNotVisibleError
from native_log.checkpoints.lock import LogDirLock
from native_log.checkpoints.offset_checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    read_offset_checkpoint,
    write_offset_checkpoint,
)
from native_log.log.replacing.interrupted import STAGING_DIRECTORY
from native_log.records import scan
from tests.compaction.support import ALWAYS, files, rounds

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
    """All partitions that brokers of one version were about to clean, in one log directory."""
    to.mkdir()
    first_dirty = {}
    for one in rounds():
        if number in one.before.name and "4.1" in str(one.before) and (not only or one.topic in only):
            data = one.before / "data"
            shutil.copytree(data / f"{one.topic}-0", to / f"{one.topic}-0", copy_function=shutil.copy2)
            saved = read_offset_checkpoint(data / CLEANER_OFFSET_CHECKPOINT).get((one.topic, 0))
            if saved is not None:
                first_dirty[one.topic, 0] = saved
    write_offset_checkpoint(to / CLEANER_OFFSET_CHECKPOINT, first_dirty)
    return to


def topics(data: Path) -> list[str]:
    """Return all topics: those that no cleaner has compacted are compacted only if they are named."""
    return list(native_log.LogDir(data).topics())


def rows(statistics: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in statistics.collect()]


def mtimes(directory: Path) -> dict[str, int]:
    return {str(p.relative_to(directory)): p.stat().st_mtime_ns for p in directory.rglob("*.log")}


@pytest.mark.parametrize("number", ["round1", "round2", "round3"])
@pytest.mark.parametrize("how", [{}, IN_PARTS], ids=["small", "in-parts"])
def test_files_are_the_local_cleaners(
    spark: SparkSession, tmp_path: Path, number: str, how: dict[str, int]
) -> None:
    local, distributed = log_dir(tmp_path / "local", number), log_dir(tmp_path / "distributed", number)
    expected = native_log.compact(local, topics(local), config=CONFIG, now_ms=NOW_MS).to_pylist()

    found = rows(compact(spark, distributed, topics(distributed), config=CONFIG, now_ms=NOW_MS, **how))

    assert found == expected
    assert {row["status"] for row in found} == {"cleaned"}
    assert files(distributed) == files(local)
    assert mtimes(distributed) == mtimes(local)


@pytest.mark.parametrize("ratio", [0, 1], ids=["cleaned", "not-worth-it"])
@pytest.mark.parametrize("how", [{}, IN_PARTS], ids=["small", "in-parts"])
def test_old_segments_go_as_the_local_cleaners_do(
    spark: SparkSession, tmp_path: Path, how: dict[str, int], ratio: int
) -> None:
    local, distributed = log_dir(tmp_path / "local", "round2"), log_dir(tmp_path / "distributed", "round2")
    limits = {"cleanup.policy": "compact,delete", "retention.bytes": 9000, "retention.ms": -1}
    config = CONFIG | limits | {"segment.bytes": 5000, "min.cleanable.dirty.ratio": ratio}
    expected = native_log.compact(local, topics(local), config=config, now_ms=NOW_MS).to_pylist()

    foretold = rows(
        compact(spark, distributed, topics(distributed), config=config, now_ms=NOW_MS, dry_run=True, **how)
    )
    found = rows(compact(spark, distributed, topics(distributed), config=config, now_ms=NOW_MS, **how))

    assert foretold == found == expected
    assert {row["status"] for row in found} == {"skipped" if ratio else "cleaned"}
    assert sum(row["segmentsDeleted"] for row in found) > 5
    assert files(distributed) == files(local)


def test_keys_beyond_a_tasks_memory(spark: SparkSession, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("how", [{}, IN_PARTS], ids=["small", "in-parts"])
def test_a_dry_run_tells_the_same_and_writes_nothing(
    spark: SparkSession, tmp_path: Path, how: dict[str, int]
) -> None:
    data = log_dir(tmp_path / "data", "round2", ("compact-txn", "compact-idem"))
    before = files(data)

    told = rows(compact(spark, data, topics(data), config=CONFIG, now_ms=NOW_MS, dry_run=True, **how))

    assert files(data) == before
    assert told == rows(compact(spark, data, topics(data), config=CONFIG, now_ms=NOW_MS, **how))


@pytest.mark.parametrize("how", [{}, IN_PARTS], ids=["small", "in-parts"])
def test_a_corrupt_batch_stops_its_partition_alone(
    spark: SparkSession, tmp_path: Path, how: dict[str, int]
) -> None:
    data = log_dir(tmp_path / "data", "round1", ("compact-txn", "compact-idem"))
    partition = data / "compact-idem-0"
    path = sorted(partition.glob("*.log"))[1]
    content = bytearray(path.read_bytes())
    content[90] ^= 0xFF
    path.write_bytes(content)
    before = files(partition)

    corrupt, other = rows(compact(spark, data, topics(data), config=CONFIG, now_ms=NOW_MS, **how))

    assert (corrupt["topic"], corrupt["status"]) == ("compact-idem", "failed")
    assert str(path) in corrupt["reason"]
    assert "position 0, offset" in corrupt["reason"]
    assert files(partition) == before
    assert other["status"] == "cleaned"
    assert list(read_offset_checkpoint(data / CLEANER_OFFSET_CHECKPOINT)) == [("compact-txn", 0)]


def test_an_attempt_that_failed_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """As after a task that was tried again, or twice at a time, or a driver that was killed."""
    local, distributed = log_dir(tmp_path / "local", "round1"), log_dir(tmp_path / "distributed", "round1")
    native_log.compact(local, topics(local), config=CONFIG, now_ms=NOW_MS)
    settings = Settings(0, NOW_MS, False)
    for partition in distributed.glob("*-0"):
        (partition / STAGING_DIRECTORY).mkdir()
        attempt = staging(str(partition), settings)
        assert attempt is not None
        (attempt / "00000000000000000000.log.cleaned").write_bytes(b"half a seg")
        with PackWriter(str(partition), 2) as keys:
            assert len(list(keys.bundles([b"half ", b"a pack"]))) == 1
        assert sorted(partition.glob(f"{STAGING_DIRECTORY}/*.keys"))

    compact(spark, distributed, topics(distributed), config=CONFIG, now_ms=NOW_MS, **IN_PARTS)

    assert files(distributed) == files(local)


def test_a_run_that_fails_leaves_nothing(
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
    """They are met when its keys are gathered already: it is begun again."""
    both = ("compact-idem", "compact-txn")
    local, distributed = (log_dir(tmp_path / name, "round1", both) for name in ("local", "distributed"))
    for data in (local, distributed):
        append_log(data / "compact-idem-0", data / "compact-txn-0")
    expected = native_log.compact(local, topics(local), config=CONFIG, now_ms=NOW_MS).to_pylist()

    with caplog.at_level(logging.INFO, "kafkalog_spark"):
        found = rows(
            compact(spark, distributed, topics(distributed), config=CONFIG, now_ms=NOW_MS, **IN_PARTS)
        )

    assert len([said for said in caplog.messages if said.startswith("surveying 1 ")]) == 2
    assert found == expected
    assert {row["status"] for row in found} == {"cleaned"}
    assert files(distributed) == files(local)


def append_log(partition: Path, other: Path) -> None:
    """The segments of the other behind those of `partition`, under the offsets that follow."""
    by = native_log.LogDir(partition.parent).partition(partition.name[:-2], 0).log_end_offset
    for path in sorted(other.glob("*.log")):
        data = bytearray(path.read_bytes())
        batches = scan(bytes(data)).batches
        for position, offset in zip(
            batches.column("position").to_pylist(), batches.column("baseOffset").to_pylist(), strict=True
        ):
            struct.pack_into(">q", data, position, offset + by)
        new = partition / f"{int(path.stem) + by:020}.log"
        new.write_bytes(data)
        shutil.copystat(path, new)


def test_a_directory_in_use_is_refused(spark: SparkSession, tmp_path: Path) -> None:
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
    from kafkalog_spark import partitions
    from kafkalog_spark.compaction import job

    data = log_dir(tmp_path / "data", "round1", ("compact-idem",))

    def elsewhere(path: str, *others: Any) -> partitions.OpenablePartition:
        return partitions.OpenablePartition(f"/nowhere{path}", *others)

    monkeypatch.setattr(job, "OpenablePartition", elsewhere)
    before = files(data)
    with pytest.raises(PathNotVisibleError, match=r"/nowhere.*mount it"):
        compact(spark, data, topics(data))
    assert files(data) == before


def test_only_the_topics_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    data = log_dir(tmp_path / "data", "round1", ("compact-txn", "compact-idem"))
    before = files(data / "compact-txn-0")

    (row,) = rows(compact(spark, data, ["compact-idem"], CONFIG, NOW_MS))

    assert (row["topic"], row["status"]) == ("compact-idem", "cleaned")
    assert files(data / "compact-txn-0") == before
    with pytest.raises(native_log.UnknownTopicOrPartitionError, match="no topic other"):
        compact(spark, data, ["other"])


def test_each_value_is_a_task(spark: SparkSession) -> None:
    def of_one(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        values = [pickle.loads(one.payload) for one in cluster.rows(batches)]
        yield cluster.row_batch(values[0], pickle.dumps(values))

    with tuned_session(spark):
        found = list(collect_rows(task_rows(spark, range(40)).mapInArrow(of_one, DDL)))
    assert sorted((one.number, pickle.loads(one.payload)) for one in found) == [(i, [i]) for i in range(40)]


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
def test_cores_that_are_still_to_come(settings: dict[str, str], expected: int) -> None:
    """At first an application has few executors, and gets as many as its tasks want."""
    context = SimpleNamespace(defaultParallelism=2, getConf=lambda: settings)
    assert cluster.cores(SimpleNamespace(sparkContext=context)) == expected  # type: ignore[arg-type]


def test_the_sessions_settings_stay(spark: SparkSession, tmp_path: Path) -> None:
    before = {name: spark.conf.get(name) for name in SESSION_SETTINGS}
    assert before != SESSION_SETTINGS
    compact(spark, log_dir(tmp_path / "data", "round1", ("compact-idem",)), "compact-idem", dry_run=True)
    with pytest.raises(native_log.UnknownTopicOrPartitionError):
        compact(spark, tmp_path / "data", ["other"], dry_run=True)
    assert {name: spark.conf.get(name) for name in SESSION_SETTINGS} == before
