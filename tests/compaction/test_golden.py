"""Repeat the rounds of brokers, and compare the results."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from dry_runs import as_done

import native_log
from native_log.checkpoints.offset_checkpoints import CLEANER_OFFSET_CHECKPOINT, read_offset_checkpoint
from tests.builders.batches import ABORT, marker
from tests.builders.compaction_rounds import ALWAYS, BrokerRound, batches, broker_rounds, logs, round_id
from tests.contents import files

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = broker_rounds()
DIFFERENT_WITH_COMPRESSION = ("position", "sizeInBytes", "crc")


def test_there_are_rounds() -> None:
    assert len(ROUNDS) > 15


@pytest.mark.parametrize("case", ROUNDS, ids=round_id)
def test_rounds(case: BrokerRound, tmp_path: Path) -> None:
    data = case.copy(tmp_path / "data")

    (row,) = native_log.compact(data, case.topic, config=case.config, now_ms=case.now_ms).to_pylist()

    assert row["status"] == "cleaned", row
    partition, expected = data / f"{case.topic}-0", case.after / "data" / f"{case.topic}-0"
    assert list(logs(partition)) == list(logs(expected))
    for name in logs(expected):
        theirs, ours = batches(expected / name), batches(partition / name)
        if all(batch["compression"] == "none" for batch in theirs):
            assert (partition / name).read_bytes() == (expected / name).read_bytes()
        for batch in (*theirs, *ours):
            assert batch["isValid"]
            for column in DIFFERENT_WITH_COMPRESSION if batch["compression"] != "none" else ("position",):
                del batch[column]
        assert ours == theirs
    end = row["endOffset"]
    assert read_offset_checkpoint(data / CLEANER_OFFSET_CHECKPOINT)[case.topic, 0] == end
    cleaned = [name for name in files(expected) if name[:20].isdigit() and int(name[:20]) < end]
    assert [name for name in files(partition) if name[:20].isdigit() and int(name[:20]) < end] == cleaned
    for name in cleaned:
        if name.endswith(".txnindex"):
            assert (partition / name).read_bytes() == (expected / name).read_bytes()


@pytest.mark.parametrize("case", ROUNDS, ids=round_id)
def test_a_dry_run_returns_the_same_and_writes_nothing(case: BrokerRound, tmp_path: Path) -> None:
    data = case.copy(tmp_path / "data")
    before = files(data)

    planned = native_log.compact(data, case.topic, config=case.config, now_ms=case.now_ms, dry_run=True)

    assert files(data) == before
    assert as_done(planned) == native_log.compact(data, case.topic, config=case.config, now_ms=case.now_ms)


def test_a_second_run_has_nothing_to_do(tmp_path: Path) -> None:
    case = next(case for case in ROUNDS if case.topic == "compact-txn")
    data = case.copy(tmp_path / "data")
    native_log.compact(data, case.topic, config=case.config, now_ms=case.now_ms)
    before = files(data)

    (row,) = native_log.compact(data, case.topic, config=case.config, now_ms=case.now_ms).to_pylist()

    assert row["status"] == "skipped"
    assert files(data) == before


@pytest.mark.parametrize("map_bytes", [1024, 2000, 5000])
@pytest.mark.parametrize("case", ROUNDS, ids=round_id)
def test_the_result_does_not_depend_on_the_number_of_maps(
    case: BrokerRound, map_bytes: int, tmp_path: Path
) -> None:
    whole, parts = case.copy(tmp_path / "whole"), case.copy(tmp_path / "parts")
    small = {"log.cleaner.dedupe.buffer.size": map_bytes, "log.cleaner.threads": 1}

    expected = native_log.compact(whole, case.topic, config=case.config, now_ms=case.now_ms)

    assert (
        native_log.compact(parts, case.topic, config={**case.config, **small}, now_ms=case.now_ms) == expected
    )
    assert files(parts) == files(whole)


def test_threads_share_the_work_and_the_memory(tmp_path: Path) -> None:
    case, other = ROUNDS[0], tmp_path / "other"
    data = case.copy(tmp_path / "data")
    for number in range(1, 20):
        shutil.copytree(data / f"{case.topic}-0", data / f"{case.topic}-{number}", copy_function=shutil.copy2)
    shutil.copytree(data, other, copy_function=shutil.copy2)
    steps: list[tuple[int, int]] = []

    alone = native_log.compact(
        data, case.topic, config={**case.config, "log.cleaner.threads": 1}, now_ms=case.now_ms
    )
    config = {**case.config, "log.cleaner.threads": 7, "log.cleaner.dedupe.buffer.size": 70_000}
    together = native_log.compact(
        other, case.topic, config=config, now_ms=case.now_ms, on_progress=lambda *step: steps.append(step)
    )

    assert alone.num_rows == 20
    assert together == alone
    assert files(other) == files(data)
    assert steps == sorted(steps)
    assert steps[-1] == (20_000, 20_000)


def test_the_transaction_index_keeps_the_first_offset_of_a_transaction(tmp_path: Path) -> None:
    """Even if compaction has removed its first batches, and later ones are not compacted yet: as in a
    broker."""
    native_log.LogDir.create(tmp_path / "logs").create_topic("t", 1)
    transaction = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}

    def write(segment_bytes: int, *abort_at: int) -> None:
        config = {"segment.bytes": segment_bytes}
        with native_log.LogDir(tmp_path / "logs").partition("t", 0, config=config) as log:
            for number in range(6):
                key = pa.record_batch({"key": [b"%d" % number], "value": [b"v"]})
                if number in abort_at:
                    log.append_batches(marker(0, 7, ABORT), origin="coordinator")
                elif abort_at and number < abort_at[0]:
                    log.append(key, base_sequence=number, **transaction)
                else:
                    log.append(key)

    write(250, 5)  # three segments; the last one has data of the transaction and its marker
    expected = {"first": 0, "last": 5}
    for _ in range(2):
        (row,) = native_log.compact(tmp_path / "logs", "t", config=ALWAYS).to_pylist()
        assert row["status"] == "cleaned"
        log = native_log.LogDir(tmp_path / "logs").partition("t", 0)
        entries = [entry for segment in log.segments for entry in segment.load_transaction_index().entries]
        assert [{"first": entry.first_offset, "last": entry.last_offset} for entry in entries] == [expected]
        write(100)


@pytest.mark.parametrize("options", [{"config": {"delete.retention.ms": 2**63 - 1}}, {"now_ms": 2**63 - 1}])
def test_a_delete_horizon_does_not_overflow(options: dict[str, Any], tmp_path: Path) -> None:
    case = next(case for case in ROUNDS if case.topic == "compact-tomb-keep")
    data = case.copy(tmp_path / "data")
    for _ in range(2):
        config = case.config | options.get("config", {})
        (row,) = native_log.compact(
            data, case.topic, config=config, now_ms=options.get("now_ms", case.now_ms)
        ).to_pylist()
        (data / CLEANER_OFFSET_CHECKPOINT).unlink()
    assert row["status"] == "cleaned"
    if "config" in options:
        assert (row["tombstonesKept"] > 0, row["lastExpiryMs"]) == (True, 2**63 - 1)
