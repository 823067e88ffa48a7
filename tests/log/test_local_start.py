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
from tests.conftest import DATA

from .support import batch, offsets, write_log

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
