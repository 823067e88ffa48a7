"""One broker for all tests of reading; those of writing have their own.

Without Java 17 and Maven they are skipped; with KAFKALOG_REQUIRE_BROKER=1 that is an error.
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


@pytest.fixture(scope="session")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the Java programs."""
    why_not = unavailable_reason()
    if why_not is not None:
        say = pytest.fail if os.environ.get("KAFKALOG_REQUIRE_BROKER") == "1" else pytest.skip
        say(f"no real broker to test with: {why_not}")
    return compile_java([HERE / "Client.java", HERE / "Lock.java"], tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="session")
def cluster(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("broker") / "logs", class_path)
    yield cluster
    cluster.stop()
