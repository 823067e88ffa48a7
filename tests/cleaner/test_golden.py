"""Rounds of brokers' cleaners, done again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import native_log
from native_log.logdir.checkpoints import CLEANER_OFFSET_CHECKPOINT, read_offset_checkpoint

from .support import BrokersRound, batches, files, logs, round_id, rounds

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = rounds()
COMPRESSORS_DIFFER = ("position", "sizeInBytes", "crc")


def test_there_are_rounds() -> None:
    assert len(ROUNDS) > 15


@pytest.mark.parametrize("one", ROUNDS, ids=round_id)
def test_rounds(one: BrokersRound, tmp_path: Path) -> None:
    data = one.copy(tmp_path / "data")

    (row,) = native_log.compact(data, config=one.config, now_ms=one.now_ms).to_pylist()

    assert row["status"] == "cleaned", row
    partition, expected = data / f"{one.topic}-0", one.after / "data" / f"{one.topic}-0"
    assert list(logs(partition)) == list(logs(expected))
    for name in logs(expected):
        theirs, ours = batches(expected / name), batches(partition / name)
        if all(batch["compression"] == "none" for batch in theirs):
            assert (partition / name).read_bytes() == (expected / name).read_bytes()
        for batch in (*theirs, *ours):
            assert batch["isValid"]
            for column in COMPRESSORS_DIFFER if batch["compression"] != "none" else ("position",):
                del batch[column]
        assert ours == theirs
    end = row["endOffset"]
    assert read_offset_checkpoint(data / CLEANER_OFFSET_CHECKPOINT)[one.topic, 0] == end
    cleaned = [name for name in files(expected) if name[:20].isdigit() and int(name[:20]) < end]
    assert [name for name in files(partition) if name[:20].isdigit() and int(name[:20]) < end] == cleaned
    for name in cleaned:
        if name.endswith(".txnindex"):
            assert (partition / name).read_bytes() == (expected / name).read_bytes()


@pytest.mark.parametrize("one", ROUNDS, ids=round_id)
def test_a_dry_run_tells_the_same_and_writes_nothing(one: BrokersRound, tmp_path: Path) -> None:
    data = one.copy(tmp_path / "data")
    before = files(data)

    told = native_log.compact(data, config=one.config, now_ms=one.now_ms, dry_run=True)

    assert files(data) == before
    assert told == native_log.compact(data, config=one.config, now_ms=one.now_ms)


def test_a_second_run_has_nothing_to_do(tmp_path: Path) -> None:
    one = next(one for one in ROUNDS if one.topic == "compact-txn")
    data = one.copy(tmp_path / "data")
    native_log.compact(data, config=one.config, now_ms=one.now_ms)
    before = files(data)

    (row,) = native_log.compact(data, config=one.config, now_ms=one.now_ms).to_pylist()

    assert row["status"] == "skipped"
    assert files(data) == before


def test_a_map_that_becomes_full_takes_several_rounds_to_the_same_survivors(tmp_path: Path) -> None:
    one = next(one for one in ROUNDS if one.topic == "compact-idem")
    whole, parts = one.copy(tmp_path / "whole"), one.copy(tmp_path / "parts")
    native_log.compact(whole, config=one.config, now_ms=one.now_ms)
    config = {**one.config, "log.cleaner.dedupe.buffer.size": "1024"}

    found = []
    while True:
        (row,) = native_log.compact(parts, config=config, now_ms=one.now_ms).to_pylist()
        if row["status"] == "skipped":
            break
        found.append(row["endOffset"])

    assert len(found) > 2
    assert found == sorted(set(found))

    def records(data: Path) -> list[object]:
        log = native_log.LogDir(data).partition(one.topic, 0)
        return [row for batch in log.read(columns=["offset", "key", "value"]) for row in batch.to_pylist()]

    assert records(parts) == records(whole)
