"""URLs of HDFS that do not name a name node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from native_log import NotALogDirError
from native_log.logdir.discovery import readable_path
from native_log.storage import with_name_node

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    return tmp_path


def write_settings(folder: Path, **settings: str) -> None:
    properties = "".join(
        f"<property><name>{name}</name><value> {value}\n</value><final>true</final></property>"
        for name, value in settings.items()
    )
    text = f'<?xml version="1.0"?><!-- comment --><configuration>{properties}</configuration>'
    (folder / "core-site.xml").write_text(text)


@pytest.mark.parametrize("name", ["fs.defaultFS", "fs.default.name"])
def test_the_default_file_system_is_taken(folder: Path, name: str) -> None:
    write_settings(folder, **{"hadoop.tmp.dir": "/tmp", name: "hdfs://cluster:8020/"})
    assert with_name_node("hdfs:///kafka/logs") == "hdfs://cluster:8020/kafka/logs"
    assert str(readable_path("hdfs:///kafka/logs/")) == "hdfs://cluster:8020/kafka/logs"


def test_the_folder_below_hadoop_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "etc" / "hadoop").mkdir(parents=True)
    write_settings(folder / "etc" / "hadoop", **{"fs.defaultFS": "hdfs://ns"})
    monkeypatch.delenv("HADOOP_CONF_DIR")
    monkeypatch.setenv("HADOOP_HOME", str(folder))
    assert with_name_node("hdfs:///x") == "hdfs://ns/x"


@pytest.mark.parametrize("url", ["hdfs://other/x", "s3://bucket/x", "/x"])
def test_other_paths_stay(folder: Path, url: str) -> None:
    write_settings(folder, **{"fs.defaultFS": "hdfs://ns"})
    assert with_name_node(url) == url


@pytest.mark.parametrize(
    ("settings", "found"), [(None, "none"), ({}, "none"), ({"fs.defaultFS": "s3a://bucket"}, "s3a://bucket")]
)
def test_no_default_file_system_is_an_error(
    folder: Path, settings: dict[str, str] | None, found: str
) -> None:
    if settings is not None:
        write_settings(folder, **settings)
    with pytest.raises(NotALogDirError, match=f"expected a URL with a name node.* found {found}"):
        readable_path("hdfs:///kafka/logs")
    (folder / "core-site.xml").write_text("no xml")
    with pytest.raises(NotALogDirError, match="found none"):
        readable_path("hdfs:///kafka/logs")
