"""Each recorded case of Spark's kafka sink: the same rows at the same places, or refused as well."""

from __future__ import annotations

import base64
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyspark
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

BY_SPARK = "Spark itself refuses it for a data source in Python"
MEANT = {
    "sink-mode-001": f"no save mode: {BY_SPARK}",
    "sink-mode-005": f"save mode error: {BY_SPARK}",
    "sink-mode-014": f"partitionBy: {BY_SPARK}",
    "sink-stream-006": f"output mode update: {BY_SPARK}",
    "sink-stream-005": "output mode complete is refused: a log cannot be replaced with each batch",
    "sink-topic-018": "a topic that is not there is made",
    "sink-option-021": "bootstrap servers are ignored",
}
"""Where kafkalog means to differ."""
if not pyspark.__version__.startswith("4.0."):
    MEANT["sink-missing-005"] = f"two columns of one name: {BY_SPARK}"


@dataclass
class Outcome:
    """What a case came to: an error, and what was written by then."""

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

    spark.read.format("kafkalog").load(str(empty))  # Spark looks for data sources once, in one thread

    def prepare() -> None:
        spark.createDataFrame([(1,)], "id int")  # in a thread without an active session Spark finds none

    def run(case: dict[str, Any]) -> Outcome:
        path = root / case["id"]
        shutil.copytree(empty, path / "logs")
        try:
            (_run_stream if case.get("stream") else _save)(spark, case, path)
        except Exception as error:
            return Outcome(f"{type(error).__name__}: {error}", _written(path / "logs"))
        return Outcome(None, _written(path / "logs"))

    with ThreadPoolExecutor(6, initializer=prepare) as pool:
        return dict(zip((case["id"] for case in CASES), pool.map(run, CASES), strict=True))


def _save(spark: SparkSession, case: dict[str, Any], path: Path) -> None:
    writer = spark.sql(_named(case["sql"])).write.format("kafkalog").options(**_options(case))
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
        spark.sql(_named(case["sql"]))
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
    got = outcomes[case["id"]]
    if case["id"] in MEANT:
        assert (got.error is None) == ("error" in case)
        return
    assert (got.error is None) == ("error" not in case), got.error
    if got.error is not None:
        # Here rows before the one that fails are not written either.
        assert got.written == []
        return
    expected = [_row(*row) for row in case["written"]]
    if _is_placed(case):
        assert sorted(got.written) == sorted(expected)
    assert sorted(row[2:] for row in got.written) == sorted(row[2:] for row in expected)


def test_the_meant_differences_are_cases() -> None:
    assert set(MEANT) <= {case["id"] for case in CASES}


def _is_placed(case: dict[str, Any]) -> bool:
    """Not by chance, as records without a key that choose no partition."""
    return all(key is not None for _, _, key, _, _ in case["written"])


def _row(topic: str, partition: int, key: Any, value: Any, headers: Any) -> tuple[Any, ...]:
    """As `_written` has it, where None can be sorted."""
    return topic.strip("{}"), partition, key or str(key), value or str(value), str(headers)


def _named(sql: str) -> str:
    return sql.replace("{a}", "a").replace("{b}", "b")


def _options(case: dict[str, Any]) -> dict[str, str]:
    return {"useTimestampColumn": "false"} | {name: _named(value) for name, value in case["options"].items()}


def _written(path: Path) -> list[tuple[Any, ...]]:
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
