"""A broker deletes objects of remote storage while a log directory is opened."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from native_log import LogDir
from native_log.log.tiers import aiven_tier
from native_log.storage import Folder
from tests.builders.golden_tiered import TieredPartition, tiered
from tests.contents import offsets

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from native_log.storage import FileEntry, Storage


@pytest.fixture(params=["lts-txn", "aiven-zstd", "pinterest"])
def partition(request: pytest.FixtureRequest, tmp_path: Path) -> TieredPartition:
    return tiered(request.param).copy_to(tmp_path / "copy")


def local_offsets(partition: TieredPartition) -> list[int]:
    return offsets(LogDir(partition.folder / "data").partition(*partition.key).read(columns=["offset"]))


def delete_folder(partition: TieredPartition) -> None:
    """Delete all objects and their folder. An object store has no empty folders."""
    for folder in {each.parent for each in partition.objects()}:
        shutil.rmtree(folder)


def test_a_log_without_its_last_object(partition: TieredPartition) -> None:
    logs = LogDir(partition.folder / "data", **partition.remote)
    delete_folder(partition)
    assert offsets(logs.partition(*partition.key).read(columns=["offset"])) == local_offsets(partition)


def test_a_topic_that_is_deleted_while_topics_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = tiered("aiven-zstd").copy_to(tmp_path / "copy")
    deleted = next((partition.folder / "tier").glob("*packed*"))

    def list_and_delete(folder: Folder) -> Mapping[str, FileEntry]:
        entries = list_folder(folder)
        if folder.path == str(partition.folder / "tier"):
            shutil.rmtree(deleted)
        return entries

    list_folder = Folder.list
    monkeypatch.setattr(Folder, "list", list_and_delete)
    logs = LogDir(partition.folder / "data", **partition.remote)
    assert not deleted.exists()
    assert logs.partition(*partition.key).log_end_offset == partition.expected["latest"]


def test_a_manifest_that_is_deleted_after_it_was_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = tiered("aiven-zstd").copy_to(tmp_path / "copy")
    first = partition.objects()[0].name[:20]
    read_manifest = aiven_tier.read_manifest

    def delete_first(storage: Storage, path: str) -> Any:
        if f"/{first}-" in path:
            partition.delete_objects(int(first) + 1)
        return read_manifest(storage, path)

    monkeypatch.setattr(aiven_tier, "read_manifest", delete_first)
    (tmp_path / "empty").mkdir()
    remote = {**partition.remote, "remote_metadata": tmp_path / "empty"}
    log = LogDir(partition.folder / "data", **remote).partition(*partition.key)
    assert 0 < log.local_log_start_offset < local_offsets(partition)[0]
    assert offsets(log.read(columns=["offset"]))[0] == log.local_log_start_offset
