"""The conversion of rows to Arrow for Spark 4.0, whose streaming writers receive rows."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row
from pyspark.sql.datasource import WriterCommitMessage

from kafkalog_spark.write import arrow_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark


@pytest.fixture
def schema(spark: SparkSession) -> StructType:
    columns = (
        "key string, value binary, partition int, timestamp timestamp, "
        "headers array<struct<key:string,value:binary>>, other decimal(9,2), "
        "attributes map<string,struct<seen:timestamp>>"
    )
    return spark.createDataFrame([], columns).schema


def test_rows_are_converted_to_batches(schema: StructType) -> None:
    time = datetime(2024, 5, 1, 12)  # local time without a zone, as in Spark's rows
    headers = [Row(key="h", value=b"x"), Row(key="i", value=None)]
    rows = [("k", bytearray(b"v"), 1, time, headers, Decimal(1), {"a": Row(seen=time)}), (None,) * 7] * 6000
    first, second = arrow_rows.rows_to_arrow(iter(rows), schema)  # type: ignore[arg-type]
    assert (first.num_rows, second.num_rows) == (10_000, 2_000)
    assert first.slice(0, 2).to_pylist() == [
        {
            "key": "k",
            "value": b"v",
            "partition": 1,
            "timestamp": time.astimezone(UTC),
            "headers": [{"key": "h", "value": b"x"}, {"key": "i", "value": None}],
            "other": None,
            "attributes": None,
        },
        dict.fromkeys(schema.fieldNames()),
    ]


def test_a_writer_that_receives_rows(schema: StructType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_rows, "HAS_ARROW_WRITER", False)

    class Writer(arrow_rows.StreamArrowWriter):
        def write_arrow(self, batches: Any) -> WriterCommitMessage:
            self.rows = sum(batch.num_rows for batch in batches)
            return WriterCommitMessage()

    writer = Writer(schema)
    writer.write(iter([("k", b"v", 1, None, [], None, None)] * 3))
    assert writer.rows == 3
