"""Directories that brokers wrote give the same rows and errors from a bucket as from disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest

from native_log import LogDir
from native_log.arguments import IsolationLevel
from tests.builders.golden import DATA, GOLDEN, PARTITIONS
from tests.builders.golden_tiered import READABLE, TieredPartition
from tests.contents import COLUMNS, as_rows, everything_in

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.s3_server import S3Server

pytestmark = pytest.mark.object_store

LOG_DIRS = sorted({partition.path.parent for partition in PARTITIONS})


def url(path: Path) -> str:
    return f"s3://data/{path.relative_to(DATA).as_posix()}"


@pytest.mark.parametrize("path", LOG_DIRS, ids=lambda path: str(path.relative_to(GOLDEN)))
def test_log_directories(path: Path, s3: S3Server) -> None:
    remote = LogDir(url(path), storage_options=s3.options, high_watermark="checkpoint", include_deleted=True)
    local = LogDir(path, high_watermark="checkpoint", include_deleted=True)
    for found, expected in zip(everything_in(remote), everything_in(local), strict=True):
        assert found == expected
    for directory, other in zip(remote.partitions(), local.partitions(), strict=True):
        assert repr(remote.topic_facts(directory)) == repr(local.topic_facts(other))


@pytest.mark.parametrize("partition", READABLE, ids=str)
@pytest.mark.parametrize("level", get_args(IsolationLevel))
def test_tiers(partition: TieredPartition, level: IsolationLevel, s3: S3Server) -> None:
    remote = {**partition.remote, "remote": url(partition.folder / "tier")}
    log_dir = LogDir(url(partition.folder / "data"), storage_options=s3.options, **remote)
    log = log_dir.partition(*partition.key)
    assert as_rows(log.read(columns=COLUMNS, isolation_level=level)) == partition.rows(level)
