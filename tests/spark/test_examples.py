"""The examples run, in the session of the tests."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING

import pytest
from markdown_blocks import ROOT
from pyspark.errors import StreamingQueryException

from native_log import LogDir

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def test_records_of_the_producer_are_read_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    example = runpy.run_path(str(ROOT / "examples" / "produce.py"))
    example["fill"](tmp_path / "logs", 1000)
    summary = example["summarize"](spark, tmp_path / "logs").collect()
    assert [(row.sensor, row.readings, row.celsius) for row in summary] == [
        (f"sensor-{number}", 200, 15 + number + 2.5) for number in range(5)
    ]
    assert max(row["last"] for row in summary).timestamp() == 1_760_000_999
    assert LogDir(tmp_path / "logs").topics() == {"readings": [0, 1, 2]}


def test_fan_out_writes_each_topic_once(spark: SparkSession, tmp_path: Path) -> None:
    """The first run fails after all its writes, before Spark records the micro-batch."""
    example = runpy.run_path(str(ROOT / "examples" / "fan_out.py"))
    paths = [
        str(path) for path in (ROOT / "examples" / "kafka-logs", tmp_path / "logs", tmp_path / "checkpoint")
    ]
    write_batch = example["write_batch"]

    def failing(target: str) -> Any:
        def write(batch: DataFrame, batch_id: int) -> None:
            write_batch(target)(batch, batch_id)
            raise RuntimeError("the driver dies here")

        return write

    for function in (failing, write_batch):
        example["fan_out"].__globals__["write_batch"] = function
        if function is failing:
            with pytest.raises(StreamingQueryException, match="the driver dies here"):
                example["fan_out"](spark, *paths)
        else:
            example["fan_out"](spark, *paths)
        counts = spark.read.format("kafkalog").load(paths[1]).groupBy("topic").count().collect()
        assert {row["topic"]: row["count"] for row in counts} == {
            "all-orders": 600,
            "orders-with-headers": 200,
            "orders-of-0": 284,
            "orders-of-1": 316,
        }
