"""Empty remote storage, which only metadata distinguishes from a wrong path."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from native_log import KafkaLogError, LogDir
from native_log.checkpoints.names import REMOTE_LOG_METADATA_TOPIC
from tests.builders.golden_tiered import tiered
from tests.contents import offsets

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.s3_server import S3Server

PARTITION = tiered("lts-txn")


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A log directory with a partition whose records are all local, and metadata without records."""
    source = PARTITION.folder / "data"
    with LogDir.create(tmp_path / "data") as logs:
        logs.create_topic(REMOTE_LOG_METADATA_TOPIC, topic_id="AAAAAAAAAAAAAAAAAAAABQ")
    name = "{}-{}".format(*PARTITION.key)
    shutil.copytree(source / name, tmp_path / "data" / name)
    (tmp_path / "tier").mkdir()
    return tmp_path / "data"


def read(local: Path, **remote: object) -> list[int]:
    log = LogDir(local, **remote).partition(*PARTITION.key)  # type: ignore[arg-type]
    return offsets(log.read(columns=["offset"]))


def test_nothing_is_in_remote_storage_yet(local: Path, tmp_path: Path) -> None:
    alone = read(local)
    assert alone
    assert read(local, remote=tmp_path / "tier") == alone
    shutil.copytree(PARTITION.folder / "tier", tmp_path / "tier", dirs_exist_ok=True)
    assert read(local, remote=tmp_path / "tier") == [row["offset"] for row in PARTITION.rows()]


@pytest.mark.object_store
def test_a_bucket_has_no_folder_yet(local: Path, s3: S3Server) -> None:
    (s3.root / "empty-tier").mkdir()
    assert read(local, remote="s3://empty-tier/tier", storage_options=s3.options) == read(local)


def test_the_metadata_names_segments(tmp_path: Path) -> None:
    (tmp_path / "tier").mkdir()
    with pytest.raises(KafkaLogError, match="expected partitions in remote storage"):
        read(PARTITION.folder / "data", remote=tmp_path / "tier")


def test_no_metadata(local: Path, tmp_path: Path) -> None:
    shutil.rmtree(local / f"{REMOTE_LOG_METADATA_TOPIC}-0")
    with pytest.raises(KafkaLogError, match="expected partitions in remote storage"):
        read(local, remote=tmp_path / "tier")


def test_a_directory_that_does_not_exist(local: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="other"):
        read(local, remote=tmp_path / "other")


@pytest.mark.object_store
def test_a_bucket_without_the_objects_that_the_metadata_names(s3: S3Server) -> None:
    (s3.root / "wrong-tier").mkdir()
    with pytest.raises(FileNotFoundError, match="s3://wrong-tier/tier"):
        read(PARTITION.folder / "data", remote="s3://wrong-tier/tier", storage_options=s3.options)
