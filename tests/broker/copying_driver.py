"""A Spark driver that copies log directories with a streaming query.

    python -m tests.broker.copying_driver until-killed|until-complete COPY

COPY is a `StreamCopy` in JSON. If the query fails, the error is printed, in one line, and the query starts
again from its checkpoint.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from tests.class_sharing import OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

MAX_FAILURES = 20
"""How often the query may fail while the driver works until the copy is complete."""


@dataclass(frozen=True)
class StreamCopy:
    """A query that copies log directories to a topic of another one.

    Attributes:
        options: the options of the source.
        sources: the log directories to read.
        target, topic: the log directory and the topic to write.
        checkpoint: the location of the checkpoint.
    """

    options: dict[str, Any]
    sources: list[str]
    target: str
    topic: str
    checkpoint: str

    def start(self, spark: SparkSession, trigger: dict[str, Any]) -> StreamingQuery:
        source = spark.readStream.format("kafkalog").option("paths", json.dumps(self.sources))
        rows = source.options(**self.options).load()
        origin = "concat(topic, '-', partition, '@', offset, ':')"
        rows = rows.selectExpr("key", f"concat(cast({origin} as binary), coalesce(value, x'')) value")
        # Other tasks write the rows than those that read them.
        writer = (
            rows.repartition(2).writeStream.format("kafkalog").option("checkpointLocation", self.checkpoint)
        )
        settings = {"topic": self.topic, "partitions": 2, "segment.bytes": 1 << 20}
        return writer.options(**settings).trigger(**trigger).start(self.target)


def command(copy: StreamCopy, *, complete: bool) -> list[str]:
    """Return the command that runs a driver."""
    mode = "until-complete" if complete else "until-killed"
    return [sys.executable, "-m", "tests.broker.copying_driver", mode, json.dumps(asdict(copy))]


def main() -> None:
    mode, copy = sys.argv[1], StreamCopy(**json.loads(sys.argv[2]))
    is_complete = mode == "until-complete"
    trigger: dict[str, Any] = {"availableNow": True} if is_complete else {"processingTime": "0 seconds"}
    spark = _session()
    failures = 0
    while True:
        query = copy.start(spark, trigger)
        try:
            query.awaitTermination()
            break
        except StreamingQueryException as error:
            failures += 1
            print(f"failed: {_reason(str(error))}", flush=True)
            if is_complete and failures > MAX_FAILURES:
                raise
    spark.stop()


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(OPTIONS),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
        # Otherwise Spark 4.2 rejects a checkpoint if the query is killed while its first offsets are written.
        "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
        "spark.sql.warehouse.dir": str(Path.cwd() / "warehouse"),
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2,8]").appName("copies")  # a task may fail 7 times
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _reason(error: str) -> str:
    """Return the line of an error that names the first cause."""
    causes = re.findall(r"^[\w.]+(?:Error|Exception)\b: .*", error, re.MULTILINE)
    return causes[-1] if causes else error.partition("\n")[0]


if __name__ == "__main__":
    main()
