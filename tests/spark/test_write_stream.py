"""The streaming sink: each micro-batch is written exactly once, even if Spark runs it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

import native_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


class Stream:
    """A streaming query from a directory of files to a log directory."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark = spark
        self._files = path / "files"
        self._files.mkdir()
        self.logs = path / "logs"
        self.checkpoint = path / "checkpoint"

    def add(self, start: int, end: int) -> None:
        rows = "\n".join(f'{{"key": "k{i}", "value": "v{i}"}}' for i in range(start, end))
        (self._files / f"{start}.json").write_text(rows)

    def run(self, mode: str = "append", **options: Any) -> None:
        """Process all new files, one in each micro-batch."""
        frame = (
            self._spark.readStream.schema("key string, value string")
            .option("maxFilesPerTrigger", 1)
            .json(str(self._files))
        )
        if mode == "complete":
            frame = frame.groupBy("key").agg({"value": "max"}).toDF("key", "value")
        query = (
            frame.writeStream.format("kafkalog")
            .outputMode(mode)
            .option("checkpointLocation", str(self.checkpoint))
            .options(**{"topic": "t", **options})
            .trigger(availableNow=True)
            .start(str(self.logs))
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def forget_commit(self, batch: int) -> None:
        """Make Spark run a batch again, as after a crash between the sink's commit and Spark's."""
        for name in (str(batch), f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink()

    def values(self) -> list[int]:
        log = native_log.LogDir(self.logs)
        numbers: list[int] = []
        for partition in log.topics()["t"]:
            for batch in log.partition("t", partition).read(columns=["value"]):
                numbers += [int(value.decode().removeprefix("v")) for value in batch.column(0).to_pylist()]
        return sorted(numbers)


def test_several_batches(stream: Stream) -> None:
    stream.add(0, 10)
    stream.add(10, 20)
    stream.run(partitions=2)
    stream.add(20, 30)
    stream.run()
    assert stream.values() == list(range(30))
    log = native_log.LogDir(stream.logs).partition("t", 0)
    assert len(log.segments) == 1
    remaining = [path.name for path in stream.logs.rglob("*kafkalog*")]
    assert len(remaining) == 1 and remaining[0].startswith(".kafkalog-stream-")


def test_a_batch_that_runs_again_is_written_once(stream: Stream) -> None:
    stream.add(0, 10)
    stream.run()
    stream.forget_commit(0)
    stream.run()
    assert stream.values() == list(range(10))
    stream.add(10, 20)
    stream.run()
    stream.forget_commit(1)
    stream.add(20, 30)
    stream.run()
    assert stream.values() == list(range(30))
    assert len(list(stream.logs.rglob("*kafkalog*"))) == 1


def test_each_query_has_its_own_batches(stream: Stream) -> None:
    stream.add(0, 10)
    stream.run()
    stream.checkpoint = stream.checkpoint.with_name("other")
    stream.run()
    assert stream.values() == sorted([*range(10), *range(10)])


def test_output_mode_complete_is_rejected(stream: Stream) -> None:
    stream.add(0, 10)
    with pytest.raises(
        (StreamingQueryException, AnalysisException), match="output mode complete not allowed"
    ):
        stream.run("complete")
    assert not stream.logs.exists()


def test_a_failed_batch_leaves_no_files(stream: Stream) -> None:
    stream.add(0, 10)
    stream.run()
    stream.add(10, 20)
    with pytest.raises(StreamingQueryException, match=r"max\.message\.bytes"):
        stream.run(**{"max.message.bytes": 70})
    assert not [path for path in stream.logs.rglob("*kafkalog*") if "-stream-" not in path.name]
    stream.run()
    assert stream.values() == list(range(20))


def test_a_failed_first_batch_leaves_no_log_directory(stream: Stream) -> None:
    stream.add(0, 10)
    with pytest.raises(StreamingQueryException, match=r"max\.message\.bytes"):
        stream.run(**{"max.message.bytes": 70})
    assert not stream.logs.exists()
    stream.run()
    assert stream.values() == list(range(10))
