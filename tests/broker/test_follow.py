"""Follow the log directory of a running broker: the records that arrive are those of a consumer."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from native_log import LogDir, LogTruncatedError, UnknownTopicOrPartitionError

from .cluster import ROW_COLUMNS, Cluster, Row, eventually, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log import LogFollower

pytestmark = pytest.mark.broker
RECORDS = 24_000


@contextmanager
def followed(follower: LogFollower) -> Iterator[dict[str, list[Row]]]:
    """Collect the records by topic in a thread, until the end of the block. Raise its error."""
    arrived: dict[str, list[Row]] = {}
    errors: list[BaseException] = []

    def collect() -> None:
        try:
            for batch in follower:
                topic = batch.column("topic")[0].as_py()
                arrived.setdefault(topic, []).extend(rows(iter([batch.select(ROW_COLUMNS)])))
        except BaseException as error:
            errors.append(error)

    collector = threading.Thread(target=collect)
    collector.start()
    try:
        yield arrived
    finally:
        follower.stop()
        collector.join()
    if errors:
        raise errors[0]


def wait_for(arrived: dict[str, list[Row]], topic: str, offset: int) -> None:
    eventually(lambda: arrived.get(topic, [])[-1:], lambda last: bool(last) and last[0].offset >= offset)


@pytest.mark.parametrize("inotify", [True, False])
def test_records_arrive_once_while_a_broker_appends_rolls_deletes_and_compacts(
    cluster: Cluster, inotify: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not inotify:
        monkeypatch.setattr("native_log.watch._Inotify.create", lambda: None)
    prefix = f"follow-{inotify}"
    cluster.create(f"{prefix}-before")
    cluster.send(f"{prefix}-before", 100)
    eventually(lambda: cluster.log(f"{prefix}-before").high_watermark, lambda end: end == 100)
    settings = {"segment_bytes": 1 << 20, "file_delete_delay_ms": 0}
    follower = LogDir(cluster.log_dir).follow(
        lambda topic, _: topic.startswith(prefix),
        columns=["topic", *ROW_COLUMNS],
        poll_interval_ms=1000 if inotify else 20,
        fail_on_data_loss=False,
    )
    with followed(follower) as arrived:
        grown = cluster.create(f"{prefix}-grown", **settings)
        retained = cluster.create(f"{prefix}-retained", retention_bytes=1 << 20, **settings)
        compacted = cluster.create(
            f"{prefix}-compacted", cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, **settings
        )
        for first in range(0, RECORDS, 8000):
            for topic in (grown, retained, compacted):
                cluster.send(
                    topic,
                    8000,
                    first=first,
                    keys=500,
                    plain=topic == compacted,
                    value_bytes=100,
                    batch_size=4000,
                )
        cluster.send(f"{prefix}-before", 1, first=100)
        consumed = {topic: cluster.consume(topic).rows for topic in (grown, retained, compacted)}
        for topic in (grown, retained, compacted):
            wait_for(arrived, topic, RECORDS - 1)
        wait_for(arrived, f"{prefix}-before", 100)
        eventually(lambda: len(cluster.consume(compacted).rows), lambda count: count < RECORDS // 2)
        eventually(lambda: cluster.log(retained).log_start_offset, lambda start: start > 0)
    assert [row.offset for row in arrived[f"{prefix}-before"]] == [100]
    assert arrived[grown] == consumed[grown] == cluster.consume(grown).rows
    for topic in (retained, compacted):
        # Records may be removed before the follower or the consumer reads them.
        offsets = [row.offset for row in arrived[topic]]
        assert all(a < b for a, b in pairwise(offsets))
        by_offset = {row.offset: row for row in arrived[topic]}
        both = [row for row in consumed[topic] if row.offset in by_offset]
        assert [by_offset[row.offset] for row in both] == both
        left = cluster.consume(topic).rows
        assert [by_offset.get(row.offset) for row in left] == left


def test_committed_records_arrive_in_the_order_of_a_consumer(cluster: Cluster) -> None:
    topic = cluster.create("follow-transactions", segment_bytes=1 << 20)
    eventually(lambda: cluster.log(topic).log_end_offset, lambda end: end == 0)
    columns = ["topic", *ROW_COLUMNS]
    with followed(cluster.log(topic).follow(0, columns, "read_committed")) as arrived:
        for number, end in enumerate(["commit", "abort", "commit", "abort", "commit"]):
            first = number * 3000
            cluster.send(topic, 3000, first=first, transactional_id="follow", end=end, value_bytes=200)
            cluster.send(topic, 10, first=first)
        consumed = cluster.consume(topic, "read_committed")
        wait_for(arrived, topic, consumed.rows[-1].offset)
    assert arrived[topic] == consumed.rows


def test_a_topic_that_is_deleted_and_created_again(cluster: Cluster) -> None:
    topic = cluster.create("follow-again")
    cluster.send(topic, 10)
    eventually(lambda: cluster.log(topic).high_watermark, lambda end: end == 10)
    log_dir = LogDir(cluster.log_dir)
    columns = ["topic", *ROW_COLUMNS]
    strict = log_dir.follow(topic, {(topic, 0): 0}, columns)
    with followed(log_dir.follow(topic, {(topic, 0): 0}, columns, fail_on_data_loss=False)) as arrived:
        assert len(rows(iter([next(strict).select(ROW_COLUMNS)]))) == 10
        wait_for(arrived, topic, 9)
        cluster.delete(topic)
        eventually(lambda: LogDir(cluster.log_dir).topics(), lambda topics: topic not in topics)
        cluster.create(topic)
        cluster.send(topic, 5, first=100)
        eventually(lambda: len(arrived[topic]), lambda count: count == 15)
    assert arrived[topic][10:] == cluster.consume(topic).rows
    with pytest.raises((UnknownTopicOrPartitionError, LogTruncatedError)):
        list(strict)
