"""Topic configurations that are stored in the cluster metadata."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from broker_lock import held_lock

import native_log
from native_log import (
    CorruptRecordError,
    InvalidConfigError,
    InvalidRecordError,
    KafkaLogError,
    LogDir,
    RecordTooLargeError,
    compact,
    retain,
)
from native_log.policies import cleanup_policy
from native_log.records import scan
from tests.builders.cluster_metadata import ABORT, BEGIN, END, config, removed, store, topic, write
from tests.builders.golden import GOLDEN

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = GOLDEN / "kafka-4.1/whole-broker"
METADATA = "__cluster_metadata-0"
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return shutil.copytree(WHOLE / "data", tmp_path / "data")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Create a log directory with one topic."""
    LogDir.create(tmp_path / "logs").create_topic("t", 2)
    return tmp_path / "logs"


def topic_id(logs: Path) -> str:
    id = LogDir(logs).partition("t", 0).topic_id
    assert id is not None
    return id


def test_configurations_stored_by_a_broker() -> None:
    written = json.loads((WHOLE / "expected.json").read_text())["topics"]
    configs = LogDir(WHOLE / "data").topic_configs
    assert configs.keys() == written.keys()
    for name, expected in written.items():
        if not name.startswith("__"):
            assert configs[name] == expected["config"]
    assert configs["__consumer_offsets"]["cleanup.policy"] == "compact"
    assert LogDir(WHOLE / "data/state-0").topic_configs == {"state": configs["state"]}


def test_a_snapshot_gives_the_same_configurations_as_the_log(data: Path) -> None:
    expected = LogDir(data).topic_configs
    (last,) = (data / METADATA).glob("*150-*.checkpoint")
    log = data / METADATA / "00000000000000000000.log"
    content = log.read_bytes()

    log.write_bytes(content[:100])  # the damage is before the end of the snapshot
    assert LogDir(data).topic_configs == expected

    log.write_bytes(content)
    for snapshot in (data / METADATA).glob("*.checkpoint"):
        snapshot.unlink()
    assert LogDir(data).topic_configs == expected
    last.with_name(f"{last.name}.part").write_bytes(b"half of one")
    assert LogDir(data).topic_configs == expected


@pytest.mark.parametrize("left", ["nothing", "half", "all but a byte", "all but the last batch"])
def test_a_damaged_snapshot_is_an_error(data: Path, left: str) -> None:
    (last,) = (data / METADATA).glob("*150-*.checkpoint")
    content = last.read_bytes()
    footer = scan(content).batches.column("position")[-1].as_py()
    ends = {"nothing": 0, "half": len(content) // 2, "all but a byte": -1, "all but the last batch": footer}
    last.write_bytes(content[: ends[left]])
    with pytest.raises(KafkaLogError, match="snapshot"):
        _ = LogDir(data).topic_configs


@pytest.mark.parametrize("version", ["3.9", "4.1"])
def test_the_other_log_directories_of_a_broker_use_its_metadata(version: str) -> None:
    with_it, without = (GOLDEN / f"kafka-{version}/jbod/data/dir{number}" for number in (1, 2))
    log_dir = LogDir([without, with_it])
    facts = [
        log_dir.topic_facts(directory)
        for directory in log_dir.partitions()
        if directory.path.parent == without
    ]
    assert facts
    assert all(
        directory.stored is not None and "segment.index.bytes" in directory.stored for directory in facts
    )
    assert LogDir(without).topic_configs == {}
    assert LogDir(without).topic_facts(LogDir(without).partitions()[0]).broker is None


def test_records_in_their_order(logs: Path) -> None:
    mine = topic_id(logs)
    write(logs, topic("t", mine), config("t", "a", "1"), config("t", "b", "2"), config("t", "a", None))
    assert LogDir(logs).topic_configs == {"t": {"b": "2"}}
    write(logs, removed(mine), topic("t", mine))
    assert LogDir(logs).topic_configs == {"t": {}}
    write(logs, BEGIN, config("t", "c", "3"), ABORT, BEGIN, config("t", "d", "4"), END, config("t", "e", "5"))
    assert LogDir(logs).topic_configs == {"t": {"d": "4", "e": "5"}}
    write(logs, BEGIN, config("t", "f", "6"))  # the transaction is open and may be aborted
    assert LogDir(logs).topic_configs == {"t": {"d": "4", "e": "5"}}


def test_an_older_topic_of_the_same_name_has_no_configuration(logs: Path) -> None:
    write(logs, topic("t", OTHER_ID), config("t", "a", "1"))
    assert LogDir(logs).topic_configs == {}
    (logs / "t-1/partition.metadata").unlink()  # as left by brokers before topic ids
    assert LogDir(logs).topic_configs["t"] == {"a": "1"}


def test_defaults_of_the_broker(logs: Path) -> None:
    store(logs, "t", {"retention.ms": "5"})
    write(
        logs,
        config("", "log.cleanup.policy", "compact", kind=4),
        config("9", "log.cleanup.policy", "delete", kind=4),
    )
    (directory, *_) = (directory for directory in LogDir(logs).partitions() if directory.topic == "t")
    assert str(cleanup_policy(LogDir(logs).topic_facts(directory))) == "compact"
    node_id = LogDir(logs).meta_properties.node_id  # type: ignore[union-attr]
    write(logs, config(str(node_id), "log.cleanup.policy", "delete", kind=4))
    assert str(cleanup_policy(LogDir(logs).topic_facts(directory))) == "delete"


def test_an_unknown_record_raises_an_error_with_its_name(logs: Path) -> None:
    write(logs, topic("t", topic_id(logs)), b"\1\4\7" + config("t", "a", "1")[3:])
    with pytest.raises(KafkaLogError, match=r"version 0 of ConfigRecord, found 7.*newer Kafka"):
        _ = LogDir(logs).topic_configs


def test_a_missing_part_of_the_log_is_an_error(data: Path) -> None:
    for path in (data / METADATA).glob("*.checkpoint"):
        path.unlink()
    for path in (data / METADATA).glob("0" * 20 + ".*"):
        path.rename(path.with_name(path.name.replace("0" * 20, f"{1:020}")))
    with pytest.raises((CorruptRecordError, KafkaLogError)):
        _ = LogDir(data).topic_configs


def test_unreadable_metadata_changes_nothing(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    (last,) = (data / METADATA).glob("*150-*.checkpoint")
    last.write_bytes(b"")
    (data / "cleaner-offset-checkpoint").unlink()
    report = retain(data, config={"retention.ms": 1}, dry_run=True).to_pylist()
    assert {(row["decision"], row["rule"]) for row in report} == {("kept", "cleanup.policy")}
    assert all(str(last) in row["reason"] for row in report)
    report = compact(data, dry_run=True).to_pylist()
    assert {row["status"] for row in report} == {"skipped"}
    assert str(last) in caplog.text


def test_stored_settings_apply_if_none_are_given(data: Path) -> None:
    (data / "cleaner-offset-checkpoint").unlink()
    reasons = {row["topic"]: row["reason"] or "" for row in compact(data, dry_run=True).to_pylist()}
    assert {topic for topic, reason in reasons.items() if "name the topic" not in reason} == {"state"}
    assert "its cleanup.policy is delete" in reasons["events"]

    rows = retain(data, dry_run=True).to_pylist()
    assert {row["topic"]: row["rule"] for row in rows} == {
        "state": "compacted",
        **dict.fromkeys(("events", "payments", "trimmed"), "cleanup.policy"),
    }
    assert {row["decision"] for row in rows} == {"kept"}
    assert any("its retention is not stored here" in row["reason"] for row in rows)

    rows = retain(data, config={"retention.ms": 1}, dry_run=True).to_pylist()
    assert {row["topic"] for row in rows if row["decision"] == "would be deleted"} == {
        "events",
        "payments",
        "trimmed",
    }


def test_a_stored_retention_applies_unless_one_is_given(tmp_path: Path) -> None:
    data = shutil.copytree(GOLDEN / "kafka-4.1/ret-time/before/data", tmp_path / "data")
    store(data, "ret-time", {"retention.bytes": "1"})

    def deleted(**settings: object) -> set[str]:
        config = {name.replace("_", "."): value for name, value in settings.items()}
        rows = retain(data, config=config, dry_run=True).to_pylist()
        return {row["rule"] for row in rows if row["decision"] == "would be deleted"}

    assert deleted() == {"retention.bytes"}
    assert deleted(retention_bytes=-1) == set()
    assert deleted(retention_bytes=-1, retention_ms=1) == {"retention.ms"}
    store(data, "ret-time", {"cleanup.policy": "compact"})
    assert deleted(retention_ms=1) == set()


def test_the_default_of_a_broker_does_not_override_a_stored_retention(tmp_path: Path) -> None:
    data = shutil.copytree(GOLDEN / "kafka-4.1/ret-time/before/data", tmp_path / "data")
    store(data, "ret-time", {"retention.ms": "-1"})
    for name in ("log.retention.hours", "log.retention.minutes", "log.retention.ms"):
        before = LogDir(data).partition("ret-time", 0).log_start_offset
        rows = retain(data, config={name: 1}).to_pylist()
        assert {row["decision"] for row in rows} == {"kept"}
        assert LogDir(data).partition("ret-time", 0).log_start_offset == before
    rows = retain(data, config={"log.retention.hours": 1, "retention.ms": 1}, dry_run=True).to_pylist()
    assert "retention.ms" in {row["rule"] for row in rows}


RECORD = pa.record_batch({"value": [b"v"], "timestamp": [1]})


def test_appending_follows_the_stored_configuration(logs: Path) -> None:
    store(logs, "t", {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"})
    with LogDir(logs) as directory, pytest.raises(InvalidRecordError, match="expected a key"):
        directory.partition("t", 0).append(RECORD)
    with LogDir(logs) as directory:
        log = directory.partition("t", 0, config={"cleanup.policy": "delete"})
        log.append(RECORD, now_ms=99)
        assert log.read(columns=["timestamp"]).read_all()["timestamp"].cast("int64").to_pylist() == [99_000]


def test_appending_takes_a_given_default_of_a_broker_for_what_is_not_stored(logs: Path) -> None:
    store(logs, "t", {"message.timestamp.type": "LogAppendTime"})
    config = {"log.message.timestamp.type": "CreateTime", "message.max.bytes": 1}
    with LogDir(logs) as directory:
        log = directory.partition("t", 0, config=config)
        with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
            log.append(RECORD, now_ms=99)
    with LogDir(logs) as directory:
        log = directory.partition("t", 0, config=config | {"max.message.bytes": 1000})
        log.append(RECORD, now_ms=99)
        assert log.read(columns=["timestamp"]).read_all()["timestamp"].cast("int64").to_pylist() == [99_000]


def test_an_invalid_stored_setting_stops_the_append(logs: Path) -> None:
    store(logs, "t", {"compression.type": "brotli"})
    with LogDir(logs) as directory:
        assert directory.partition("t", 0).log_end_offset == 0
        with pytest.raises(InvalidConfigError, match=r"t-0: stored configuration.*brotli"):
            directory.partition("t", 0).append(RECORD)


def test_a_configuration_given_at_creation_lasts_as_long_as_the_object(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LogDir.create(tmp_path / "logs") as directory:
        directory.create_topic("plain")
        assert not caplog.records
        directory.create_topic("c", 2, config={"cleanup.policy": "compact"})
        assert "configuration of the new topic c is not stored" in caplog.text
        with pytest.raises(InvalidRecordError, match="expected a key"):
            directory.partition("c", 0).append(RECORD)
        directory.partition("c", 1, config={"cleanup.policy": "delete"}).append(RECORD)
    with LogDir(tmp_path / "logs") as directory:
        directory.partition("c", 0).append(RECORD)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "''"),
        ("version: 0\ntopic_id: ", r"'version: 0\ntopic_id: '"),
        (f"version: 0\ntopic_id: {'A' * 22}", repr(f"version: 0\ntopic_id: {'A' * 22}")),
        (f"version: 0\ntopic_id: {OTHER_ID}", OTHER_ID),
        (None, "no such file"),
    ],
)
def test_a_topic_id_that_a_broker_does_not_accept(logs: Path, text: str | None, found: str) -> None:
    write(logs, topic("t", mine := topic_id(logs)))
    file = logs / "t-1/partition.metadata"
    file.unlink()
    if text is not None:
        file.write_text(text)
    (row,) = native_log.verify(logs).to_pylist()
    assert (row["kind"], row["path"], row["partition"]) == ("topic-id", str(file), 1)
    assert row["problem"] == f"expected the topic id {mine}, as in the cluster metadata, found {found}"
    assert row["advice"].endswith(f"version: 0 and topic_id: {mine}")


def test_a_running_broker_writes_the_topic_id_later(logs: Path) -> None:
    write(logs, topic("t", topic_id(logs)))
    (logs / "t-1/partition.metadata").unlink()
    with held_lock(logs):
        assert native_log.verify(logs).num_rows == 0
    assert native_log.verify(logs).num_rows == 1


def test_topic_ids_without_cluster_metadata(logs: Path) -> None:
    (logs / "t-0/partition.metadata").unlink()  # as left by brokers before topic ids
    (logs / "t-1/partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    assert native_log.verify(logs).num_rows == 0
    (logs / "t-1/partition.metadata").write_text("")
    (row,) = native_log.verify(logs).to_pylist()
    assert row["problem"] == "expected a topic id, found ''"
    assert "kafka-topics --describe" in row["advice"]
