"""What every test may use: the broker-written directories of tests/data."""

from __future__ import annotations

import base64
import gc
import gzip
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from native_log.records import IMPLEMENTATION
from tests.class_sharing import spark_options
from tests.effort import examples
from tests.spark_home import spark_home

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parent / "data"
GOLDEN = DATA / "golden"

settings.register_profile(
    "kafkalog",
    max_examples=examples(50),
    deadline=None,  # a busy machine is no reason to fail
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("kafkalog")


def pytest_report_header() -> str:
    return f"kafkalog: record formats run on the {IMPLEMENTATION}"


# No test cuts the power, and what a killed process wrote outlives it: there is no need to wait for the disk.
os.fsync = lambda _: None  # type: ignore[assignment, misc]


def pytest_sessionstart() -> None:
    if os.environ.get("KAFKALOG_REQUIRE_KERNEL") == "1" and IMPLEMENTATION != "kernel":
        pytest.exit("KAFKALOG_REQUIRE_KERNEL=1, but the compiled kernel is not there", returncode=3)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Use one process more than there are cores: tests wait for brokers, and for Spark."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take longest first: those that use Spark, then those that use a broker."""
    items.sort(key=lambda item: (not _is_marked(item, "spark", "connect"), not _is_marked(item, "broker")))


def pytest_collection_finish() -> None:
    """Exempt modules and tests from garbage collection, and from copies of memory in forked processes."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if _is_marked(item, "spark", "connect"):
        home = os.environ.setdefault("SPARK_HOME", str(spark_home()))
        os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(spark_options(home)))


def _is_marked(item: pytest.Item, *names: str) -> bool:
    return any(item.get_closest_marker(name) for name in names)


@dataclass(frozen=True)
class GoldenPartition:
    """One partition of one fixture, and what a broker and a consumer said of it."""

    fixture: str
    expected: dict[str, Any]
    facts: dict[str, Any]

    @property
    def path(self) -> Path:
        return GOLDEN / self.fixture / self.expected["dir"]

    @property
    def topic(self) -> str:
        return str(self.expected["topic"])

    @property
    def partition(self) -> int:
        return int(self.expected["partition"])

    def rows(self, isolation_level: str = "read_uncommitted") -> list[dict[str, Any]]:
        """The consumer's records, keys, values and header values as bytes."""
        rows = self.expected["rows"]
        if isolation_level == "read_committed" and self.expected["rowsCommitted"] is not None:
            rows = self.expected["rowsCommitted"]
        return read_rows(GOLDEN / self.fixture / rows["file"])


def read_rows(file: Path) -> list[dict[str, Any]]:
    def plain(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        row["key"], row["value"] = plain(row["key"]), plain(row["value"])
        row["headers"] = [(name, plain(value)) for name, value in row["headers"]]
    return rows


def golden_partitions() -> Iterator[GoldenPartition]:
    for file in sorted(GOLDEN.glob("**/expected.json")):
        expected = json.loads(file.read_text())
        for partition in expected["partitions"]:
            yield GoldenPartition(
                str(file.parent.relative_to(GOLDEN)), partition, expected.get("facts") or {}
            )


def golden_id(partition: GoldenPartition) -> str:
    return f"{partition.fixture}:{partition.topic}-{partition.partition}"


@pytest.fixture
def golden_copy(tmp_path: Path) -> Any:
    """A copy of a fixture's data directory that a test may change: golden_copy("kafka-4.1/plain-none")."""

    def copy(fixture: str) -> Path:
        return Path(shutil.copytree(GOLDEN / fixture / "data", tmp_path / "data"))

    return copy
