"""Rounds of brokers' cleaners, done again."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import native_log
from native_log.checkpoints.offset_checkpoints import CLEANER_OFFSET_CHECKPOINT, read_offset_checkpoint
from tests.records.build import ABORT, marker

from .support import ALWAYS, BrokersRound, batches, files, logs, round_id, rounds

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = rounds()
COMPRESSORS_DIFFER = ("position", "sizeInBytes", "crc")


def test_there_are_rounds() -> None:
    assert len(ROUNDS) > 15


@pytest.mark.parametrize("one", ROUNDS, ids=round_id)
def test_rounds(one: BrokersRound, tmp_path: Path) -> None:
    data = one.copy(tmp_path / "data")

    (row,) = native_log.compact(data, one.topic, config=one.config, now_ms=one.now_ms).to_pylist()

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

    told = native_log.compact(data, one.topic, config=one.config, now_ms=one.now_ms, dry_run=True)

    assert files(data) == before
    assert told == native_log.compact(data, one.topic, config=one.config, now_ms=one.now_ms)


def test_a_second_run_has_nothing_to_do(tmp_path: Path) -> None:
    one = next(one for one in ROUNDS if one.topic == "compact-txn")
    data = one.copy(tmp_path / "data")
    native_log.compact(data, one.topic, config=one.config, now_ms=one.now_ms)
    before = files(data)

    (row,) = native_log.compact(data, one.topic, config=one.config, now_ms=one.now_ms).to_pylist()

    assert row["status"] == "skipped"
    assert files(data) == before


@pytest.mark.parametrize("map_bytes", [1024, 2000, 5000])
@pytest.mark.parametrize("one", ROUNDS, ids=round_id)
def test_keys_that_one_map_has_no_room_for_make_no_difference(
    one: BrokersRound, map_bytes: int, tmp_path: Path
) -> None:
    whole, parts = one.copy(tmp_path / "whole"), one.copy(tmp_path / "parts")
    small = {"log.cleaner.dedupe.buffer.size": map_bytes, "log.cleaner.threads": 1}

    told = native_log.compact(whole, one.topic, config=one.config, now_ms=one.now_ms)

    assert native_log.compact(parts, one.topic, config={**one.config, **small}, now_ms=one.now_ms) == told
    assert files(parts) == files(whole)


def test_threads_share_the_work_and_the_memory(tmp_path: Path) -> None:
    one, other = ROUNDS[0], tmp_path / "other"
    data = one.copy(tmp_path / "data")
    for number in range(1, 20):
        shutil.copytree(data / f"{one.topic}-0", data / f"{one.topic}-{number}", copy_function=shutil.copy2)
    shutil.copytree(data, other, copy_function=shutil.copy2)
    steps: list[tuple[int, int]] = []

    alone = native_log.compact(
        data, one.topic, config={**one.config, "log.cleaner.threads": 1}, now_ms=one.now_ms
    )
    config = {**one.config, "log.cleaner.threads": 7, "log.cleaner.dedupe.buffer.size": 70_000}
    together = native_log.compact(
        other, one.topic, config=config, now_ms=one.now_ms, on_progress=lambda *told: steps.append(told)
    )

    assert alone.num_rows == 20
    assert together == alone
    assert files(other) == files(data)
    assert steps == sorted(steps)
    assert steps[-1] == (20_000, 20_000)


def test_an_aborted_transaction_is_known_by_where_it_began(tmp_path: Path) -> None:
    """Also once its first batches are gone, and others are left that no round has come to: as brokers do."""
    native_log.LogDir.create(tmp_path / "logs").create_topic("t", 1)
    how = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}

    def write(segment_bytes: int, *abort_at: int) -> None:
        config = {"segment.bytes": segment_bytes}
        with native_log.LogDir(tmp_path / "logs").partition("t", 0, config=config) as log:
            for number in range(6):
                key = pa.record_batch({"key": [b"%d" % number], "value": [b"v"]})
                if number in abort_at:
                    log.append_batches(marker(0, 7, ABORT), origin="coordinator")
                elif abort_at and number < abort_at[0]:
                    log.append(key, base_sequence=number, **how)
                else:
                    log.append(key)

    write(250, 5)  # three segments, the last of which has data of the transaction and its marker
    entry = {"first": 0, "last": 5}
    for _ in range(2):
        (row,) = native_log.compact(tmp_path / "logs", "t", config=ALWAYS).to_pylist()
        assert row["status"] == "cleaned"
        log = native_log.LogDir(tmp_path / "logs").partition("t", 0)
        found = [one for segment in log.segments for one in segment.load_transaction_index().entries]
        assert [{"first": one.first_offset, "last": one.last_offset} for one in found] == [entry]
        write(100)


@pytest.mark.parametrize("when", [{"config": {"delete.retention.ms": 2**63 - 1}}, {"now_ms": 2**63 - 1}])
def test_tombstones_may_stay_for_ever(when: dict[str, Any], tmp_path: Path) -> None:
    one = next(one for one in ROUNDS if one.topic == "compact-tomb-keep")
    data = one.copy(tmp_path / "data")
    for _ in range(2):
        config = one.config | when.get("config", {})
        (row,) = native_log.compact(
            data, one.topic, config=config, now_ms=when.get("now_ms", one.now_ms)
        ).to_pylist()
        (data / CLEANER_OFFSET_CHECKPOINT).unlink()
    assert row["status"] == "cleaned"
    if "config" in when:
        assert (row["tombstonesKept"] > 0, row["lastExpiryMs"]) == (True, 2**63 - 1)
