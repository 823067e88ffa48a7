"""Recovery and reindexing of some topics only."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import native_log
from tests.conftest import GOLDEN

if TYPE_CHECKING:
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
