"""Topic configurations read from the metadata log of a broker, beside what the broker says they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from native_log import LogDir

from .cluster import eventually

if TYPE_CHECKING:
    from .cluster import Cluster

pytestmark = pytest.mark.broker

TOPICS = ("configured", "reconfigured", "plain", "made-anew")


def test_they_are_the_brokers(cluster: Cluster) -> None:
    cluster.create("configured", cleanup_policy="compact,delete", retention_ms=86_400_000)
    cluster.create("reconfigured", retention_ms=1000, segment_bytes=2_000_000, cleanup_policy="compact")
    cluster.alter("reconfigured", retention_ms=None, segment_bytes=3_000_000, max_compaction_lag_ms=77)
    cluster.create("plain")
    cluster.create("made-anew", retention_bytes=1)
    cluster.delete("made-anew")
    eventually(lambda: "made-anew" in LogDir(cluster.log_dir).topics(), lambda is_there: not is_there)
    cluster.create("made-anew", retention_ms=2)

    expected = {topic: cluster.configs(topic) for topic in TOPICS}

    assert expected["made-anew"] == {"retention.ms": "2"}
    assert expected["plain"] == {}
    # The broker describes what it has read of its metadata log, which is on disk by then.
    found = LogDir(cluster.log_dir).topic_configs
    assert {topic: found[topic] for topic in TOPICS} == expected
