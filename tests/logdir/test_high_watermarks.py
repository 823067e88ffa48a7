"""The high watermark that tools show is the checkpointed one, also in a directory that is read to its end."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from markdown_blocks import ROOT

import native_log
from native_log import LogDir
from native_log.cli.app import kafkalog
from native_log.reporting.figures import Extent
from native_log.reporting.survey import survey
from tests.reporting.examples import NOW_MS

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.arguments import HighWatermark

SAMPLE = ROOT / "examples/kafka-logs"
CHECKPOINT = "replication-offset-checkpoint"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A directory whose broker was killed: the checkpoint has old high watermarks, and none of orders-1.

    The logs end at 126 (payments-0), 284 (orders-0) and 316 (orders-1). The group audit has committed 41 of
    payments-0, billing 260 of orders-0 and 10 of orders-1.
    """
    data = shutil.copytree(SAMPLE, tmp_path / "data")
    (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (data / CHECKPOINT).write_text("0\n3\npayments 0 100\norders 0 200\n__consumer_offsets 0 15\n")
    return data


def lags(log_dir: LogDir) -> dict[tuple[str, str, int], tuple[int, int]]:
    return {
        (row["group"], row["topic"], row["partition"]): (row["logEndOffset"], row["lag"])
        for row in log_dir.lag().read_all().to_pylist()
    }


def test_a_stopped_directory_is_read_to_its_end(log_dir: Path) -> None:
    log = LogDir(log_dir).partition("orders", 0)
    assert (log.checkpointed_high_watermark, log.high_watermark, log.log_end_offset) == (200, 284, 284)
    assert log.read(columns=["offset"]).read_all().num_rows == 284


def test_ls_shows_the_checkpointed_ones(log_dir: Path) -> None:
    def run(*arguments: str) -> str:
        return CliRunner().invoke(kafkalog, ["ls", str(log_dir), "-t", "orders", *arguments]).stdout

    partitions = json.loads(run("--json"))["partitions"]
    assert [partition["highWatermark"] for partition in partitions] == [200, None]
    cells = [line.split()[:5] for line in run().splitlines() if line.startswith("orders")]
    assert cells == [["orders", "0", "0", "284", "200"], ["orders", "1", "0", "316", "–"]]


@pytest.mark.parametrize(
    ("high_watermark", "payments", "orders", "unknown"),
    [
        ("auto", (100, 59), (200, -60), (316, 306)),
        ("checkpoint", (100, 59), (200, -60), (0, -10)),
        ("ignore", (126, 85), (284, 24), (316, 306)),
    ],
)
def test_lag_is_counted_to_the_checkpointed_ones(
    log_dir: Path,
    high_watermark: HighWatermark,
    payments: tuple[int, int],
    orders: tuple[int, int],
    unknown: tuple[int, int],
) -> None:
    """Without an entry, the lag ends where the log ends for a reader."""
    found = lags(LogDir(log_dir, high_watermark=high_watermark))
    assert found["audit", "payments", 0] == payments
    assert found["billing", "orders", 0] == orders
    assert found["billing", "orders", 1] == unknown


def test_lag_ends_with_the_log(log_dir: Path) -> None:
    (log_dir / CHECKPOINT).write_text("0\n1\npayments 0 999\n")
    log = LogDir(log_dir).partition("payments", 0)
    assert (log.checkpointed_high_watermark, log.log_end_offset) == (999, 126)
    assert lags(LogDir(log_dir))["audit", "payments", 0] == (126, 85)


def test_a_negative_lag_hides_no_other(log_dir: Path) -> None:
    listing = CliRunner().invoke(kafkalog, ["groups", str(log_dir)]).stdout
    cells = {line.split()[0]: line.split()[-1] for line in listing.splitlines()[1:]}
    assert (cells["audit"], cells["billing"]) == ("59", "306")


def test_the_report_has_the_same_figures(log_dir: Path) -> None:
    logs = LogDir(log_dir)
    figures = survey(logs, logs.partitions(), Extent(), NOW_MS)
    high_watermarks = {partition.name: partition.high_watermark for partition in figures.partitions}
    assert (high_watermarks["orders-0"], high_watermarks["orders-1"]) == (200, None)
    groups = {group.name: group for group in figures.coordinators.groups or ()}
    assert (groups["audit"].lag, groups["billing"].lag) == (59, 306)
    assert groups["billing"].beyond_end == 0, "the offset is above the high watermark, but within the log"


def test_copies_are_compared_by_their_entries(log_dir: Path) -> None:
    (log_dir / CHECKPOINT).write_text("0\n1\norders 0 200\n")
    rows = native_log.diff(SAMPLE, log_dir, topics="orders").read_all().to_pylist()
    assert [(row["partition"], row["kind"], row["difference"]) for row in rows] == [
        (0, "high-watermark", "200, in the leading copy 284"),
        (1, "high-watermark", "unknown, in the leading copy 316"),
    ]


def test_a_merged_log_has_the_highest(log_dir: Path) -> None:
    log = LogDir(SAMPLE, log_dir, replicas="merge").partition("orders", 0)
    assert log.checkpointed_high_watermark == 284
