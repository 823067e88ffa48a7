"""Jobs whose tasks are retried, or whose driver is killed. They run in a driver in a separate process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import native_log
from tests.contents import files

from . import retried_jobs as jobs
from .cluster import Driver
from .test_compact import CONFIG, IN_PARTS, NOW_MS, log_dir, topics
from .test_retain import NEWEST, arguments, copy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver whose tasks may run three times."""
    driver = Driver(tmp_path_factory.mktemp("driver"), "local[2,3]")
    yield driver
    driver.kill()


def logged_failures(driver: Driver) -> int:
    """Return how many failures of tasks the driver has logged."""
    return (driver.path / "stderr").read_text().count(jobs.FAILURE)


def values(logs: Path) -> list[str]:
    log_dir = native_log.LogDir(logs)
    return sorted(
        value.decode()
        for partition in (0, 1)
        for batch in log_dir.partition("t", partition).read(columns=["value"])
        for value in batch.column(0).to_pylist()
    )


def test_every_task_of_a_write_fails_once(driver: Driver, tmp_path: Path) -> None:
    driver.call(jobs.write, tmp_path / "logs")
    assert logged_failures(driver) > 0
    assert values(tmp_path / "logs") == sorted(f"v{i}" for i in range(jobs.ROWS))
    assert not [path for path in (tmp_path / "logs").rglob("*") if "kafkalog" in path.name]


def test_every_task_of_a_compaction_fails_once(driver: Driver, tmp_path: Path) -> None:
    local, data = log_dir(tmp_path / "local", "round1"), log_dir(tmp_path / "data", "round1")
    native_log.compact(local, topics(local), config=CONFIG, now_ms=NOW_MS)
    # With larger splits there are fewer tasks. Each failure costs a Python process.
    parts = IN_PARTS | {"split_bytes": 20_000}
    options = {"topics": topics(data), "config": CONFIG, "now_ms": NOW_MS, **parts}
    before = logged_failures(driver)

    statuses = driver.call(jobs.compact_in_parts, data, options)

    assert statuses == ["cleaned"] * len(topics(data))
    assert logged_failures(driver) > before
    assert files(data) == files(local)


def test_retention_with_tasks_that_fail_once_and_a_killed_driver(driver: Driver, tmp_path: Path) -> None:
    before = NEWEST[0]
    options = arguments(before)
    local, data = (copy(before, tmp_path / name) for name in ("local", "data"))
    native_log.retain(local, **options)

    with pytest.raises(AssertionError, match="the driver died"):
        driver.call(jobs.retain_old, data, options, 2)
    driver.kill()
    assert files(data) != files(local)

    failures = logged_failures(driver)
    driver.call(jobs.retain_old, data, options)
    assert logged_failures(driver) > failures
    assert files(data) == files(local)
