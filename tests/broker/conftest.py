"""A broker that all tests of reading share. Tests of writing have brokers of their own.

Without Java 17 and Maven, these tests are skipped, or fail if KAFKALOG_REQUIRE_BROKER is 1.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.jvm import compile_java, unavailable_reason

from .cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
SHARED = pytest.StashKey["Cluster"]()
PROGRAMS = ("Client.java", "Lock.java", "RandomRecords.java")

# Kafka 4.1 does not enable streams groups by default.
STREAMS_GROUPS = {
    "group.coordinator.rebalance.protocols": "classic,consumer,streams",
    "unstable.api.versions.enable": "true",
    "unstable.feature.versions.enable": "true",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "100",
    "group.streams.num.standby.replicas": "1",
}


@pytest.fixture(scope="session")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Compile the Java programs and return their class path."""
    reason = unavailable_reason()
    if reason is not None:
        stop = pytest.fail if os.environ.get("KAFKALOG_REQUIRE_BROKER") == "1" else pytest.skip
        stop(f"no broker can run here: {reason}")
    return compile_java([HERE / name for name in PROGRAMS], tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="session")
def cluster(
    class_path: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    log_dir = tmp_path_factory.mktemp("broker") / "logs"
    cluster = Cluster(log_dir, class_path, settings=STREAMS_GROUPS)
    request.config.stash[SHARED] = cluster
    yield cluster
    cluster.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Stop the shared broker while other tests run: it works even if nobody asks it. It starts again."""
    yield
    cluster = item.config.stash.get(SHARED, None)
    if cluster is not None and nextitem is not None and nextitem.get_closest_marker("broker") is None:
        cluster.stop()
