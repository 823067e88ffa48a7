"""Settings of all tests, and copies of the directories that brokers wrote."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from benchmarks.s3_server import S3Server, unavailable_reason
from native_log.records import IMPLEMENTATION
from tests.builders.golden import DATA, GOLDEN
from tests.class_sharing import spark_options
from tests.effort import examples
from tests.spark_home import spark_home

if TYPE_CHECKING:
    from collections.abc import Iterator

settings.register_profile(
    "kafkalog",
    max_examples=examples(50),
    deadline=None,  # tests must not fail on a busy machine
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("kafkalog")


MEMORY = Path("/dev/shm")
"""A file system in memory, where it takes an eighth of the time to create and remove files."""
MEMORY_BYTES = 8 << 30
"""It is used if so much is free. The tests put less than 1 GB there; the rest is for brokers and Spark."""


def pytest_configure() -> None:
    """Put temporary directories into memory, unless TMPDIR or --basetemp says where to put them."""
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and _memory_is_usable():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def _memory_is_usable() -> bool:
    """Return whether MEMORY has room, and programs can be started there. A container may forbid that."""
    (available_kb,) = re.findall(r"MemAvailable: +([0-9]+) kB", Path("/proc/meminfo").read_text())
    limit = Path("/sys/fs/cgroup/memory.max")
    allowed = limit.read_text().strip() if limit.exists() else "max"
    free_bytes = min(
        shutil.disk_usage(MEMORY).free,
        int(available_kb) << 10,
        sys.maxsize if allowed == "max" else int(allowed),
    )
    return free_bytes >= MEMORY_BYTES and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC


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


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server. Its bucket `data` has the files in tests/data.

    Without Go, which builds the server once, tests are skipped, or fail if KAFKALOG_REQUIRE_S3 is 1.
    """
    reason = unavailable_reason()
    if reason is not None:
        stop = pytest.fail if os.environ.get("KAFKALOG_REQUIRE_S3") == "1" else pytest.skip
        stop(f"no S3 server can run here: {reason}")
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        (server.root / "data").symlink_to(DATA)
        yield server


@pytest.fixture
def golden_copy(tmp_path: Path) -> Any:
    """A copy of a fixture's data directory that a test may change: golden_copy("kafka-4.1/plain-none")."""

    def copy(fixture: str) -> Path:
        return Path(shutil.copytree(GOLDEN / fixture / "data", tmp_path / "data"))

    return copy


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let child processes receive SIGINT. A shell's background job ignores it, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
