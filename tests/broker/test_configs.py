"""Topic configurations read from a broker's metadata log equal those that the broker reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from native_log import LogDir

from .cluster import eventually

if TYPE_CHECKING:
    from .cluster import Cluster

pytestmark = pytest.mark.broker

TOPICS = ("configured", "reconfigured", "plain", "recreated")


def test_they_equal_those_of_the_broker(cluster: Cluster) -> None:
    cluster.create("configured", cleanup_policy="compact,delete", retention_ms=86_400_000)
    cluster.create("reconfigured", retention_ms=1000, segment_bytes=2_000_000, cleanup_policy="compact")
    cluster.alter("reconfigured", retention_ms=None, segment_bytes=3_000_000, max_compaction_lag_ms=77)
    cluster.create("plain")
    cluster.create("recreated", retention_bytes=1)
    cluster.delete("recreated")
    eventually(lambda: "recreated" in LogDir(cluster.log_dir).topics(), lambda is_there: not is_there)
    cluster.create("recreated", retention_ms=2)

    expected = {topic: cluster.configs(topic) for topic in TOPICS}

    assert expected["recreated"] == {"retention.ms": "2"}
    assert expected["plain"] == {}
    # The broker reports what it has read from its metadata log, so the records are in the file.
    configs = LogDir(cluster.log_dir).topic_configs
    assert {topic: configs[topic] for topic in TOPICS} == expected
