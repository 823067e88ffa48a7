from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from native_log.checkpoints.meta_properties import parse_properties, read_meta_properties
from native_log.logdir import MetaProperties
from tests.builders.golden import GOLDEN

if TYPE_CHECKING:
    from pathlib import Path


def test_a_kraft_brokers() -> None:
    assert read_meta_properties(GOLDEN / "kafka-4.1/whole-broker/data") == MetaProperties(
        version=1, cluster_id="Z29sZGVuLWZpeHR1cmVzMQ", node_id=1, directory_id="EnLPaIafOS4u6TmZoJcUQg"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#\n#Fri\nversion=0\nbroker.id=7\ncluster.id=abc\n", MetaProperties(0, "abc", 7, None)),
        ("broker.id=7\n", MetaProperties(0, None, 7, None)),
        ("", MetaProperties(0, None, None, None)),
        ("version=1\r\nnode.id : 3\r\ncluster.id=a\\=b\\u0041=\r\n", MetaProperties(1, "a=bA=", 3, None)),
    ],
)
def test_versions(tmp_path: Path, text: str, expected: MetaProperties) -> None:
    (tmp_path / "meta.properties").write_bytes(text.encode())
    assert read_meta_properties(tmp_path) == expected


def test_none(tmp_path: Path) -> None:
    assert read_meta_properties(tmp_path) is None


def test_malformed_files_are_ignored_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "meta.properties").write_bytes(b"version=one\n\xff\xfe\n")
    with caplog.at_level(logging.WARNING, "native_log"):
        assert read_meta_properties(tmp_path) is None
    assert "meta.properties" in caplog.text


def test_grammar() -> None:
    assert parse_properties("# c\n! c\na=1\n b : 2 \nc 3\nd=\n=5\ne=x=y\n") == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "",
        "e": "x=y",
    }
