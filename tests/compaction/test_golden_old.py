"""Repeat the rounds of Kafka 2.8 with each message format. The records that survive are the same.

Kafka 2.8 sets no delete horizons. In format 2, too, it drops tombstones and markers by the age of the file.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import native_log
from native_log.records import scan
from tests.builders.compaction_rounds import ALWAYS
from tests.builders.golden import GOLDEN

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = sorted(GOLDEN.glob("kafka-2.8/compact-*/round*-before"))


def expected(fixture: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((fixture / "expected.json").read_text())
    return content


def rows(data: Path, topic: str) -> list[tuple[Any, ...]]:
    names = ["offset", "key", "value", "timestamp", "timestampType"]
    log = native_log.LogDir(data).partition(topic, 0)
    return [tuple(row[name] for name in names) for b in log.read(columns=names) for row in b.to_pylist()]


@pytest.mark.parametrize("before", ROUNDS, ids=lambda path: f"{path.parent.name}-{path.name[:6]}")
def test_survivors(before: Path, tmp_path: Path) -> None:
    topic, after = before.parent.name, before.with_name(before.name.replace("before", "after"))
    data = shutil.copytree(before / "data", tmp_path / "data")
    for file in expected(before)["files"]:
        os.utime(data / file["path"], ns=(file["mtimeMs"] * 1_000_000,) * 2)
    config = {**expected(after)["topics"][topic]["config"], **ALWAYS}

    (row,) = native_log.compact(data, topic, config=config).to_pylist()

    assert row["status"] == "cleaned"
    assert row["endOffset"] == expected(after)["facts"]["cleanerCheckpoint"]
    assert rows(data, topic) == rows(after / "data", topic)
    for log in (data / f"{topic}-0").glob("*.log"):
        if int(log.stem) < row["endOffset"] and topic in ("compact-v0", "compact-v1", "compact-v1-drop"):
            theirs = after / "data" / f"{topic}-0" / log.name
            codecs = scan(theirs.read_bytes()).batches.column("compression").unique().to_pylist()
            assert codecs not in ([], ["none"]) or log.read_bytes() == theirs.read_bytes()
            assert scan(log.read_bytes(), check_crcs=True).batches.column("isValid").false_count == 0


def test_there_are_rounds() -> None:
    assert len(ROUNDS) == 10
