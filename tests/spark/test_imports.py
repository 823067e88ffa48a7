"""What a query waits for: Spark starts a Python process to know the schema, and another one to plan."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from native_log.records import IMPLEMENTATION
from tests.conftest import golden_partitions

SLOW = {"native_log.records.reference", "pyarrow.compute", "crc32c", "native_log.log.writing.append"}
PLAN = """
import json, sys
from kafkalog_spark.datasource import KafkaLogDataSource
from pyspark.sql.types import LongType, StructField, StructType
source = KafkaLogDataSource({"path": sys.argv[1], "columns": "offset"})
assert source.schema() == "`offset` bigint"
reader = source.reader(StructType([StructField("offset", LongType())]))
rows = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
print(json.dumps([rows, list(sys.modules)]))
"""


@pytest.mark.skipif(IMPLEMENTATION != "kernel", reason="the reference implementation is slow to import")
def test_a_plain_read_imports_nothing_slow() -> None:
    partition = next(p for p in golden_partitions() if p.fixture == "kafka-4.1/txn")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PLAN, str(partition.path)],
        check=True,
        capture_output=True,
        text=True,
    )
    rows, modules = json.loads(run.stdout.splitlines()[-1])
    assert rows > 0
    assert not SLOW.intersection(modules)
