"""The statistics of a dry run, compared with counts from the log itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import native_log
from tests.builders.compaction_rounds import BrokerRound, batches, broker_rounds, round_id

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("case", broker_rounds(), ids=round_id)
def test_keys_and_horizons(case: BrokerRound, tmp_path: Path) -> None:
    data = case.copy(tmp_path / "data")
    (stats,) = native_log.compact(
        data, case.topic, config=case.config, now_ms=case.now_ms, dry_run=True
    ).to_pylist()
    newest = _newest(data, case.topic, stats["endOffset"])
    before = _horizons(data, case.topic, stats["endOffset"])
    retention_ms = (
        int(case.config["delete.retention.ms"]) if "delete.retention.ms" in case.config else 86400000
    )

    native_log.compact(data, case.topic, config=case.config, now_ms=case.now_ms)

    after = _horizons(data, case.topic, stats["endOffset"])
    assert stats["liveKeys"] == sum(value is not None for value in newest.values())
    # Keys whose tombstone an earlier round has dropped do not count.
    assert stats["deadKeys"] == sum(value is None for value in newest.values())
    assert (stats["firstExpiryMs"], stats["lastExpiryMs"]) == (
        min(after, default=None),
        max(after, default=None),
    )
    assert stats["wasCleaned"] == (stats["firstDirtyOffset"] > 0)
    kept = before & after
    assert stats["lastCleanedMs"] == (max(kept) - retention_ms if kept else None)


def _newest(data: Path, topic: str, end_offset: int) -> dict[bytes, Any]:
    log = native_log.LogDir(data, high_watermark="ignore").partition(topic, 0)
    newest: dict[bytes, Any] = {}
    names = ["offset", "key", "value"]
    for batch in log.read(None, end_offset, names, isolation_level="read_committed"):
        for row in batch.to_pylist():
            if row["key"] is not None:
                newest[row["key"]] = row["value"]
    return newest


def _horizons(data: Path, topic: str, end_offset: int) -> set[int]:
    logs = (data / f"{topic}-0").glob("*.log")
    rows = (row for path in logs if int(path.stem) < end_offset for row in batches(path))
    return {row["deleteHorizonMs"] for row in rows} - {None}
