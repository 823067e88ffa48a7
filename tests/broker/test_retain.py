"""Logs that we deleted segments and records of, beside twins of which the broker deletes the same.

What happens, in this order: a broker makes the topics and stops; we write all of them, and delete of some; a
broker deletes of the others, serves both, and goes on with ours; it is killed and started again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

from benchmarks.broker import CLUSTER_ID
from native_log import LogDir, compact, delete_records, retain

from .cluster import Cluster, Consumed, eventually
from .written import Written, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.broker

DAY_MS = 24 * 3_600_000
NOW = time.time_ns() // 1_000_000 - DAY_MS // 24
LEVELS = ["read_uncommitted", "read_committed"]
SMALL = {"segment.bytes": 20_000, "index.interval.bytes": 2000}
DELETED_BEFORE = 777
"""In the middle of a batch."""


def plain(log: Written, times_ms: tuple[int, ...] = (NOW, NOW)) -> None:
    for start_ms in times_ms:
        first = log.end
        log.append((row(n, start_ms + n) for n in range(first, first + 700)), batch_size=2000)


def half_old(log: Written) -> None:
    plain(log, (NOW - 2 * DAY_MS, NOW))


def all_old(log: Written) -> None:
    plain(log, (NOW - 2 * DAY_MS, NOW - 2 * DAY_MS))


def transactions(log: Written) -> None:
    """Long ones, so that segments end within them; every other one is aborted."""
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


def pairs(log: Written) -> None:
    """Of each key two, the first of which a cleaning takes: half of the bytes."""
    for first in range(0, 3500, 500):
        some = (row(n, NOW + n, 1000)._replace(key=b"%d" % (n // 2)) for n in range(first, first + 500))
        log.append(some, batch_size=8000)


class Case(NamedTuple):
    """What is written, and the settings by which segments are deleted of it."""

    write: Callable[[Written], None]
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
    """Started on a directory that is as LogDir.create makes it, not formatted by Kafka's tool."""
    cluster = Cluster(tmp_path_factory.mktemp("retained") / "logs", class_path)
    LogDir.create(cluster.log_dir, cluster_id=CLUSTER_ID)
    yield cluster
    cluster.stop()


def twin(topic: str) -> str:
    return f"{topic}-by-the-broker"


class Served(NamedTuple):
    """What the broker gave of a log, and which segments it has."""

    consumed: dict[str, Consumed]
    base_offsets: list[int]


def served(broker: Cluster, topic: str) -> Served:
    bases = [segment.base_offset for segment in broker.log(topic).segments]
    return Served({level: broker.consume(topic, level) for level in LEVELS}, bases)


@pytest.fixture(scope="module")
def written(broker: Cluster) -> dict[str, Written]:
    topics = [*CASES, *map(twin, CASES)]
    for topic in topics:
        broker.create(topic)
    broker.stop()
    logs = LogDir(broker.log_dir)
    made = {topic: Written(logs.partition(topic, 0, config=SMALL)) for topic in topics}
    for topic, one in made.items():
        with one.log:
            CASES[topic.removesuffix("-by-the-broker")].write(one)
    delete_records(broker.log_dir, {(topic, 0): DELETED_BEFORE for topic in RECORDS})
    for topic, case in CASES.items():
        clean = compact if "cleanup.policy" in case.settings else retain
        assert clean(broker.log_dir, [topic], case.settings).num_rows
    return made


@pytest.fixture(scope="module")
def first_served(broker: Cluster, written: dict[str, Written]) -> dict[str, Served]:
    found = {topic: served(broker, topic) for topic in CASES}
    assert broker.complaints() == []
    return found


@pytest.mark.parametrize("topic", CASES)
def test_the_broker_deletes_the_same(
    broker: Cluster, written: dict[str, Written], first_served: dict[str, Served], topic: str
) -> None:
    ours, rows = first_served[topic], written[topic].rows
    start = ours.consumed["read_uncommitted"].start
    assert 0 < start <= ours.consumed["read_uncommitted"].end == written[topic].end
    if topic == "compacted-first":
        newest = {one.key: one.offset for one in rows if one.offset < ours.base_offsets[-1]}
        rows = [one for one in rows if newest.get(one.key, 0) <= one.offset]
        assert len(ours.base_offsets) > 2
    assert ours.consumed["read_uncommitted"].rows == [one for one in rows if one.offset >= start]
    if topic in RECORDS:
        broker.delete_records(twin(topic), DELETED_BEFORE)
    settings = {name.replace(".", "_"): value for name, value in CASES[topic].settings.items()}
    broker.alter(twin(topic), **settings)
    eventually(lambda: served(broker, twin(topic)), ours.__eq__)


def test_the_broker_goes_on_and_after_a_crash_all_is_there(
    broker: Cluster, written: dict[str, Written], first_served: dict[str, Served]
) -> None:
    for topic in CASES:
        broker.send(topic, 50, first=written[topic].end)
    before = {topic: served(broker, topic) for topic in CASES}
    broker.stop(cleanly=False)
    for topic, one in before.items():
        then = first_served[topic].consumed["read_uncommitted"]
        now = one.consumed["read_uncommitted"]
        assert now.rows[: len(then.rows)] == then.rows
        assert (now.start, now.end, len(now.rows)) == (then.start, then.end + 50, len(then.rows) + 50)
        assert served(broker, topic) == one
    assert broker.complaints() == []
