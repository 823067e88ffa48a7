"""Logs whose first offsets are in no local segment: tiered topics, and logs that lost segments."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from click.testing import CliRunner

from native_log import LogDir, OffsetOutOfRangeError
from native_log.cli.app import kafkalog
from native_log.log import PartitionCheckpoints, PartitionLog
from tests.builders.batches import batch
from tests.builders.golden import DATA
from tests.builders.logs import write_log
from tests.contents import offsets

if TYPE_CHECKING:
    from pathlib import Path

TIERED = DATA / "tiered"
STARTS = {"d-local": (388, 388, 411), "d-rec": (174, 241, 420), "d-ret": (110, 364, 420)}
"""Log start, local log start and log end offset, as the broker's ListOffsets returned them."""


@pytest.mark.parametrize("topic", STARTS)
def test_the_start_of_a_tiered_log(topic: str, caplog: pytest.LogCaptureFixture) -> None:
    log = LogDir(TIERED).partition(topic, 0)
    start, local_start, end = STARTS[topic]
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == STARTS[topic]
    assert offsets(log.read(columns=["offset"])) == list(range(local_start, end))
    said = f"starts at offset {start} (log-start-offset-checkpoint), its local segments at {local_start}"
    assert (said in caplog.text) == (start < local_start)
    caplog.clear()
    assert offsets(log.read(local_start, columns=["offset"])) == list(range(local_start, end))
    assert log.offset_for_timestamp(0) == local_start
    assert caplog.text == ""


def test_an_offset_in_the_tier_is_an_error() -> None:
    log = LogDir(TIERED).partition("d-ret", 0)
    for offset in (110, 363):
        with pytest.raises(
            OffsetOutOfRangeError, match=rf"local log start offset 364, found {offset}: .*tier"
        ):
            log.read(offset)
    with pytest.raises(OffsetOutOfRangeError, match=r"from the log start offset 110 .*, found 109"):
        log.read(109)


CRASHED = DATA / "tiered-crash"
"""A broker was killed before it had written an entry to log-start-offset-checkpoint. Local segments begin at
291, remote ones at 0."""


def test_the_metadata_of_remote_storage_knows_the_start(caplog: pytest.LogCaptureFixture) -> None:
    log = LogDir(CRASHED).partition("crash", 0)
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 291, 350)
    assert offsets(log.read(columns=["offset"])) == list(range(291, 350))
    message = "crash-0 is read only in part: the log starts at offset 0 (__remote_log_metadata), its local"
    assert message in caplog.text
    with pytest.raises(OffsetOutOfRangeError, match="local log start offset 291, found 290"):
        log.read(290)
    assert (
        next(LogDir(CRASHED).follow("crash", {("crash", 0): 291}, timeout_ms=0))["offset"][0].as_py() == 291
    )


def copy_crashed(path: Path) -> Path:
    shutil.copytree(CRASHED, path)
    return path


def test_the_metadata_is_in_another_log_directory(tmp_path: Path) -> None:
    first = copy_crashed(tmp_path / "first")
    second = tmp_path / "second"
    second.mkdir()
    shutil.copy(first / "meta.properties", second)
    shutil.move(first / "__remote_log_metadata-0", second)
    assert LogDir(first).partition("crash", 0).log_start_offset == 291
    assert LogDir(first, second).partition("crash", 0).log_start_offset == 0


def test_a_single_partition_directory_beside_the_metadata() -> None:
    assert LogDir(CRASHED / "crash-0").partition("crash", 0).log_start_offset == 0


def test_remote_segments_of_a_deleted_topic_do_not_count(tmp_path: Path) -> None:
    metadata = copy_crashed(tmp_path / "d") / "crash-0" / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    assert LogDir(tmp_path / "d").partition("crash", 0).log_start_offset == 291


def test_local_records_before_the_first_remote_segment_are_read(tmp_path: Path) -> None:
    """A broker uploads older segments first, but an older segment's deletion may be known already."""
    directory = copy_crashed(tmp_path / "d")
    shutil.rmtree(directory / "crash-0")
    write_log(directory / "crash-0", {0: [batch(0)]})
    log = LogDir(directory).partition("crash", 0)
    assert (log.log_start_offset, log.missing_start) == (0, None)


def test_damaged_metadata_of_remote_storage_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = copy_crashed(tmp_path / "d") / "__remote_log_metadata-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)
    log = LogDir(tmp_path / "d").partition("crash", 0)
    assert offsets(log.read(columns=["offset"])) == list(range(291, 350))
    assert "which segments are in remote storage is not fully known" in caplog.text
    assert str(path) in caplog.text


def test_a_lost_segment(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The broker's checkpoint has an offset whose segment no longer exists."""
    write_log(tmp_path / "t-0", {6: [batch(6)]})
    log = PartitionLog.open(tmp_path / "t-0", checkpoints=PartitionCheckpoints(log_start_offset=2))
    assert (log.log_start_offset, log.local_log_start_offset) == (2, 6)
    assert offsets(log.read(columns=["offset"])) == [6, 7, 8]
    assert "starts at offset 2 (log-start-offset-checkpoint), its local segments at 6" in caplog.text


def test_appending_keeps_the_log_start(tmp_path: Path) -> None:
    shutil.copytree(TIERED, tmp_path / "logs")
    with LogDir(tmp_path / "logs") as logs:
        logs.partition("d-ret", 0).append(pa.record_batch({"value": [b"more"]}))
        logs.partition("d-local", 0).append(pa.record_batch({"value": [b"more"]}))
    logs = LogDir(tmp_path / "logs")
    starts = [logs.partition(topic, 0).log_start_offset for topic in ("d-ret", "d-local")]
    assert starts == [110, 388]


def test_ls_shows_both_starts() -> None:
    shown = CliRunner().invoke(kafkalog, ["ls", str(TIERED), "--topic", "d-ret"]).output
    assert shown.splitlines()[2].split()[:4] == ["d-ret", "0", "364", "420"]
    listed = json.loads(
        CliRunner().invoke(kafkalog, ["ls", str(TIERED), "--topic", "d-ret", "--json"]).output
    )
    partition = listed["partitions"][0]
    assert (partition["logStartOffset"], partition["localLogStartOffset"]) == (110, 364)
