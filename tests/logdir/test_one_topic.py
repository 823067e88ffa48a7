"""Changes of some topics only."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import native_log
from tests.conftest import GOLDEN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN / "kafka-4.1/whole-broker/data", tmp_path / "logs")
    return tmp_path / "logs"


@pytest.mark.parametrize("change", [native_log.recover, native_log.reindex])
def test_a_single_name_is_a_topic(log_dir: Path, change: object) -> None:
    assert callable(change)
    for topics in ("events", ["events"], iter(["events"])):
        assert {one.partition.topic for one in change(log_dir, topics)} == {"events"}
    with pytest.raises(native_log.UnknownTopicOrPartitionError, match="there is no topic event,"):
        change(log_dir, "event")


@pytest.fixture
def two_topics(tmp_path: Path) -> Path:
    with native_log.LogDir.create(tmp_path / "logs") as logs:
        for topic in ("orders", "payments"):
            logs.create_topic(topic)
            logs.partition(topic, 0).append(pa.record_batch({"key": ["k"], "value": ["v"]}))
    return tmp_path / "logs"


@pytest.mark.parametrize(
    "change",
    [native_log.compact, native_log.retain, partial(native_log.erase, keys=["k"])],
    ids=["compact", "retain", "erase"],
)
def test_excluded_topics_are_left_alone(two_topics: Path, change: Callable[..., pa.Table]) -> None:
    def topics(*given: Any, **how: Any) -> set[str]:
        return set(change(two_topics, *given, dry_run=True, **how)["topic"].to_pylist())

    assert topics() == {"orders", "payments"}
    assert topics(exclude_topics="orders") == {"payments"}
    assert topics(["orders", "payments"], exclude_topics=iter(["payments", "payments"])) == {"orders"}
    assert topics("orders", exclude_topics=["orders"]) == set()
    with pytest.raises(native_log.UnknownTopicOrPartitionError, match="no topic order, but orders, payments"):
        topics(exclude_topics=["order"])
