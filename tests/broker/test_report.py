"""Report on the log directory of a running broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import native_log
from native_log import LogDir
from native_log.reporting.figures import Extent, ReportFigures
from native_log.reporting.findings import decide_findings
from native_log.reporting.survey import survey
from native_log.system import current_ms

from .cluster import run_during

if TYPE_CHECKING:
    from .cluster import Cluster

pytestmark = pytest.mark.broker
TOTAL = 30_000


def test_figures_while_records_are_sent_and_deleted(cluster: Cluster) -> None:
    topic = cluster.create("reported", segment_bytes=1024 * 1024, file_delete_delay_ms=0)
    reports: list[ReportFigures] = []

    def work() -> None:
        cluster.send(topic, TOTAL, value_bytes=100, batch_size=4000)
        cluster.delete_records(topic, TOTAL // 2)

    def look() -> None:
        log_dir = LogDir(cluster.log_dir)
        extent = Extent(batches=len(reports) % 2 == 1, retention=True)
        reports.append(survey(log_dir, log_dir.partitions(), extent, current_ms()))

    run_during(work, look)
    cluster.log_up_to(topic, TOTAL)
    look()
    ends = [
        partition.log_end_offset
        for figures in reports
        for partition in figures.partitions
        if partition.topic == topic
    ]
    assert ends == sorted(ends) and ends[-1] == TOTAL
    assert all(figures.directories[0].lock_holder is not None for figures in reports)
    assert "1 log directory in use" in [finding.title for finding in decide_findings(reports[-1])]


def test_a_page(cluster: Cluster) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    topic = cluster.create("reported-page", retention_bytes=1, segment_bytes=1024 * 1024)
    cluster.send(topic, 1000)
    cluster.log_up_to(topic, 1000)
    page = native_log.report(
        cluster.log_dir, topic, batches=True, verify=True, compaction=True, retention=True
    )
    assert page.rstrip().endswith("</html>")
    assert "1 log directory in use" in page
    assert "No problems were found in the batches" in page
