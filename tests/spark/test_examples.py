"""The examples run, in the session of the tests."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING

import pytest
from markdown_blocks import ROOT

from native_log import LogDir

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

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
