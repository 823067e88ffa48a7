"""The examples run, in the session of the tests."""

from __future__ import annotations

import io
import json
import runpy
from typing import TYPE_CHECKING

import fastavro
import pytest
from markdown_blocks import ROOT
from pyspark.errors import StreamingQueryException

from native_log import LogDir
from native_log.producer import KafkaLogProducer

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


def test_avro_values_are_decoded_with_the_schemas_in_the_topic_of_a_registry(
    spark: SparkSession, tmp_path: Path
) -> None:
    example = runpy.run_path(str(ROOT / "examples" / "avro_values.py"))
    example["fill"](tmp_path)
    orders = example["read_orders"](spark, tmp_path).orderBy("id").collect()
    assert [tuple(row) for row in orders] == [(id, None if id < 3 else "Graz") for id in range(6)]


def test_schemas_that_refer_to_others(tmp_path: Path) -> None:
    city = {"type": "record", "name": "shop.City", "fields": [{"name": "name", "type": "string"}]}
    pair = {"type": "record", "name": "shop.Pair", "fields": [{"name": "home", "type": "shop.City"}]}
    order = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "pair", "type": "shop.Pair"}, {"name": "city", "type": "shop.City"}],
    }
    references = [
        {"name": f"shop.{name}", "subject": name.lower(), "version": 1} for name in ("City", "Pair")
    ]
    entries = [
        {"subject": "order", "version": 1, "id": 3, "schema": json.dumps(order), "references": references},
        {"subject": "pair", "version": 1, "id": 2, "schema": json.dumps(pair), "references": references[:1]},
        {"subject": "city", "version": 1, "id": 1, "schema": json.dumps(city)},
        {"subject": "other", "version": 1, "id": 4, "schema": "syntax = 'proto3';", "schemaType": "PROTOBUF"},
        {"subject": "other", "version": 1},  # the subject was deleted
    ]
    with KafkaLogProducer(tmp_path) as producer:
        for entry in entries:
            producer.send("_schemas", key=entry["subject"], value=json.dumps(entry))
        producer.send("_schemas", key="city", value=None)
    schemas = runpy.run_path(str(ROOT / "examples" / "avro_values.py"))["read_schemas"](tmp_path)
    assert sorted(schemas) == [1, 2, 3]
    value, order = io.BytesIO(), {"pair": {"home": {"name": "Graz"}}, "city": {"name": "Linz"}}
    fastavro.schemaless_writer(value, schemas[3], order)
    assert fastavro.schemaless_reader(io.BytesIO(value.getvalue()), schemas[3]) == order
