"""The cluster metadata. tests/broker compares those of a real broker with kafka-metadata-shell."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log import (
    CLUSTER_METADATA_SCHEMA,
    CorruptRecordError,
    KafkaLogError,
    LogDir,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from native_log.internal_topics.cluster_metadata import metadata_rows
from native_log.internal_topics.records import to_batches
from native_log.messages.cluster_metadata import RECORDS
from tests.builders.batches import unsigned_varint
from tests.builders.golden import GOLDEN
from tests.builders.internal_topics import records_of
from tests.builders.messages import encode

if TYPE_CHECKING:
    from pathlib import Path

DATA = GOLDEN / "kafka-4.1/whole-broker/data"
METADATA = "__cluster_metadata-0"
SNAPSHOTS = (64, 112, 142, 150)
ID, OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
RECORD_COLUMNS = ("recordPartition", "recordOffset", "recordTimestamp")
BROKER, TOPIC, PARTITION, CONFIG, CHANGE, FENCE, UNFENCE = 0, 2, 3, 4, 5, 7, 8
REMOVE_TOPIC, SCRAM, FEATURE, QUOTA, CHANGE_BROKER, ACL, REMOVE_ACL = 9, 11, 12, 14, 17, 18, 19
BEGIN, END, ABORT = 23, 24, 25
CONTROLLER, CLEAR_ELR, UNREGISTER_CONTROLLER = 27, 28, 29


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return shutil.copytree(DATA, tmp_path / "data")


def metadata(api_key: int, version: int = 0, **fields: Any) -> bytes:
    frame = b"".join(map(unsigned_varint, (1, api_key, version)))
    return frame + encode(RECORDS[api_key], version, fields)


def table(*values: bytes) -> list[dict[str, Any]]:
    records = [(False, record) for record in records_of(*((None, value) for value in values))]
    batches = to_batches(metadata_rows(records, 0), CLUSTER_METADATA_SCHEMA)
    return [row for batch in batches for row in batch.to_pylist()]


def things(path: Path, **options: Any) -> set[str]:
    """Return the rows without the locations of their records."""
    rows = LogDir(path).cluster_metadata(**options).read_all().to_pylist()
    return {str({name: row[name] for name in row if name not in RECORD_COLUMNS}) for row in rows}


@pytest.mark.parametrize("offset", [*SNAPSHOTS, None])
def test_the_log_gives_the_same_as_a_brokers_snapshot(data: Path, offset: int | None) -> None:
    from_snapshot = things(data, as_of_offset=offset)
    for snapshot in (data / METADATA).glob("*.checkpoint"):
        snapshot.unlink()
    assert things(data, as_of_offset=offset) == from_snapshot
    assert len(from_snapshot) > 30


def test_a_state_between_snapshots() -> None:
    topics = [
        {row["topic"] for row in rows if row["type"] == "topic"}
        for rows in (
            LogDir(DATA).cluster_metadata(as_of_offset=offset).read_all().to_pylist()
            for offset in (0, 50, 70)
        )
    ]
    assert topics[0] == set()
    assert "gone" in topics[1] and "gone" in topics[2]
    assert "gone" not in {row["topic"] for row in LogDir(DATA).cluster_metadata().read_all().to_pylist()}


def test_locations_are_those_of_the_log() -> None:
    rows = LogDir(DATA).cluster_metadata().read_all().to_pylist()
    assert {row["recordOffset"] is None for row in rows} == {True, False}
    assert all(row["recordOffset"] is None or row["recordOffset"] >= SNAPSHOTS[-1] for row in rows)


def test_offsets_that_are_not_there(data: Path) -> None:
    with pytest.raises(OffsetOutOfRangeError, match="log end offset 165, found 166"):
        LogDir(data).cluster_metadata(as_of_offset=166).read_all()
    with pytest.raises(OffsetOutOfRangeError, match="found -1"):
        LogDir(data).cluster_metadata(as_of_offset=-1).read_all()
    (data / "log-start-offset-checkpoint").write_text("0\n1\n__cluster_metadata 0 142\n")
    assert things(data, as_of_offset=112)  # there is a snapshot
    with pytest.raises(OffsetOutOfRangeError, match="from the log start offset 142"):
        LogDir(data).cluster_metadata(as_of_offset=120).read_all()
    (data / METADATA / f"{142:020}-{3:010}.checkpoint").unlink()
    with pytest.raises(KafkaLogError, match="snapshot up to the log start offset 142, found one up to 112"):
        LogDir(data).cluster_metadata(as_of_offset=145).read_all()


def features(log_dir: LogDir) -> dict[str, str]:
    """Return the features; there must be nothing else, and no location of a record."""
    rows = log_dir.cluster_metadata().read_all().to_pylist()
    assert {(row["type"], row["recordOffset"], row["error"]) for row in rows} == {("feature", None, None)}
    return {row["name"]: row["value"] for row in rows}


BOOTSTRAP = {
    "metadata.version": "27",
    "eligible.leader.replicas.version": "1",
    "group.version": "1",
    "transaction.version": "2",
}


def test_a_directory_in_which_no_broker_has_started(tmp_path: Path) -> None:
    """kafka-storage format writes two files, and, with --standalone, a snapshot of the voters."""
    for name in ("meta.properties", "bootstrap.checkpoint"):
        shutil.copy(DATA / name, tmp_path / name)
    assert features(LogDir(tmp_path, allow_empty=True)) == BOOTSTRAP
    with pytest.raises(UnknownTopicOrPartitionError):
        LogDir(tmp_path, allow_empty=True).cluster_metadata(as_of_offset=0)
    (tmp_path / METADATA).mkdir()
    (tmp_path / METADATA / "partition.metadata").write_text(f"version: 0\ntopic_id: {ID}")
    assert features(LogDir(tmp_path)) == BOOTSTRAP
    assert LogDir(tmp_path).cluster_metadata(as_of_offset=0).read_all().num_rows == 0
    damaged = bytearray((tmp_path / "bootstrap.checkpoint").read_bytes())
    (tmp_path / "bootstrap.checkpoint").write_bytes(damaged[:-1])
    with pytest.raises(CorruptRecordError, match="complete snapshot"):
        LogDir(tmp_path).cluster_metadata().read_all()
    (tmp_path / "bootstrap.checkpoint").unlink()
    assert LogDir(tmp_path).cluster_metadata().read_all().num_rows == 0


def test_the_metadata_of_a_broker_may_be_in_another_directory(tmp_path: Path) -> None:
    shutil.copytree(DATA, tmp_path / "data", ignore=shutil.ignore_patterns(METADATA))
    with pytest.raises(UnknownTopicOrPartitionError):
        LogDir(tmp_path / "data").cluster_metadata()


def created(**fields: Any) -> list[bytes]:
    partition = {"topicId": ID, "replicas": [1, 2], "isr": [1, 2], "leader": 1, "leaderEpoch": 4}
    fields = {"partitionId": 0, "partitionEpoch": 7, "directories": [ID, OTHER_ID], **partition, **fields}
    return [metadata(TOPIC, name="orders", topicId=ID), metadata(PARTITION, 2, **fields)]


def test_a_partition_changes() -> None:
    _, before = table(*created())
    assert (before["leader"], before["leaderEpoch"], before["partitionEpoch"]) == (1, 4, 7)
    assert (before["topic"], before["leaderRecoveryState"]) == ("orders", "RECOVERED")
    change = {"topicId": ID, "partitionId": 0}
    _, row = table(*created(), metadata(CHANGE, 2, **change, isr=[2], leader=2, leaderRecoveryState=1))
    assert (row["isr"], row["leader"], row["leaderEpoch"], row["partitionEpoch"]) == ([2], 2, 5, 8)
    assert (row["leaderRecoveryState"], row["replicas"], row["recordOffset"]) == ("RECOVERING", [1, 2], 2)
    _, row = table(*created(), metadata(CHANGE, 2, **change, eligibleLeaderReplicas=[1], lastKnownElr=[2]))
    assert (row["eligibleLeaderReplicas"], row["lastKnownElr"], row["leaderEpoch"]) == ([1], [2], 4)


@pytest.mark.parametrize(("name", "left"), [("orders", []), ("", []), ("others", [1])])
def test_clear_elr(name: str, left: list[int]) -> None:
    clear = metadata(CLEAR_ELR, topicName=name)
    _, row = table(*created(eligibleLeaderReplicas=[1]), clear)
    assert row["eligibleLeaderReplicas"] == left


# The settings of Kafka 3.9 to 4.4 with the type PASSWORD, and some of plugins.
SECRETS = (
    *("delegation.token.master.key", "delegation.token.secret.key", "password.encoder.old.secret"),
    *("password.encoder.secret", "sasl.jaas.config", "sasl.oauthbearer.assertion.private.key.passphrase"),
    *("sasl.oauthbearer.client.credentials.client.secret", "ssl.key.password", "ssl.keystore.key"),
    *("ssl.keystore.certificate.chain", "ssl.keystore.password", "ssl.truststore.certificates"),
    *("ssl.truststore.password", "zookeeper.ssl.keystore.password", "zookeeper.ssl.truststore.password"),
    *("rsm.config.storage.aws.secret.access.key", "rsm.config.storage.azure.connection.string"),
)


@pytest.mark.parametrize("prefix", ["", "listener.name.external.", "listener.name.external.scram-sha-512."])
@pytest.mark.parametrize("name", SECRETS)
def test_secrets_of_brokers_are_hidden(prefix: str, name: str) -> None:
    (row,) = table(metadata(CONFIG, resourceType=4, resourceName="1", name=prefix + name, value="hunter2"))
    assert (row["name"], row["value"]) == (prefix + name, None)
    assert "hunter2" not in str(row)


@pytest.mark.parametrize(
    "name",
    ["ssl.keystore.location", "ssl.keystore.type", "num.io.threads", "delegation.token.max.lifetime.ms"],
)
def test_other_settings_of_brokers_are_shown(name: str) -> None:
    (row,) = table(metadata(CONFIG, resourceType=4, resourceName="", name=name, value="a"))
    assert (row["name"], row["value"]) == (name, "a")


def test_removing_a_topic_removes_its_partitions_and_configurations() -> None:
    config = metadata(CONFIG, resourceType=2, resourceName="orders", name="retention.ms", value="5")
    assert [row["type"] for row in table(*created(), config)] == ["topic", "partition", "config"]
    assert table(*created(), config, metadata(REMOVE_TOPIC, topicId=ID)) == []
    removed = metadata(CONFIG, resourceType=2, resourceName="orders", name="retention.ms", value=None)
    assert len(table(*created(), config, removed)) == 2


def test_brokers() -> None:
    broker = metadata(BROKER, 3, brokerId=5, brokerEpoch=9, rack="r1", fenced=True, logDirs=[ID])
    (row,) = table(broker)
    assert (row["nodeId"], row["rack"], row["isFenced"], row["directories"]) == (5, "r1", True, [ID])
    (row,) = table(broker, metadata(UNFENCE, id=5, epoch=9))
    assert row["isFenced"] is False
    (row,) = table(broker, metadata(UNFENCE, id=5, epoch=9), metadata(FENCE, id=5, epoch=9))
    assert row["isFenced"] is True
    change = {"brokerId": 5, "brokerEpoch": 9}
    (row,) = table(broker, metadata(CHANGE_BROKER, 2, **change, fenced=-1, inControlledShutdown=1))
    assert (row["isFenced"], row["inControlledShutdown"], row["directories"]) == (False, True, [ID])
    assert table(broker, metadata(1, brokerId=5, brokerEpoch=9)) == []


def test_cordoned_log_directories() -> None:
    broker = metadata(BROKER, 4, brokerId=5, brokerEpoch=9, logDirs=[ID, OTHER_ID], cordonedLogDirs=[ID])
    change = {"brokerId": 5, "brokerEpoch": 9}
    others = metadata(CHANGE_BROKER, 3, **change, cordonedLogDirs=[OTHER_ID])
    none = metadata(CHANGE_BROKER, 3, **change, cordonedLogDirs=[])
    unchanged = metadata(CHANGE_BROKER, 3, **change, fenced=-1)
    for records, expected in (
        ([metadata(BROKER, 3, brokerId=5)], []),
        ([broker], [ID]),
        ([broker, unchanged], [ID]),
        ([broker, others, unchanged], [OTHER_ID]),
        ([broker, none], []),
    ):
        (row,) = table(*records)
        assert row["cordonedDirectories"] == expected


def test_controllers() -> None:
    first, second = (metadata(CONTROLLER, controllerId=node_id) for node_id in (3, 4))
    rows = table(first, second, metadata(UNREGISTER_CONTROLLER, controllerId=3))
    assert [(row["type"], row["nodeId"]) for row in rows] == [("controller", 4)]
    assert table(metadata(UNREGISTER_CONTROLLER, controllerId=3)) == []


@pytest.mark.parametrize("api_key", RECORDS)
def test_records_of_all_types_can_be_applied(api_key: int) -> None:
    before = [metadata(BROKER), metadata(TOPIC, name="t"), metadata(PARTITION)]
    assert [row["error"] for row in table(*before, metadata(api_key)) if row["error"] is not None] == []


def test_the_parts_of_an_entity_have_no_order() -> None:
    parts = [{"entityType": "user", "entityName": "u"}, {"entityType": "client-id", "entityName": None}]
    quotas = [metadata(QUOTA, entity=entity, key="k", value=1.0) for entity in (parts, parts[::-1])]
    assert [row["text"] for row in table(*quotas)] == ["client-id=<default>, user=u"]


def test_quotas_acls_and_features_are_removed() -> None:
    entity = [{"entityType": "user", "entityName": None}]
    quota = metadata(QUOTA, entity=entity, key="producer_byte_rate", value=1.5, remove=False)
    acl = metadata(ACL, id=ID, resourceType=2, resourceName="t", patternType=3, principal="User:a", host="*")
    feature = metadata(FEATURE, name="share.version", featureLevel=1)
    rows = {row["type"]: row for row in table(quota, acl, feature)}
    assert (rows["quota"]["text"], rows["quota"]["value"]) == ("user=<default>", "1.5")
    assert "operation=UNKNOWN, permissionType=UNKNOWN" in rows["acl"]["text"]
    assert rows["feature"]["value"] == "1"
    gone = metadata(QUOTA, entity=entity, key="producer_byte_rate", value=0.0, remove=True)
    removed = [gone, metadata(REMOVE_ACL, id=ID), metadata(FEATURE, name="share.version")]
    assert table(quota, acl, feature, *removed) == []


def test_nothing_of_a_password_is_shown() -> None:
    secret = {"salt": b"salt!", "storedKey": b"stored!", "serverKey": b"server!"}
    (row,) = table(metadata(SCRAM, name="alice", mechanism=1, iterations=4096, **secret))
    assert (row["resourceName"], row["name"], row["value"]) == ("alice", "SCRAM-SHA-256", "4096")
    assert not [value for value in secret.values() if str(value)[2:-1] in str(row)]


def test_transactions() -> None:
    begin, end, abort = (metadata(kind) for kind in (BEGIN, END, ABORT))
    feature = metadata(FEATURE, name="share.version", featureLevel=1)
    assert table(begin, feature) == []
    assert table(begin, feature, abort) == []
    (row,) = table(begin, feature, end)
    assert row["recordOffset"] == 1


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b"\1\x63\0", "unknown metadata record with id 99 of version 0"),
        (b"\1\2\x09", "expected version 0 of TopicRecord, found 9"),
        (b"\2\2\0", "expected frame version 1, found 2"),
        (b"", "expected 1 more bytes, found 0"),
        (
            metadata(CHANGE, topicId=ID, partitionId=3),
            f"expected partition 3 of the topic with id {ID}, found",
        ),
        (metadata(UNFENCE, id=3, epoch=1), "expected a registered broker 3, found none"),
        (metadata(REMOVE_TOPIC, topicId=ID), f"expected a topic with id {ID}, found none"),
    ],
)
def test_records_that_cannot_be_applied_are_rows(value: bytes, error: str) -> None:
    feature, row = table(metadata(FEATURE, name="share.version", featureLevel=1), value)
    assert (feature["type"], row["type"], row["recordValue"], row["recordOffset"]) == (
        "feature",
        None,
        value,
        1,
    )
    assert row["error"].startswith(error)


@given(st.lists(st.tuples(st.integers(0, 29), st.integers(0, 3), st.binary(max_size=80)), max_size=5))
def test_hostile_bytes_are_rows(parts: list[tuple[int, int, bytes]]) -> None:
    table(*(bytes([1, kind, version]) + content for kind, version, content in parts))
