"""Read and follow a partition that a running broker moves between its log directories (KIP-113)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from native_log import LogDir
from native_log.log.changing_files import retry_changed

from .cluster import ROW_COLUMNS, Cluster, eventually, run_during
from .test_follow import followed, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker
MOVES, SENT = 12, 500


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / "first", tmp_path / "second"]


@pytest.fixture
def cluster(class_path: str, paths: list[Path]) -> Iterator[Cluster]:
    # With this interval, the broker often saves while the copy is still empty, and again only after the move.
    cluster = Cluster(paths[0], class_path, settings={"replica.high.watermark.checkpoint.interval.ms": "700"})
    cluster.broker.more_log_dirs.append(paths[1])
    yield cluster
    cluster.stop()


def test_each_record_is_read_once_while_a_partition_moves(cluster: Cluster, paths: list[Path]) -> None:
    topic = cluster.create("moved", segment_bytes=1 << 20)
    cluster.send(topic, SENT, value_bytes=1000)
    eventually(lambda: LogDir(paths).partition(topic, 0).high_watermark, lambda end: end == SENT)
    reads = 0

    def move_and_send() -> None:
        for number in range(1, MOVES + 1):
            cluster.move(topic, paths[number % 2])
            cluster.send(topic, SENT, first=number * SENT, value_bytes=1000)

    def read() -> list[int]:
        table = LogDir(paths).partition(topic, 0).read(columns=["offset"]).read_all()
        offsets: list[int] = table.column("offset").to_pylist()
        return offsets

    def check() -> None:
        nonlocal reads
        offsets = retry_changed(read)
        # After a move, a broker begins with a high watermark that may be somewhat lower.
        assert len(offsets) >= SENT
        assert offsets == list(range(len(offsets)))
        reads += 1

    with followed(LogDir(paths).follow(topic, {(topic, 0): 0}, ["topic", *ROW_COLUMNS])) as arrived:
        run_during(move_and_send, check)
        consumed = cluster.consume(topic).rows
        wait_for(arrived, topic, consumed[-1].offset)
    assert arrived[topic] == consumed
    assert len(consumed) == SENT * (MOVES + 1)
    assert reads > MOVES
