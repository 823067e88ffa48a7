"""The batch sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from chispa import assert_df_equality
from pyspark.errors import AnalysisException

import native_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def save(df: DataFrame, path: Path, **options: Any) -> None:
    df.write.format("kafkalog").mode("append").options(**{"topic": "t", **options}).save(str(path))


def load(spark: SparkSession, path: Path, *columns: str) -> DataFrame:
    return spark.read.format("kafkalog").option("includeHeaders", "true").load(str(path)).select(*columns)


def test_a_new_log_directory_and_more_of_it(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(0, 1000, 1, 4).selectExpr(
        "cast(concat('k', id) as binary) key", "cast(concat('v', id) as binary) value"
    )
    save(df, tmp_path / "logs", partitions=3)
    save(df, tmp_path / "logs")
    found = load(spark, tmp_path / "logs", "key", "value")
    assert_df_equality(found, df.union(df), ignore_row_order=True, ignore_nullable=True)
    logs = native_log.LogDir(tmp_path / "logs")
    assert logs.topics() == {"t": [0, 1, 2]}
    for partition in range(3):
        log = logs.partition("t", partition)
        offsets = [o for batch in log.read(columns=["offset"]) for o in batch.column(0).to_pylist()]
        assert offsets == list(range(log.log_end_offset))


def test_overwrite_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="Overwrite not allowed"):
        spark.range(1).selectExpr("'v' value").write.format("kafkalog").mode("overwrite").option(
            "topic", "t"
        ).save(str(tmp_path / "logs"))
    assert not (tmp_path / "logs").exists()
