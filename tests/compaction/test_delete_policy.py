"""The delete policy of compacted logs: old segments are deleted after compaction, as a broker does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dry_runs import as_done

import native_log
from native_log.checkpoints.offset_checkpoints import LOG_START_OFFSET_CHECKPOINT, read_offset_checkpoint
from tests.builders.compaction_rounds import BrokerRound, broker_rounds, round_id
from tests.contents import files

ROUNDS = broker_rounds()
BOTH = {"cleanup.policy": "compact,delete", "segment.bytes": 4000}
LIMITS = [
    {"retention.ms": -1, "retention.bytes": 5000},
    {"retention.ms": -1, "retention.bytes": 0},
    {"retention.ms": 1},
    {"retention.ms": 10**9, "retention.bytes": 3000},
]


@pytest.fixture
def case() -> BrokerRound:
    return next(case for case in ROUNDS if case.topic == "compact-codecs" and len(list_logs(case.before)) > 3)


def list_logs(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.log"))


def newest_ms(data: Path, topic: str) -> int:
    log = native_log.LogDir(data).partition(topic, 0)
    return max(max(b.column("maxTimestamp").to_pylist(), default=0) or 0 for b in log.batches())


def names(row: dict[str, Any]) -> set[str]:
    return {setting["name"] for setting in row["settings"]}


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("case", ROUNDS, ids=round_id)
def test_the_result_is_that_of_compact_and_then_retain(
    case: BrokerRound, limits: dict[str, int], tmp_path: Path
) -> None:
    config = case.config | BOTH | limits
    both, in_turn = case.copy(tmp_path / "both"), case.copy(tmp_path / "in-turn")
    options: dict[str, Any] = {"now_ms": newest_ms(both, case.topic) + 10**9 // 2}
    before = files(both)
    planned = native_log.compact(both, case.topic, config=config, dry_run=True, **options)
    assert files(both) == before

    (row,) = native_log.compact(both, case.topic, config=config, **options).to_pylist()

    assert as_done(planned).to_pylist() == [row]
    (alone,) = native_log.compact(
        in_turn, case.topic, config=config | {"cleanup.policy": "compact"}, **options
    ).to_pylist()
    segments = native_log.retain(in_turn, case.topic, config=config, **options).to_pylist()
    deleted = [segment["sizeInBytes"] for segment in segments if segment["decision"] == "deleted"]
    expected = alone | {"segmentsDeleted": len(deleted), "bytesDeleted": sum(deleted)}
    assert row == expected | {"settings": row["settings"]}
    assert {"retention.ms", "retention.bytes"} == names(row) - names(alone)
    if "retention.bytes" in limits and limits["retention.bytes"] < 5000:
        assert deleted
    assert files(both) == files(in_turn)


def test_with_compact_alone_segments_below_the_log_start_are_deleted(
    case: BrokerRound, tmp_path: Path
) -> None:
    data = case.copy(tmp_path / "data")
    topic, config = case.topic, case.config | {"segment.bytes": 4000}
    log = native_log.LogDir(data).partition(topic, 0)
    start = log.segments[-1].base_offset
    native_log.delete_records(data, {(topic, 0): start})

    (row,) = native_log.compact(data, case.topic, config=config, now_ms=case.now_ms).to_pylist()

    assert (row["status"], row["segmentsDeleted"]) == ("skipped", len(log.segments) - 1)
    log = native_log.LogDir(data).partition(topic, 0)
    assert [segment.base_offset for segment in log.segments] == [start]


def test_old_segments_of_a_log_that_is_not_worth_compacting_are_deleted(
    case: BrokerRound, tmp_path: Path
) -> None:
    data = case.copy(tmp_path / "data")
    config = case.config | BOTH | {"min.cleanable.dirty.ratio": 1, "retention.bytes": 0, "retention.ms": -1}

    planned = native_log.compact(
        data, case.topic, config=config, now_ms=case.now_ms, dry_run=True
    ).to_pylist()
    (row,) = native_log.compact(data, case.topic, config=config, now_ms=case.now_ms).to_pylist()

    assert [row] == planned
    assert row["status"] == "skipped"
    assert row["segmentsDeleted"] > 1
    log = native_log.LogDir(data).partition(case.topic, 0)
    assert (log.log_start_offset, log.segments[-1].size_bytes) == (log.log_end_offset, 0)
    saved = read_offset_checkpoint(data / LOG_START_OFFSET_CHECKPOINT)
    assert saved[case.topic, 0] == log.log_start_offset


def test_nothing_is_deleted_from_a_log_whose_compaction_failed(case: BrokerRound, tmp_path: Path) -> None:
    data = case.copy(tmp_path / "data")
    path = list_logs(data)[1]
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)
    before = files(data)
    config = case.config | BOTH | {"retention.bytes": 0}

    (row,) = native_log.compact(data, case.topic, config=config, now_ms=case.now_ms).to_pylist()

    assert (row["status"], row["segmentsDeleted"]) == ("failed", 0)
    assert files(data) == before


def test_a_failed_deletion_is_reported(
    case: BrokerRound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = case.copy(tmp_path / "data")
    rename = Path.rename

    def fail_to_rename(path: Path, target: Path) -> Path:
        if Path(target).name.endswith(".log.deleted") and not list(data.rglob("*.swap")):
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_to_rename)
    config = case.config | BOTH | {"retention.bytes": 0, "retention.ms": -1}

    (row,) = native_log.compact(data, case.topic, config=config, now_ms=case.now_ms).to_pylist()

    assert (row["status"], row["segmentsDeleted"]) == ("failed", 0)
    assert row["reason"].startswith("cleaned, but not all of its old segments were deleted")


def test_a_policy_without_compact_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(native_log.InvalidConfigError, match=r"cleanup\.policy: expected compact"):
        native_log.compact(tmp_path, config={"cleanup.policy": "delete"})
