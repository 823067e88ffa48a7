"""The option `replicas`: several copies of a partition are read as one log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.read import parse_read_options
from tests.builders.batches import ABORT, T0, TRANSACTIONAL, Rec, marker, v2
from tests.builders.copies import batches, damage, rows_of, write_copy
from tests.builders.logs import write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def load(spark: SparkSession, paths: list[Path], **options: Any) -> DataFrame:
    return spark.read.format("kafkalog").options(replicas="merge", **options).load([str(p) for p in paths])


@pytest.fixture
def copies(tmp_path: Path) -> list[Path]:
    """Write copies that diverge, begin at different offsets, and have different damage."""
    shared = batches(0, 40)
    paths = [tmp_path / name for name in ("leader", "diverged", "snapshot")]
    whole = [*shared, *batches(40, 50, epoch=1)]
    leader = write_copy(paths[0], whole[10:], rolls=[60, 90], high_watermark=140)
    diverged = write_copy(paths[1], [*shared, *batches(40, 55, tag="lost")][5:], rolls=[66])
    write_copy(paths[2], shared[:20])
    damage(leader, whole[20])
    damage(leader, whole[29], at=8)
    damage(diverged, whole[33])
    return paths


def test_rows_are_those_of_one_whole_log(spark: SparkSession, copies: list[Path]) -> None:
    expected = rows_of([*batches(0, 40), *batches(40, 50, epoch=1)])

    def rows(**options: Any) -> list[tuple[int, bytes]]:
        frame = load(spark, copies, **options).select("offset", "value")
        return sorted((row.offset, bytes(row.value)) for row in frame.collect())

    assert rows() == expected
    assert rows(minPartitions=7, maxBytesPerPartition=2000) == expected
    assert rows(maxRecordsPerPartition=11) == expected
    assert rows(startingTimestamp=T0 + 70, endingOffsets='{"t":{"0":130}}') == expected[70:130]
    assert rows(highWatermark="checkpoint") == expected[:140]
    latest = load(spark, copies, view="latest").select("offset").collect()
    assert [row.offset for row in latest] == [149]


def test_views_show_the_merged_log(spark: SparkSession, copies: list[Path]) -> None:
    (partition,) = load(spark, copies, view="partitions").collect()
    assert (partition.logStartOffset, partition.logEndOffset) == (0, 150)
    segments = load(spark, copies, view="segments").orderBy("firstOffset").collect()
    assert {row.path for row in segments} <= {str(each) for path in copies for each in path.glob("t-0/*.log")}
    assert {row.path.removesuffix(f"/t-0/{row.segment}") for row in segments} == {*map(str, copies)}
    assert sum(row.recordCount for row in segments) == 150
    view = load(spark, copies, view="batches", columns="baseOffset,isValid")
    assert [(row.baseOffset, row.isValid) for row in view.orderBy("baseOffset").collect()] == [
        (offset, True) for offset in range(0, 150, 3)
    ]


def test_aborted_records_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    data = v2([Rec(b"k", b"v")] * 3, 0, attributes=TRANSACTIONAL, producer_id=7)
    ending = [marker(3, 7, ABORT), *(batch.data for batch in batches(2, 4))]
    write_log(tmp_path / "a" / "t-0", {0: [data], 3: ending[:1]})
    write_log(tmp_path / "b" / "t-0", {0: [data], 3: ending})
    committed = load(spark, [tmp_path / "a", tmp_path / "b"], **{"kafka.isolation.level": "read_committed"})
    assert committed.agg(F.min("offset"), F.count("*")).first() == (6, 6)


def test_a_stream_reads_merged_copies(spark: SparkSession, tmp_path: Path) -> None:
    """A second run continues where the first one ended, although another copy has the new records."""
    whole = batches(0, 30)
    first = write_copy(tmp_path / "a", whole[:20], rolls=[30])
    write_copy(tmp_path / "b", whole[:15])
    damage(first, whole[3])
    read: list[tuple[int, bytes]] = []

    def run() -> None:
        stream = spark.readStream.format("kafkalog").options(
            paths=json.dumps([str(tmp_path / name) for name in "ab"]),
            replicas="merge",
            startingOffsets="earliest",
            offsetStateLocation=str(tmp_path / "state"),
        )
        query = (
            stream.load()
            .select("offset", "value")
            .writeStream.foreachBatch(
                lambda frame, _: read.extend((row.offset, bytes(row.value)) for row in frame.collect())
            )
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)

    run()
    assert sorted(read) == rows_of(whole[:20])
    write_copy(tmp_path / "b", whole)
    run()
    assert sorted(read) == rows_of(whole)


def test_an_unknown_value_is_rejected() -> None:
    options = {"path": "/p"}
    with pytest.raises(OptionError, match="replicas"):
        parse_read_options({**options, "replicas": "join"})
