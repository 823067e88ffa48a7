"""Logs that brokers wrote, damaged in many ways, merged with an undamaged copy."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from native_log import LogDir
from native_log.log.sources.joined import JoinedSource
from tests.builders.golden import GOLDEN

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

UNDAMAGED = "corrupt-undamaged"
DAMAGED = sorted(path.name for path in (GOLDEN / "kafka-4.1").glob("corrupt-*") if path.name != UNDAMAGED)
COLUMNS = ["offset", "key", "value", "timestamp", "timestampType", "headers", "leaderEpoch"]


def copy(fixture: str, log_dir: Path) -> Path:
    (source,) = (GOLDEN / f"kafka-4.1/{fixture}/data").glob("*-0")
    shutil.copytree(source, log_dir / "t-0")
    (log_dir / "t-0/partition.metadata").unlink(missing_ok=True)
    return log_dir


def read(*log_dirs: Path) -> pa.Table:
    log = LogDir(log_dirs, replicas="merge").partition("t", 0)
    assert isinstance(log.state.source, JoinedSource) == (len(log_dirs) > 1)
    return log.read(columns=COLUMNS).read_all()


def test_there_are_damaged_fixtures() -> None:
    assert len(DAMAGED) > 15


@pytest.mark.parametrize("fixture", DAMAGED)
def test_damage_is_replaced_by_an_undamaged_copy(fixture: str, tmp_path: Path) -> None:
    damaged, undamaged = copy(fixture, tmp_path / "damaged"), copy(UNDAMAGED, tmp_path / "undamaged")
    expected = read(undamaged)
    assert read(damaged, undamaged).equals(expected)
    assert read(undamaged, damaged).equals(expected)
