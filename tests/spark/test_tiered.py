"""The local directories of tiered topics: a read never omits silently what is only in remote storage."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kafkalog_spark import KafkaLogDataSource
from kafkalog_spark.errors import DataLossError, OptionError
from tests.builders.golden import DATA
from tests.builders.golden_tiered import TieredPartition, tiered

from .read_limits import HAS_READ_LIMITS, needs_read_limits
from .stream_query import StreamQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = {"d-local": range(388, 411), "d-rec": range(241, 420), "d-ret": range(364, 420)}


def rows(columns: str, **options: object) -> list[tuple[Any, ...]]:
    types = {"topic": StringType()}
    schema = StructType([StructField(name, types.get(name, LongType())) for name in columns.split()])
    options = {"path": DATA / "tiered", **options}
    texts = {name: str(value) for name, value in options.items() if value is not None}
    reader = KafkaLogDataSource(CaseInsensitiveDict(texts)).reader(schema)
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    return [row for b in batches for row in zip(*(c.to_pylist() for c in b.columns), strict=True)]


def starting(**offsets: int) -> str:
    return json.dumps({topic.replace("_", "-"): {"0": offset} for topic, offset in offsets.items()})


@pytest.mark.parametrize("options", [{}, {"startingTimestamp": 0}, {"startingOffsets": starting(d_ret=-2)}])
def test_reading_from_the_earliest_offset_warns(
    options: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    topics = ["d-ret"] if "startingOffsets" in options else list(LOCAL)
    actual = rows("topic offset", subscribe=",".join(topics), **options)
    assert sorted(actual) == [(topic, offset) for topic in topics for offset in LOCAL[topic]]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    expected = {"d-rec": ("174", "241"), "d-ret": ("110", "364")}
    assert len(warnings) == len(expected.keys() & topics)
    for message, topic in zip(warnings, sorted(expected.keys() & topics), strict=True):
        assert all(part in message for part in (f"{topic}-0 is read in part", *expected[topic]))


def test_an_offset_in_remote_storage_is_data_loss(caplog: pytest.LogCaptureFixture) -> None:
    options = {"subscribe": "d-ret", "startingOffsets": starting(d_ret=200)}
    with pytest.raises(DataLossError, match=r"KAFKA_DATA_LOSS.* starts at offset 110 .*segments at 364"):
        rows("offset", **options)
    assert rows("offset", **options, failOnDataLoss="false") == [(offset,) for offset in LOCAL["d-ret"]]
    assert "starts at offset 110 (log-start-offset-checkpoint), its local segments at 364" in caplog.text


def test_an_offset_in_a_local_segment_is_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    actual = rows("offset", subscribe="d-ret", startingOffsets=starting(d_ret=364))
    assert actual == [(offset,) for offset in LOCAL["d-ret"]]
    assert caplog.text == ""


def test_a_start_that_only_the_metadata_of_remote_storage_knows(caplog: pytest.LogCaptureFixture) -> None:
    path = str(DATA / "tiered-crash")
    assert rows("offset", path=path, subscribe="crash") == [(offset,) for offset in range(291, 350)]
    assert "crash-0 is read in part" in caplog.text
    assert "__remote_log_metadata" in caplog.text
    with pytest.raises(DataLossError, match=r"starts at offset 0 .*segments at 291"):
        rows("offset", path=path, subscribe="crash", startingOffsets=starting(crash=10))


def test_view_partitions_shows_both_starts() -> None:
    actual = rows("topic logStartOffset localLogStartOffset logEndOffset", view="partitions")
    assert sorted(actual) == [("d-local", 388, 388, 411), ("d-rec", 174, 241, 420), ("d-ret", 110, 364, 420)]


def remote_options(partition: TieredPartition) -> dict[str, object]:
    arguments = {name.replace("_", "."): value for name, value in partition.remote.items()}
    return {name: value for name, value in arguments.items() if value}


@pytest.mark.parametrize("fixture", ["lts-txn", "lts-delete", "aiven-zstd-aes", "aiven-plain"])
@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_a_log_with_remote_storage_is_read_whole(fixture: str, level: Any) -> None:
    partition = tiered(fixture)
    options = {
        **remote_options(partition),
        "path": partition.folder / "data",
        "subscribe": partition.key[0],
        "kafka.isolation.level": level,
        "maxBytesPerPartition": 3000,
    }
    assert rows("offset", **options) == [(row["offset"],) for row in partition.rows(level)]


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_merged_copies_are_joined_with_remote_storage(level: Any, tmp_path: Path) -> None:
    partition = tiered("lts-txn")
    options = {
        **remote_options(partition),
        "path": None,
        "paths": json.dumps([str(partition.folder / "data"), str(copied(partition, tmp_path))]),
        "replicas": "merge",
        "subscribe": partition.key[0],
        "kafka.isolation.level": level,
        "maxBytesPerPartition": 3000,
    }
    assert rows("offset", **options) == [(row["offset"],) for row in partition.rows(level)]


@needs_read_limits
@pytest.mark.parametrize("limit", [{"maxOffsetsPerTrigger": "10"}, {"maxBytesPerTrigger": "1000"}], ids=str)
@pytest.mark.parametrize("fail", [True, False])
def test_remote_segments_that_are_deleted_while_a_stream_reads_them(
    limit: dict[str, str], fail: bool, tmp_path: Path
) -> None:
    """Nothing in the log directory has changed yet: a broker writes the log start offset once a minute."""
    partition = tiered("lts-txn", "ledger-2").copy_to(tmp_path / "copy")
    options = {
        **remote_options(partition),
        "path": partition.folder / "data",
        "subscribe": partition.key[0],
        "startingOffsets": "earliest",
        "failOnDataLoss": fail,
        **limit,
    }
    query = StreamQuery(**{name: str(value) for name, value in options.items()})
    batch = query.trigger()
    assert batch is not None
    read = list(batch.rows[partition.key])
    partition.delete_objects(before=17)
    if fail:
        with pytest.raises(DataLossError, match="segments at 17"):
            query.trigger()
        return
    lost = range(read[-1] + 1, 17)
    while (batch := query.trigger()) is not None:
        read += batch.rows.get(partition.key, [])
    assert lost
    assert read == [row["offset"] for row in partition.rows() if row["offset"] not in lost]


def copied(partition: TieredPartition, folder: Path) -> Path:
    """Copy the local log directory to stand in for a follower's."""
    return Path(shutil.copytree(partition.folder / "data", folder / "follower"))


def test_remote_storage_is_read_alone() -> None:
    partition = tiered("lts-overlap")
    options = {**remote_options(partition), "remote.metadata": partition.folder / "data", "path": None}
    expected = range(partition.expected["latestTiered"] + 1)
    assert rows("offset", **options, subscribe=partition.key[0]) == [(offset,) for offset in expected]


def test_a_hole_is_data_loss() -> None:
    partition = tiered("pinterest")
    options = {**remote_options(partition), "path": partition.folder / "data", "assign": '{"pins": [0]}'}
    with pytest.raises(DataLossError, match=r"KAFKA_DATA_LOSS.* expected offsets 47 to 101 of pins-0"):
        rows("offset", **options)
    left = [(row["offset"],) for row in partition.rows() if not 47 <= row["offset"] <= 101]
    assert rows("offset", **options, failOnDataLoss="false") == left


def test_views_of_a_log_with_remote_storage() -> None:
    partition = tiered("lts-overlap")
    options = {**remote_options(partition), "path": partition.folder / "data", "subscribe": "overlap-mid"}
    (row,) = rows("logStartOffset logEndOffset", **options, view="partitions")
    assert row == (0, 456)
    segments = rows("baseOffset", **options, view="segments")
    assert [base for (base,) in segments] == [0, 79, 163, 223, 278, 363, 400, 428]
    remote = [base for (base,) in rows("baseOffset", **options, view="segments", where="tier = 'remote'")]
    local = [base for (base,) in rows("baseOffset", **options, view="segments", where="tier = 'local'")]
    assert remote == [base for (base,) in segments][: len(remote)]
    assert sorted([*remote, *local]) == [base for (base,) in segments]
    assert remote
    assert local
    (row,) = rows("logEndOffset", **options, view="partitions", where=f"remoteSegmentCount = {len(remote)}")
    assert row == (456,)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("fixture", "replicas"), [("lts-txn", "longest"), ("lts-txn", "merge"), ("aiven-zstd", "longest")]
)
def test_a_stream_begins_in_the_tier(
    fixture: str, replicas: str, spark: SparkSession, tmp_path: Path
) -> None:
    partition = tiered(fixture)
    paths = [str(partition.folder / "data")]
    if replicas == "merge":
        paths.append(str(copied(partition, tmp_path)))
    options = {name: str(value) for name, value in remote_options(partition).items()}
    if HAS_READ_LIMITS:
        options["maxOffsetsPerTrigger"] = "300"
    query = (
        spark.readStream.format("kafkalog")
        .options(**options, subscribe=partition.key[0], startingOffsets="earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("replicas", replicas)
        .option("paths", json.dumps(paths))
        .load()
        .select("offset", "value")
        .writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .format("parquet")
        .start(str(tmp_path / "rows"))
    )
    query.awaitTermination()
    found = spark.read.parquet(str(tmp_path / "rows")).orderBy("offset").collect()
    expected = [(row["offset"], row["value"]) for row in partition.rows("read_committed")]
    assert [(offset, value and bytes(value)) for offset, value in found] == expected


def test_a_stream_over_a_tier_alone_is_an_error() -> None:
    options = {name: str(value) for name, value in remote_options(tiered("lts-overlap")).items()}
    source = KafkaLogDataSource(CaseInsensitiveDict(options))
    with pytest.raises(OptionError, match="expected a log directory with remote, found none"):
        source.streamReader(StructType()).initialOffset()


def test_other_options_need_remote() -> None:
    with pytest.raises(OptionError, match=r"remote.prefix: expected the folder of remote storage in remote"):
        rows("offset", **{"remote.prefix": "p"})
