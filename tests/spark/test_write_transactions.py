"""Writes with txnAppId and txnVersion: each version is written once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType

from kafkalog_spark.options.write import parse_write_options
from kafkalog_spark.write.batch import publish
from kafkalog_spark.write.plan import WritePlan
from kafkalog_spark.write.task import write_task
from native_log import LogDir
from native_log.checkpoints.write_intent import WriteIntent
from tests.builders.commits import records, values
from tests.publish.test_crash import run_killed

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = StructType().add("key", "string").add("value", "string")


def write(data: Path, start: int, end: int, **options: Any) -> None:
    """Write values `start` to `end` (exclusive) with one task, to topic t by default."""
    settings = {"path": str(data), "topic": "t", **{name: str(value) for name, value in options.items()}}
    plan = WritePlan.begin(parse_write_options(settings), SCHEMA)
    publish(plan, [write_task(plan, iter([records(start, end)]))])


def numbers(data: Path, topic: str = "t") -> list[int]:
    return sorted(int(value.removeprefix("v")) for value in values(data, topic))


def test_only_greater_versions_are_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, 0, 5, txnAppId="a", txnVersion=3)
    assert "skipped" not in caplog.text
    for version in (3, 2, 0):
        write(tmp_path, 5, 10, txnAppId="a", txnVersion=version)
        assert f"skipped version {version} of txnAppId a" in caplog.text
    assert numbers(tmp_path) == [*range(5)]
    write(tmp_path, 5, 10, txnAppId="a", txnVersion=2**63 - 1)
    assert numbers(tmp_path) == [*range(10)]
    assert len([*tmp_path.rglob(".kafkalog*")]) == 1


def test_ids_and_topics_have_their_own_versions(tmp_path: Path) -> None:
    for _ in range(2):
        write(tmp_path, 0, 5, txnAppId="a", txnVersion=1)
        write(tmp_path, 5, 10, txnAppId="../b", txnVersion=1)
        write(tmp_path, 10, 15, txnAppId="a", txnVersion=1, topic="u")
    assert numbers(tmp_path) == [*range(10)]
    assert numbers(tmp_path, "u") == [*range(10, 15)]
    write(tmp_path, 15, 20)
    write(tmp_path, 15, 20)
    assert len(numbers(tmp_path)) == 20


def test_a_failed_write_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 0, 5, txnAppId="a", txnVersion=1)

    def fail(*_: object) -> None:
        raise OSError("before the commit")

    with monkeypatch.context() as patch:
        patch.setattr(WriteIntent, "commit", fail)
        with pytest.raises(OSError, match="before the commit"):
            write(tmp_path, 5, 10, txnAppId="a", txnVersion=2)
    assert numbers(tmp_path) == [*range(5)]
    write(tmp_path, 5, 10, txnAppId="a", txnVersion=2)
    assert numbers(tmp_path) == [*range(10)]


def test_killed_at_any_change_and_repeated(tmp_path: Path) -> None:
    """A process is killed before each change of a file, also after the commit, and the write is run again."""
    committed = step = 0
    was_killed = True
    while was_killed:
        data = tmp_path / str(step)
        LogDir.create(data)
        write(data, 0, 5, txnAppId="a", txnVersion=1)
        was_killed = run_killed(lambda data=data: write(data, 5, 10, txnAppId="a", txnVersion=2), step)
        end_offset = LogDir(data).partition("t", 0).high_watermark
        assert end_offset in (5, 10), step
        committed += was_killed and end_offset == 10
        write(data, 5, 10, txnAppId="a", txnVersion=2)
        assert numbers(data) == [*range(10)], step
        step += 1
    assert step > 10
    assert committed > 0
