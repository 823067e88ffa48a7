"""Streams over logs with remote storage begin in the tier, and continue locally while segments move there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from native_log import KafkaLogError, LogDir, OffsetOutOfRangeError
from native_log.log.live.live_tiered_log import LiveTieredLog
from native_log.logdir.live_logdir import LiveLogDir
from native_log.logdir.options import LogDirOptions
from native_log.logdir.remote_storage import RemoteStorage
from tests.builders.golden_tiered import READABLE, TieredPartition, tiered
from tests.contents import offsets

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.arguments import IsolationLevel

PARTITIONS = [partition for partition in READABLE if partition.layout != "pinterest"]


def live(partition: TieredPartition) -> LiveLogDir:
    return LiveLogDir(partition.folder / "data", LogDirOptions(remote=RemoteStorage.of(**partition.remote)))


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
def test_a_stream_sees_the_whole_log(partition: TieredPartition) -> None:
    log = live(partition).partition(*partition.key).log
    joined = LogDir(partition.folder / "data", **partition.remote).partition(*partition.key)
    assert (log.local_log_start_offset, log.log_end_offset, log.high_watermark) == (
        joined.local_log_start_offset,
        joined.log_end_offset,
        joined.high_watermark,
    )
    assert log.end_offset("read_committed") == joined.last_stable_offset
    found = offsets(log.range(log.local_log_start_offset, log.high_watermark).read(["offset"]))
    assert found == [row["offset"] for row in partition.rows()]


def test_nothing_is_missed_or_repeated_while_segments_move_to_the_tier(tmp_path: Path) -> None:
    """The log grows, and old local segments are deleted, which the tier has."""
    partition = tiered("aiven-plain", "packed.0").copy_to(tmp_path / "copy")
    directory = partition.folder / "data" / "packed.0-0"
    *sealed, active = sorted(directory.glob("*.log"))
    assert len(sealed) > 1
    content = active.read_bytes()
    active.write_bytes(b"")
    log_dir = live(partition)
    log = log_dir.partition(*partition.key)
    assert isinstance(log, LiveTieredLog)
    found = offsets(log.log.range().read(["offset"]))
    active.write_bytes(content)
    for segment in sealed:
        for file in directory.glob(f"{segment.stem}.*"):
            file.unlink()
        log_dir.refresh()
        start = found[-1] + 1
        found += offsets(log.log.range(start, log.log.high_watermark).read(["offset"]))
        whole = offsets(log.log.range().read(["offset"]))
        assert whole == [row["offset"] for row in partition.rows()]
    assert found == [row["offset"] for row in partition.rows()]


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_remote_segments_that_are_deleted_while_the_log_grows(tmp_path: Path, level: IsolationLevel) -> None:
    partition = tiered("lts-txn", "ledger-2").copy_to(tmp_path / "copy")
    active = max((partition.folder / "data" / "ledger-2-0").glob("*.log"))
    content = active.read_bytes()
    active.write_bytes(b"")
    log_dir = live(partition)
    log = log_dir.partition(*partition.key)
    partition.delete_objects(before=17)
    active.write_bytes(content)
    log_dir.refresh()
    with pytest.raises(OffsetOutOfRangeError, match="local log start offset 17, found 10"):
        log.log.range(10)
    log_dir.refresh()
    assert log.log.local_log_start_offset == 17
    planned = log.log.range(20, log.log.end_offset(level), isolation_level=level)
    assert offsets(planned.read(["offset"])) == [
        row["offset"] for row in partition.rows(level) if row["offset"] >= 20
    ]


def test_follow_begins_in_the_tier() -> None:
    partition = tiered("aiven-zstd", "or-ders-1")
    log_dir = LogDir(partition.folder / "data", **partition.remote)
    expected = [row["offset"] for row in partition.rows()]
    found: list[int] = []
    with log_dir.follow("or-ders-1", {partition.key: expected[0]}, ["offset"], timeout_ms=60_000) as follower:
        for batch in follower:
            found += batch.column("offset").to_pylist()
            if len(found) >= len(expected):
                follower.stop()
    assert found == expected


def test_a_tier_alone_is_not_followed() -> None:
    partition = tiered("lts-overlap", "overlap-mid")
    log_dir = LogDir(remote_metadata=partition.folder / "data", **partition.remote)
    with pytest.raises(KafkaLogError, match="new records are in log directories first"):
        log_dir.follow()
    with pytest.raises(KafkaLogError, match="followed"):
        log_dir.partition(*partition.key).follow()
