"""The local directories of tiered topics: a read never omits silently what is only in remote storage."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kafkalog_spark import KafkaLogDataSource
from kafkalog_spark.errors import DataLossError
from tests.builders.golden import DATA

LOCAL = {"d-local": range(388, 411), "d-rec": range(241, 420), "d-ret": range(364, 420)}


def rows(columns: str, **options: object) -> list[tuple[Any, ...]]:
    types = {"topic": StringType()}
    schema = StructType([StructField(name, types.get(name, LongType())) for name in columns.split()])
    texts = {name: str(value) for name, value in options.items()}
    reader = KafkaLogDataSource(CaseInsensitiveDict({"path": str(DATA / "tiered"), **texts})).reader(schema)
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
