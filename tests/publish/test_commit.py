"""Staged files become part of the logs: offsets, segments, indexes, checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from native_log import LogDir
from native_log.logdir.checkpoints import OffsetCheckpoints
from native_log.publish import commit as publishing

from .support import expected, staged_job, tree, values, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    LogDir.create(tmp_path / "data")
    return tmp_path / "data"


def test_a_new_topic_and_then_more(data: Path) -> None:
    published = write(data, 0, 400)
    assert [(one.partition, one.start_offset, one.end_offset) for one in published] == [
        (0, 0, 200),
        (1, 0, 200),
    ]
    write(data, 400, 800)
    assert values(data) == expected((0, 800))
    saved = OffsetCheckpoints.read(data)
    assert saved.recovery_points == saved.high_watermarks == {("t", 0): 400, ("t", 1): 400}
    assert not [name for name in tree(data) if "kafkalog" in name]
    assert (data / ".kafka_cleanshutdown").exists()


def test_tasks_keep_their_order(data: Path) -> None:
    write(data, 0, 400, partitions=1, tasks=4)
    log = LogDir(data).partition("t", 0)
    found = [value for batch in log.read(columns=["value"]) for value in batch.column(0).to_pylist()]
    assert found == [b"v%d" % i for i in range(400)]


def test_nothing_is_seen_before_the_commit(data: Path) -> None:
    write(data, 0, 100)
    before = values(data)
    job, staged = staged_job(data, 100, 200)
    other, _ = staged_job(data, 100, 200)
    assert values(data) == before
    publishing.commit(job, staged, {}, 2)
    assert values(data) == expected((0, 200))
    other.end()
    assert not [name for name in tree(data) if "kafkalog" in name]
