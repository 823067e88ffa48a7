"""kafkalog and a broker delete the same segments and records of equal logs.

The steps: A broker creates the topics and stops. kafkalog writes all logs, and deletes from one of each pair.
A broker deletes from the others, serves both, and appends to ours. It is killed and started again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

from benchmarks.broker import CLUSTER_ID
from native_log import LogDir, compact, delete_records, retain

from .cluster import Cluster, Consumed, eventually
from .written_log import WrittenLog, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.broker

DAY_MS = 24 * 3_600_000
NOW = time.time_ns() // 1_000_000 - DAY_MS // 24
LEVELS = ["read_uncommitted", "read_committed"]
SMALL = {"segment.bytes": 20_000, "index.interval.bytes": 2000}
DELETED_BEFORE = 777
"""An offset in the middle of a batch."""


def plain(log: WrittenLog, times_ms: tuple[int, ...] = (NOW, NOW)) -> None:
    for start_ms in times_ms:
        first = log.end
        log.append((row(n, start_ms + n) for n in range(first, first + 700)), batch_size=2000)


def half_old(log: WrittenLog) -> None:
    plain(log, (NOW - 2 * DAY_MS, NOW))


def all_old(log: WrittenLog) -> None:
    plain(log, (NOW - 2 * DAY_MS, NOW - 2 * DAY_MS))


def transactions(log: WrittenLog) -> None:
    """Write transactions that span segments; every other one is aborted."""
    for turn in range(8):
        first = log.end
        log.append(
            (row(n, NOW + n) for n in range(first, first + 300)),
            producer_id=20 + turn % 2,
            producer_epoch=turn // 2,
            base_sequence=0,
            batch_size=2000,
        )
        log.append([row(0, NOW)])
        log.end_transaction(20 + turn % 2, NOW + log.end, commit=turn % 2 == 0, epoch=turn // 2)


def pairs(log: WrittenLog) -> None:
    """Write two records of each key. Compaction drops the first of them, and so half of the bytes."""
    for first in range(0, 3500, 500):
        records = (row(n, NOW + n, 1000)._replace(key=b"%d" % (n // 2)) for n in range(first, first + 500))
        log.append(records, batch_size=8000)


class Case(NamedTuple):
    """How to write a log, and the settings for deleting its segments."""

    write: Callable[[WrittenLog], None]
    settings: dict[str, int | float | str]


CASES = {
    "by-size": Case(plain, {"retention.bytes": 50_000}),
    "by-time": Case(half_old, {"retention.ms": DAY_MS}),
    "all": Case(all_old, {"retention.ms": DAY_MS}),
    "transactions": Case(transactions, {"retention.bytes": 50_000}),
    "records": Case(plain, {}),
    "records-of-transactions": Case(transactions, {}),
    "records-and-segments": Case(plain, {"retention.bytes": 50_000}),
    "compacted-first": Case(
        pairs,
        {
            "cleanup.policy": "compact,delete",
            "min.cleanable.dirty.ratio": 0.001,
            "retention.bytes": 1_000_000,
            "segment.bytes": 2**20,
        },
    ),
}
RECORDS = [topic for topic in CASES if topic.startswith("records")]


@pytest.fixture(scope="module")
def broker(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Use a log directory that LogDir.create has made, instead of Kafka's tool."""
    cluster = Cluster(tmp_path_factory.mktemp("retained") / "logs", class_path)
    LogDir.create(cluster.log_dir, cluster_id=CLUSTER_ID)
    yield cluster
    cluster.stop()


def twin(topic: str) -> str:
    return f"{topic}-by-the-broker"


class Served(NamedTuple):
    """What consumers get of a log, and the base offsets of its segments."""

    consumed: dict[str, Consumed]
    base_offsets: list[int]


def serve(broker: Cluster, topic: str) -> Served:
    bases = [segment.base_offset for segment in broker.log(topic).segments]
    return Served({level: broker.consume(topic, level) for level in LEVELS}, bases)


@pytest.fixture(scope="module")
def written(broker: Cluster) -> dict[str, WrittenLog]:
    topics = [*CASES, *map(twin, CASES)]
    for topic in topics:
        broker.create(topic)
    broker.stop()
    logs = LogDir(broker.log_dir)
    written = {topic: WrittenLog(logs.partition(topic, 0, config=SMALL)) for topic in topics}
    for topic, log in written.items():
        with log.log:
            CASES[topic.removesuffix("-by-the-broker")].write(log)
    delete_records(broker.log_dir, {(topic, 0): DELETED_BEFORE for topic in RECORDS})
    for topic, case in CASES.items():
        clean_up = compact if "cleanup.policy" in case.settings else retain
        assert clean_up(broker.log_dir, [topic], case.settings).num_rows
    return written


@pytest.fixture(scope="module")
def first_served(broker: Cluster, written: dict[str, WrittenLog]) -> dict[str, Served]:
    by_topic = {topic: serve(broker, topic) for topic in CASES}
    assert broker.log_problems() == []
    return by_topic


@pytest.mark.parametrize("topic", CASES)
def test_the_broker_deletes_the_same_records(
    broker: Cluster, written: dict[str, WrittenLog], first_served: dict[str, Served], topic: str
) -> None:
    ours, rows = first_served[topic], written[topic].rows
    start = ours.consumed["read_uncommitted"].start
    assert 0 < start <= ours.consumed["read_uncommitted"].end == written[topic].end
    if topic == "compacted-first":
        newest = {record.key: record.offset for record in rows if record.offset < ours.base_offsets[-1]}
        rows = [record for record in rows if newest.get(record.key, 0) <= record.offset]
        assert len(ours.base_offsets) > 2
    assert ours.consumed["read_uncommitted"].rows == [record for record in rows if record.offset >= start]
    if topic in RECORDS:
        broker.delete_records(twin(topic), DELETED_BEFORE)
    settings = {name.replace(".", "_"): value for name, value in CASES[topic].settings.items()}
    broker.alter(twin(topic), **settings)
    eventually(lambda: serve(broker, twin(topic)), ours.__eq__)


def test_the_broker_appends_and_loses_nothing_in_a_crash(
    broker: Cluster, written: dict[str, WrittenLog], first_served: dict[str, Served]
) -> None:
    for topic in CASES:
        broker.send(topic, 50, first=written[topic].end)
    before_crash = {topic: serve(broker, topic) for topic in CASES}
    broker.stop(cleanly=False)
    for topic, extended in before_crash.items():
        first = first_served[topic].consumed["read_uncommitted"]
        now = extended.consumed["read_uncommitted"]
        assert now.rows[: len(first.rows)] == first.rows
        assert (now.start, now.end, len(now.rows)) == (first.start, first.end + 50, len(first.rows) + 50)
        assert serve(broker, topic) == extended
    assert broker.log_problems() == []
