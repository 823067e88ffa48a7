"""Process some topics only."""

from __future__ import annotations

import contextlib
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from dry_runs import as_done

import native_log
from tests.builders.golden import GOLDEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN / "kafka-4.1/whole-broker/data", tmp_path / "logs")
    return tmp_path / "logs"


def recovered_topics(log_dir: Path, topics: str | Iterable[str]) -> set[str]:
    return set(native_log.recover(log_dir, topics).column("topic").to_pylist())


def reindexed_topics(log_dir: Path, topics: str | Iterable[str]) -> set[str]:
    return set(native_log.reindex(log_dir, topics)["topic"].to_pylist())


@pytest.mark.parametrize("change", [recovered_topics, reindexed_topics])
def test_a_single_name_is_a_topic(
    log_dir: Path, change: Callable[[Path, str | Iterable[str]], set[str]]
) -> None:
    for topics in ("events", ["events"], iter(["events"])):
        assert change(log_dir, topics) == {"events"}
    with pytest.raises(native_log.UnknownTopicOrPartitionError, match="there is no topic event,"):
        change(log_dir, "event")


def test_several_directories_are_reindexed_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with native_log.LogDir.create(paths) as logs:
        logs.create_topic("t", 4)
        for number in range(4):
            logs.partition("t", number).append(pa.record_batch({"value": ["v"]}))
    (missing,) = (tmp_path / "b" / "t-3").glob("*.timeindex")
    missing.unlink()
    with (tmp_path / "a" / "t-0" / "00000000000000000000.log").open("ab") as log:
        size = log.tell()
        log.write(b"no batch")

    planned = native_log.reindex(paths, dry_run=True)
    assert not missing.exists()
    assert native_log.reindex(paths) == as_done(planned)
    assert missing.exists()

    assert planned.schema == native_log.REINDEX_SCHEMA
    rows = planned.to_pylist()
    assert [(row["topic"], row["partition"]) for row in rows] == [("t", number) for number in range(4)]
    assert [row["status"] for row in rows] == ["failed", *["would be reindexed"] * 3]
    assert [row["changedSegments"] for row in rows] == [0, 0, 0, 1]
    assert (rows[0]["path"], rows[0]["position"], rows[0]["offset"]) == (log.name, size, 1)
    assert "kafkalog recover" in rows[0]["reason"]
    assert rows[3]["path"] == str(tmp_path / "b" / "t-3")
    assert native_log.reindex(paths)["changedSegments"].to_pylist() == [0] * 4


@pytest.fixture
def two_topics(tmp_path: Path) -> Path:
    with native_log.LogDir.create(tmp_path / "logs") as logs:
        for topic in ("orders", "payments"):
            logs.create_topic(topic)
            logs.partition(topic, 0).append(pa.record_batch({"key": ["k"], "value": ["v"]}))
    return tmp_path / "logs"


def planned_restore(path: Path, topics: Any = None, **how: Any) -> pa.Table:
    return native_log.restore(path, path.with_name("restored"), topics=topics, dry_run=True, **how)


def planned_salvage(path: Path, topics: Any = None, **how: Any) -> pa.Table:
    return native_log.salvage(path, path.with_name("salvaged"), topics=topics, dry_run=True, **how)


def scanned(path: Path, topics: Any = None, **how: Any) -> pa.Table:
    return native_log.scan(path, topics, ["topic"], **how).to_table()


def searched(path: Path, topics: Any = None, **how: Any) -> pa.Table:
    return native_log.search(path, topics, ["topic"], key="k", **how).to_table()


@pytest.mark.parametrize(
    "process",
    [
        *(partial(native_log.compact, dry_run=True), partial(native_log.retain, dry_run=True)),
        partial(native_log.erase, keys=["k"], dry_run=True),
        *(partial(native_log.recover, dry_run=True), partial(native_log.reindex, dry_run=True)),
        *(planned_restore, planned_salvage, scanned, searched),
    ],
    ids=["compact", "retain", "erase", "recover", "reindex", "restore", "salvage", "scan", "search"],
)
def test_excluded_topics_are_left_out(two_topics: Path, process: Callable[..., pa.Table]) -> None:
    def topics(*given: Any, **how: Any) -> set[str]:
        return set(process(two_topics, *given, **how)["topic"].to_pylist())

    assert topics() == {"orders", "payments"}
    assert topics(exclude_topics="orders") == {"payments"}
    assert topics(["orders", "payments"], exclude_topics=iter(["payments", "payments"])) == {"orders"}
    with contextlib.suppress(native_log.UnknownTopicOrPartitionError):  # what copies or scans needs a topic
        assert topics("orders", exclude_topics=["orders"]) == set()
    with pytest.raises(native_log.UnknownTopicOrPartitionError, match="no topic order, but orders, payments"):
        topics(exclude_topics=["order"])
