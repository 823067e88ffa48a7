"""Transactional ids. tests/broker compares those of a real broker with kafka-transactions."""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from native_log import TRANSACTION_STATE_SCHEMA, LogDir
from native_log.messages.transaction_log import RECORDS
from tests.builders.golden import GOLDEN
from tests.builders.internal_topics import NOW_MS, TRANSACTIONS_TOPIC, InternalTopic, Pair
from tests.builders.messages import encode_key, encode_value

if TYPE_CHECKING:
    from pathlib import Path

BROKER = GOLDEN / "kafka-4.1/whole-broker"


@pytest.fixture
def topic(tmp_path: Path) -> InternalTopic:
    return InternalTopic(tmp_path / "logs", TRANSACTIONS_TOPIC)


def transaction(name: str, status: int = 0, version: int = 1, **fields: Any) -> Pair:
    fields = {"transactionStatus": status, "transactionStartTimestampMs": -1, **fields}
    return (
        encode_key(RECORDS, 0, transactionalId=name),
        encode_value(RECORDS, 0, version, transactionPartitions=None, **fields),
    )


def table(topic: InternalTopic, **options: Any) -> list[dict[str, Any]]:
    reader = LogDir(topic.path).transaction_state(**options)
    assert reader.schema == TRANSACTION_STATE_SCHEMA
    rows: list[dict[str, Any]] = reader.read_all().to_pylist()
    return rows


def test_the_history_is_that_of_kafka_dump_log() -> None:
    dumps = json.loads(gzip.decompress((BROKER / "dump-4.1.1.json.gz").read_bytes()))
    lines = dumps[f"__transaction_state-1/{0:020}.log#transaction-log-decoder"]["stdout"].splitlines()
    matches = (re.match(r"\| offset: (\d+) .* key: (\{.*\}) payload: (\{.*\})", line) for line in lines)
    expected = {int(m[1]): (json.loads(m[2])["data"], json.loads(m[3])["data"]) for m in matches if m}
    rows = LogDir(BROKER / "data").transaction_state(history=True).read_all().to_pylist()
    assert [row["recordOffset"] for row in rows] == list(expected)
    names = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
    for row in rows:
        key, value = expected[row["recordOffset"]]
        assert row["transactionalId"] == key["transactionalId"]
        assert row["state"] == names[value["transactionStatus"]]
        for name in ("producerId", "producerEpoch", "transactionTimeoutMs"):
            assert row[name] == value[name]
        changed_ms = round(row["lastUpdateTimestamp"].timestamp() * 1000)
        assert changed_ms == value["transactionLastUpdateTimestampMs"]
        partitions = [{"topic": p["topic"], "partitionIds": p["partitions"]} for p in row["partitions"]]
        assert partitions == (value["transactionPartitions"] or [])


def test_the_newest_record_of_each_id(topic: InternalTopic) -> None:
    topic.append(transaction("a"), transaction("b", 1), transaction("a", 2))
    topic.append((transaction("b")[0], None), transaction("c", 7, version=0))
    states = [(row["transactionalId"], row["state"]) for row in table(topic)]
    assert states == [("a", "PrepareCommit"), ("c", "PrepareEpochFence")]
    states = [(row["transactionalId"], row["state"]) for row in table(topic, history=True)]
    assert states[3] == ("b", "tombstone")


def test_tagged_fields(topic: InternalTopic) -> None:
    topic.append(
        transaction("a", previousProducerId=1, nextProducerId=2, nextProducerEpoch=3, producerId=9),
        transaction("b", clientTransactionVersion=2, transactionStartTimestampMs=NOW_MS),
    )
    a, b = table(topic)
    assert (a["previousProducerId"], a["nextProducerId"], a["nextProducerEpoch"]) == (1, 2, 3)
    assert (a["startTimestamp"], a["clientTransactionVersion"], b["clientTransactionVersion"]) == (
        *(None, None),
        2,
    )
    assert b["startTimestamp"].timestamp() * 1000 == NOW_MS


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (transaction("a", 8), "expected a transactionStatus up to 7, found 8"),
        ((transaction("a")[0], b"\0\x09"), "Could not read the value: expected a version up to 1, found 9"),
        ((b"\0\1", b""), "unknown record type 1"),
    ],
)
def test_records_that_cannot_be_decoded_are_rows(topic: InternalTopic, record: Pair, error: str) -> None:
    topic.append(record)
    (row,) = table(topic)
    assert (row["error"], row["recordKey"], row["recordValue"]) == (error, *record)
    assert row["state"] is None
