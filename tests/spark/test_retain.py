"""Retention with Spark has the same result as `native_log.retain`."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import native_log
from kafkalog_spark import retain, retention
from kafkalog_spark.errors import PathNotVisibleError
from native_log.log.sources.directory import DirectorySource
from tests.retention.test_golden import RUNS, arguments, copy, files, run_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kafkalog_spark.cluster import Row

pytestmark = pytest.mark.spark

NEWEST = [before for before in RUNS if "kafka-4.1" in run_id(before)]
DELETE_ALL = {"retention.ms": "0", "file.delete.delay.ms": "1000"}
LATER_MS = 1 << 45


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def log_dir(to: Path, partitions: int = 3) -> Path:
    """Create several partitions of one topic, with the files of a broker."""
    (source,) = [path for path in (NEWEST[0] / "data").iterdir() if path.is_dir()]
    for number in range(partitions):
        shutil.copytree(source, to / f"many-{number}", copy_function=shutil.copy2)
    return to


@pytest.mark.parametrize("before", NEWEST, ids=run_id)
def test_the_result_is_that_of_native_log(spark: SparkSession, tmp_path: Path, before: Path) -> None:
    local, distributed = (copy(before, tmp_path / name) for name in ("local", "distributed"))
    untouched = files(distributed)
    expected = native_log.retain(local, **arguments(before)).to_pylist()
    assert "deleted" in {row["decision"] for row in expected}

    planned = rows(retain(spark, distributed, **arguments(before), dry_run=True))
    assert [row | {"decision": row["decision"].removeprefix("would be ")} for row in planned] == expected
    assert files(distributed) == untouched
    assert rows(retain(spark, distributed, **arguments(before))) == expected
    assert files(distributed) == files(local)


def test_excluded_topics_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    data = log_dir(tmp_path)
    shutil.copytree(data / "many-0", data / "other-0", copy_function=shutil.copy2)
    options: dict[str, Any] = {"config": DELETE_ALL, "now_ms": LATER_MS, "dry_run": True}
    assert {row["topic"] for row in rows(retain(spark, data, **options))} == {"many", "other"}
    assert {row["topic"] for row in rows(retain(spark, data, **options, exclude_topics="many"))} == {"other"}


def test_a_later_run_removes_renamed_files(spark: SparkSession, tmp_path: Path) -> None:
    data = log_dir(tmp_path)
    result = rows(retain(spark, data, config=DELETE_ALL, now_ms=LATER_MS))
    assert {row["decision"] for row in result} == {"deleted"}
    assert len([name for name in files(data) if name.endswith(".log.deleted")]) == len(result)

    retain(spark, data, config=DELETE_ALL, now_ms=LATER_MS)

    assert not [name for name in files(data) if name.endswith(".deleted")]
    assert len([name for name in files(data) if name.endswith(".log")]) == 3


def test_many_partitions_share_few_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local, data = log_dir(tmp_path / "local", 40), log_dir(tmp_path / "data", 40)
    monkeypatch.setattr(retention, "MIN_FILES_PER_TASK", 50)
    tasks: list[int] = []

    def collect_and_count(frame: DataFrame) -> Iterator[Row]:
        tasks.append(frame._jdf.queryExecution().toRdd().getNumPartitions())
        return collect_rows(frame)

    collect_rows = retention.collect_rows
    monkeypatch.setattr(retention, "collect_rows", collect_and_count)

    result = rows(retain(spark, data, config=DELETE_ALL, now_ms=LATER_MS))

    assert 4 <= tasks[0] <= 20
    assert result == native_log.retain(local, config=DELETE_ALL, now_ms=LATER_MS).to_pylist()
    assert files(data) == files(local)


def test_a_partition_that_fails_fails_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = log_dir(tmp_path)
    (data / "many-1" / "leader-epoch-checkpoint").unlink(missing_ok=True)
    (data / "many-1" / "leader-epoch-checkpoint").mkdir()  # cannot be written

    result = rows(retain(spark, data, config=DELETE_ALL, now_ms=LATER_MS))

    assert {row["partition"]: row["decision"] for row in result} == {0: "deleted", 1: "failed", 2: "deleted"}
    assert "directory" in next(row["reason"] for row in result if row["partition"] == 1)


def test_an_interrupted_compaction_is_finished_first(spark: SparkSession, tmp_path: Path) -> None:
    local, data = (log_dir(tmp_path / name, 1) for name in ("local", "data"))
    for directory in (local, data):
        (directory / "many-0" / "00000000000000000000.log.cleaned").write_bytes(b"half a segment")
    before = files(data)
    native_log.retain(local, config=DELETE_ALL, now_ms=LATER_MS)

    retain(spark, data, config=DELETE_ALL, now_ms=LATER_MS, dry_run=True)
    assert files(data) == before
    retain(spark, data, config=DELETE_ALL, now_ms=LATER_MS)

    assert files(data) == files(local)
    assert not [name for name in files(data) if name.endswith(".cleaned")]


def test_what_is_rejected(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = log_dir(tmp_path)
    before = files(data)
    with pytest.raises(native_log.UnknownTopicOrPartitionError, match="no topic other"):
        retain(spark, data, ["other"])
    with pytest.raises(ValueError, match=r"retention\.ms"):
        retain(spark, data, config={"retention.m": "0"})

    def invisible(path: str, *others: Any, **more: Any) -> DirectorySource:
        return DirectorySource(f"/nowhere{path}", *others, **more)

    monkeypatch.setattr(retention, "DirectorySource", invisible)
    with pytest.raises(PathNotVisibleError, match=r"/nowhere.*mount it"):
        retain(spark, data, config=DELETE_ALL)
    assert files(data) == before


def test_without_partitions_there_are_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    data = log_dir(tmp_path, 1)
    (data / "many-0").rename(data / "__consumer_offsets-0")  # an internal topic is skipped unless it is named
    assert rows(retain(spark, data, config=DELETE_ALL)) == []
