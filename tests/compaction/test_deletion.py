"""What a cleaning deletes besides, as brokers' cleaners do: old segments of the log that it leaves."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import native_log
from native_log.checkpoints.offset_checkpoints import LOG_START_OFFSET_CHECKPOINT, read_offset_checkpoint

from .support import BrokersRound, files, round_id, rounds

ROUNDS = rounds()
BOTH = {"cleanup.policy": "compact,delete", "segment.bytes": 4000}
LIMITS = [
    {"retention.ms": -1, "retention.bytes": 5000},
    {"retention.ms": -1, "retention.bytes": 0},
    {"retention.ms": 1},
    {"retention.ms": 10**9, "retention.bytes": 3000},
]


def copied(data: Path, to: Path) -> Path:
    return Path(shutil.copytree(data, to, copy_function=shutil.copy2))


@pytest.fixture
def one() -> BrokersRound:
    return next(one for one in ROUNDS if one.topic == "compact-codecs" and len(list_logs(one.before)) > 3)


def list_logs(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.log"))


def newest_ms(data: Path, topic: str) -> int:
    log = native_log.LogDir(data).partition(topic, 0)
    return max(max(b.column("maxTimestamp").to_pylist(), default=0) or 0 for b in log.batches())


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("one", ROUNDS, ids=round_id)
def test_it_is_retention_of_what_cleaning_left(
    one: BrokersRound, limits: dict[str, int], tmp_path: Path
) -> None:
    config = one.config | BOTH | limits
    both, by_turns = one.copy(tmp_path / "both"), one.copy(tmp_path / "by-turns")
    how: dict[str, Any] = {"now_ms": newest_ms(both, one.topic) + 10**9 // 2}
    before = files(both)
    foretold = native_log.compact(both, one.topic, config=config, dry_run=True, **how)
    assert files(both) == before

    (told,) = native_log.compact(both, one.topic, config=config, **how).to_pylist()

    assert foretold.to_pylist() == [told]
    (alone,) = native_log.compact(
        by_turns, one.topic, config=config | {"cleanup.policy": "compact"}, **how
    ).to_pylist()
    segments = native_log.retain(by_turns, one.topic, config=config, **how).to_pylist()
    gone = [one["sizeInBytes"] for one in segments if one["decision"] == "deleted"]
    assert told == alone | {"segmentsDeleted": len(gone), "bytesDeleted": sum(gone)}
    if "retention.bytes" in limits and limits["retention.bytes"] < 5000:
        assert gone
    assert files(both) == files(by_turns)


def test_what_lies_below_the_log_start_goes_from_a_log_that_is_compacted_only(
    one: BrokersRound, tmp_path: Path
) -> None:
    data = one.copy(tmp_path / "data")
    topic, config = one.topic, one.config | {"segment.bytes": 4000}
    log = native_log.LogDir(data).partition(topic, 0)
    start = log.segments[-1].base_offset
    native_log.delete_records(data, {(topic, 0): start})

    (told,) = native_log.compact(data, one.topic, config=config, now_ms=one.now_ms).to_pylist()

    assert (told["status"], told["segmentsDeleted"]) == ("skipped", len(log.segments) - 1)
    log = native_log.LogDir(data).partition(topic, 0)
    assert [segment.base_offset for segment in log.segments] == [start]


def test_a_log_not_worth_cleaning_is_deleted_of(one: BrokersRound, tmp_path: Path) -> None:
    data = one.copy(tmp_path / "data")
    config = one.config | BOTH | {"min.cleanable.dirty.ratio": 1, "retention.bytes": 0, "retention.ms": -1}

    foretold = native_log.compact(data, one.topic, config=config, now_ms=one.now_ms, dry_run=True).to_pylist()
    (told,) = native_log.compact(data, one.topic, config=config, now_ms=one.now_ms).to_pylist()

    assert [told] == foretold
    assert told["status"] == "skipped"
    assert told["segmentsDeleted"] > 1
    log = native_log.LogDir(data).partition(one.topic, 0)
    assert (log.log_start_offset, log.segments[-1].size_bytes) == (log.log_end_offset, 0)
    saved = read_offset_checkpoint(data / LOG_START_OFFSET_CHECKPOINT)
    assert saved[one.topic, 0] == log.log_start_offset


def test_nothing_is_deleted_of_a_log_that_cannot_be_cleaned(one: BrokersRound, tmp_path: Path) -> None:
    data = one.copy(tmp_path / "data")
    path = list_logs(data)[1]
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)
    before = files(data)
    config = one.config | BOTH | {"retention.bytes": 0}

    (told,) = native_log.compact(data, one.topic, config=config, now_ms=one.now_ms).to_pylist()

    assert (told["status"], told["segmentsDeleted"]) == ("failed", 0)
    assert files(data) == before


def test_a_deletion_that_fails_is_told(
    one: BrokersRound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = one.copy(tmp_path / "data")
    rename = Path.rename

    def refused(path: Path, target: Path) -> Path:
        if Path(target).name.endswith(".log.deleted") and not list(data.rglob("*.swap")):
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refused)
    config = one.config | BOTH | {"retention.bytes": 0, "retention.ms": -1}

    (told,) = native_log.compact(data, one.topic, config=config, now_ms=one.now_ms).to_pylist()

    assert (told["status"], told["segmentsDeleted"]) == ("failed", 0)
    assert told["reason"].startswith("cleaned, but its old segments are not all deleted")


def test_without_compact_in_the_policy_there_is_nothing_to_do(tmp_path: Path) -> None:
    with pytest.raises(native_log.InvalidConfigError, match=r"cleanup\.policy: expected compact"):
        native_log.compact(tmp_path, config={"cleanup.policy": "delete"})
