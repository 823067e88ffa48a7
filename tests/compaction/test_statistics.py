"""What a dry run tells of a log, counted from the log itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import native_log

from .support import BrokersRound, batches, round_id, rounds

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("one", rounds(), ids=round_id)
def test_keys_and_horizons(one: BrokersRound, tmp_path: Path) -> None:
    data = one.copy(tmp_path / "data")
    (told,) = native_log.compact(
        data, one.topic, config=one.config, now_ms=one.now_ms, dry_run=True
    ).to_pylist()
    newest = _newest(data, one.topic, told["endOffset"])
    before = _horizons(data, one.topic, told["endOffset"])
    retention_ms = int(one.config["delete.retention.ms"]) if "delete.retention.ms" in one.config else 86400000

    native_log.compact(data, one.topic, config=one.config, now_ms=one.now_ms)

    after = _horizons(data, one.topic, told["endOffset"])
    assert told["liveKeys"] == sum(value is not None for value in newest.values())
    # Tombstones that an earlier cleaning dropped are no keys any more.
    assert told["deadKeys"] == sum(value is None for value in newest.values())
    assert (told["firstExpiryMs"], told["lastExpiryMs"]) == (
        min(after, default=None),
        max(after, default=None),
    )
    assert told["wasCleaned"] == (told["firstDirtyOffset"] > 0)
    kept = before & after
    assert told["lastCleanedMs"] == (max(kept) - retention_ms if kept else None)


def _newest(data: Path, topic: str, end_offset: int) -> dict[bytes, Any]:
    log = native_log.LogDir(data, high_watermark="ignore").partition(topic, 0)
    found: dict[bytes, Any] = {}
    names = ["offset", "key", "value"]
    for batch in log.read(None, end_offset, names, isolation_level="read_committed"):
        for row in batch.to_pylist():
            if row["key"] is not None:
                found[row["key"]] = row["value"]
    return found


def _horizons(data: Path, topic: str, end_offset: int) -> set[int]:
    logs = (data / f"{topic}-0").glob("*.log")
    rows = (row for path in logs if int(path.stem) < end_offset for row in batches(path))
    return {row["deleteHorizonMs"] for row in rows} - {None}
