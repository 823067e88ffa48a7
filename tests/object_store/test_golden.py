"""Directories that brokers wrote give the same rows and errors from a bucket as from disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pyarrow.compute as pc
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


@pytest.mark.parametrize(
    "path", LOG_DIRS[:: len(LOG_DIRS) // 12], ids=lambda path: str(path.relative_to(GOLDEN))
)
def test_scans_and_filters(path: Path, s3: S3Server) -> None:
    remote = LogDir(url(path), storage_options=s3.options, include_deleted=True)
    local = LogDir(path, include_deleted=True)
    for filter in (
        "offset >= 3 AND offset < 40",
        "key IS NULL",
        "timestamp > '2020-01-01' AND NOT isTransactional",
    ):
        found, expected = (
            each.scan(columns=["topic", "partition", "offset", "value"], filter=filter, mode="dropMalformed")
            for each in (remote, local)
        )
        assert found.to_table().equals(expected.to_table())
        assert found.count_rows() == expected.count_rows()


@pytest.mark.parametrize("partition", READABLE, ids=str)
def test_filters_of_tiers(partition: TieredPartition, s3: S3Server) -> None:
    remote = {**partition.remote, "remote": url(partition.folder / "tier")}
    log = LogDir(url(partition.folder / "data"), storage_options=s3.options, **remote).partition(
        *partition.key
    )
    rows = log.read(columns=COLUMNS).read_all()
    middle = rows["offset"][rows.num_rows // 2]
    for filter in (pc.field("offset") >= middle, pc.field("key").is_valid(), pc.field("offset") < middle):
        expected = rows.filter(filter)
        assert log.read(columns=COLUMNS, filter=filter).read_all().equals(expected)
        assert log.scan(columns=["offset"], filter=filter).count_rows() == expected.num_rows
    assert log.scan().count_rows() == rows.num_rows
