"""A query imports no slow modules: Spark starts a Python process for the schema and another one to plan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog_spark
from native_log.records import IMPLEMENTATION
from tests.builders.golden import golden_partitions

SLOW = {"native_log.records.reference", "pyarrow.compute", "crc32c", "native_log.log.writing.appender"}
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
        [sys.executable, "-c", PLAN, str(partition.path)],
        check=True,
        capture_output=True,
        text=True,
    )
    rows, modules = json.loads(run.stdout.splitlines()[-1])
    assert rows > 0
    assert not SLOW.intersection(modules)


@pytest.mark.parametrize("job", ["compact", "retain"])
def test_the_help_of_a_job_needs_no_kernel(job: str) -> None:
    program = Path(kafkalog_spark.__file__).parent / "jobs" / f"{job}.py"
    run = subprocess.run(
        [sys.executable, str(program), "--help"],
        env={**os.environ, "PYTHONPATH": str(program.parents[2]), "PYTHONVERBOSE": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stdout.startswith(f"usage: {job}")
    assert "import 'native_log.errors'" in run.stderr
    assert "import 'native_log.records'" not in run.stderr
