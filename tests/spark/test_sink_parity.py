"""Recorded cases of Spark's kafka sink: kafkalog writes the same rows, or fails as well."""

from __future__ import annotations

import base64
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import native_log

from .parity import PARITY

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CASES = [
    json.loads(line)
    for name in ("sink.jsonl", "sink-more.jsonl")
    for line in (PARITY / name).read_text(encoding="utf-8").split("\n")
    if line
]

BY_SPARK = "Spark rejects it for Python data sources"
INTENDED = {
    "sink-mode-001": f"no save mode: {BY_SPARK}",
    "sink-mode-005": f"save mode error: {BY_SPARK}",
    "sink-mode-014": f"partitionBy: {BY_SPARK}",
    "sink-stream-006": f"output mode update: {BY_SPARK}",
    "sink-stream-005": "output mode complete is rejected: a log cannot be replaced with each batch",
    "sink-topic-018": "a missing topic is created",
    "sink-option-021": "bootstrap servers are ignored",
    "sink-missing-005": "two columns value are an error",
    "sink-more-topic-015": "TOPIC is the column topic",
    "sink-more-topic-016": "Topic and topic are two columns topic",
    "sink-more-columns-001": "VALUE and value are two columns value",
    "sink-more-columns-002": "VALUE is the column value",
    "sink-more-columns-004": "Key and key are two columns key",
    "sink-more-stream-003": "KEY and VALUE are the columns key and value",
    "sink-more-stream-004": "Partition is the column partition, which must be an int",
}
"""Cases in which one sink fails and the other one does not, with the reason."""
WITH_KEYS = {"sink-missing-004": "KEY is the column key"}
"""Cases in which records have keys that Spark's sink drops, with the reason."""


@dataclass
class Outcome:
    """The result of a case.

    Attributes:
        error: the error, if there was one.
        written: all rows that are in the log directory afterwards, as `_row` returns them.
    """

    error: str | None
    written: list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def outcomes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    rows = spark.range(0, 12, 1, 1).selectExpr(
        "cast(concat('key-', id % 5) as binary) key",
        "cast(concat('v', id) as binary) value",
        "id offset",
        "array(named_struct('key', 'h', 'value', cast(cast(id as string) as binary))) headers",
    )
    root = tmp_path_factory.mktemp("sink")
    rows.write.parquet(str(root / "stream"))
    spark.readStream.schema(rows.schema).parquet(str(root / "stream")).createOrReplaceTempView("stream")
    empty = root / "empty"
    with native_log.LogDir.create(empty) as logs:
        for topic in ("a", "b"):
            logs.create_topic(topic, partitions=4)

    spark.read.format("kafkalog").load(str(empty))  # Spark finds data sources once, and not in parallel

    def prepare() -> None:
        spark.createDataFrame([(1,)], "id int")  # makes the session active in this thread

    def run(case: dict[str, Any]) -> Outcome:
        path = root / case["id"]
        shutil.copytree(empty, path / "logs")
        try:
            (_run_stream if case.get("stream") else _save)(spark, case, path)
        except Exception as error:
            return Outcome(f"{type(error).__name__}: {error}", _read_rows(path / "logs"))
        return Outcome(None, _read_rows(path / "logs"))

    with ThreadPoolExecutor(3, initializer=prepare) as pool:
        return dict(zip((case["id"] for case in CASES), pool.map(run, CASES), strict=True))


def _save(spark: SparkSession, case: dict[str, Any], path: Path) -> None:
    writer = spark.sql(_replace_topics(case["sql"])).write.format("kafkalog").options(**_options(case))
    if case["saveMode"] is not None:
        writer = writer.mode(case["saveMode"])
    if "partitionBy" in case:
        writer = writer.partitionBy(*case["partitionBy"])
    if "bucketBy" in case:
        count, column = case["bucketBy"]
        writer = writer.bucketBy(count, column)
    writer.save(str(path / "logs"))


def _run_stream(spark: SparkSession, case: dict[str, Any], path: Path) -> None:
    query = (
        spark.sql(_replace_topics(case["sql"]))
        .writeStream.format("kafkalog")
        .outputMode(case["saveMode"])
        .options(**_options(case))
        .option("checkpointLocation", str(path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(path / "logs"))
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(outcomes: dict[str, Outcome], case: dict[str, Any]) -> None:
    outcome = outcomes[case["id"]]
    if case["id"] in INTENDED:
        assert (outcome.error is None) == ("error" in case)
        return
    assert (outcome.error is None) == ("error" not in case), outcome.error
    if outcome.error is not None:
        # Unlike Spark's sink, kafkalog does not write the rows before the failing one either.
        assert outcome.written == []
        return
    expected = [_row(*row) for row in case["written"]]
    if case["id"] in WITH_KEYS:
        assert {row[2] for row in expected} == {"None"}
        assert "None" not in {row[2] for row in outcome.written}
        return
    if _has_fixed_partitions(case):
        assert sorted(outcome.written) == sorted(expected)
    assert sorted(row[2:] for row in outcome.written) == sorted(row[2:] for row in expected)


def test_intended_differences_name_cases() -> None:
    assert {*INTENDED, *WITH_KEYS} <= {case["id"] for case in CASES}


def _has_fixed_partitions(case: dict[str, Any]) -> bool:
    """Return whether no record is assigned to a random partition for lack of a key."""
    return all(key is not None for _, _, key, _, _ in case["written"])


def _row(topic: str, partition: int, key: Any, value: Any, headers: Any) -> tuple[Any, ...]:
    """Return a row in which None is replaced, so that rows can be sorted."""
    return topic.strip("{}"), partition, key or str(key), value or str(value), str(headers)


def _replace_topics(sql: str) -> str:
    return sql.replace("{a}", "a").replace("{b}", "b")


def _options(case: dict[str, Any]) -> dict[str, str]:
    options = {name: _replace_topics(value) for name, value in case["options"].items()}
    return {"useTimestampColumn": "false", **options}


def _read_rows(path: Path) -> list[tuple[Any, ...]]:
    def text(value: bytes | None) -> str | None:
        return None if value is None else base64.b64encode(value).decode()

    logs = native_log.LogDir(path)
    return [
        _row(
            topic,
            partition,
            text(row["key"]),
            text(row["value"]),
            row["headers"] and [[header["key"], text(header["value"])] for header in row["headers"]],
        )
        for topic, partitions in logs.topics().items()
        for partition in partitions
        for batch in logs.partition(topic, partition).read(columns=["key", "value", "headers"])
        for row in batch.to_pylist()
    ]
