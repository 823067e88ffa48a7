"""A broker loads what was restored, and its consumers get the rows at the same offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import native_log
from tests.builders.golden_tiered import tiered

from .cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker


@pytest.mark.parametrize(
    ("fixture", "topic"),
    [("aiven-zstd-aes", "or-ders-3"), ("lts-txn", "ledger"), ("lts-overlap", "overlap-mid")],
)
def test_the_cluster_is_gone_and_the_bucket_is_left(
    fixture: str, topic: str, class_path: str, tmp_path: Path
) -> None:
    partition = tiered(fixture, topic)
    cluster = Cluster(tmp_path / "logs", class_path)
    try:
        cluster.create(topic)
        cluster.stop()
        native_log.restore(partition.folder / "data", tmp_path / "logs", topic, **partition.remote)
        consumed = cluster.consume(topic)
        assert [(row.offset, row.key, row.value) for row in consumed.rows] == [
            (row["offset"], row["key"], row["value"]) for row in partition.rows()
        ]
        committed = cluster.consume(topic, "read_committed")
        assert [row.offset for row in committed.rows] == [
            row["offset"] for row in partition.rows("read_committed")
        ]
    finally:
        cluster.stop()
