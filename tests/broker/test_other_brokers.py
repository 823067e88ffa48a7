"""Older and newer brokers serve logs that kafkalog wrote, append to them, and recover them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from benchmarks.jvm import NEWER_KAFKA, OLDER_KAFKA
from native_log import LogDir

from .cluster import Cluster, Consumed
from .test_write import CODECS, LEVELS, NOW, SMALL, T0, plain, transactions, with_codec
from .written_log import WrittenLog

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.broker


def with_codecs(log: WrittenLog) -> None:
    for codec in CODECS:
        with_codec(codec)(log)


CASES = {"codecs": with_codecs, "transactions": transactions, "continued": plain}
EXTENDED = ["transactions", "continued"]
"""Topics that the broker appends to."""


class Outcome(NamedTuple):
    written: WrittenLog
    consumed: dict[str, Consumed]
    offsets_by_time: dict[int, int | None]
    after_kill: Consumed


@pytest.fixture(scope="module", params=[OLDER_KAFKA, NEWER_KAFKA], ids=["3.9", "4.4"])
def broker(
    class_path: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("other") / "logs", class_path, request.param)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def outcomes(broker: Cluster) -> dict[str, Outcome]:
    for topic in CASES:
        broker.create(topic)
    broker.send("continued", 2000, value_bytes=40, batch_size=2000)
    broker.send("continued", 500, first=2000, transactional_id="t", end="abort", batch_size=2000)
    before = [broker.consume("continued", level).rows for level in LEVELS]
    broker.stop()
    written = {}
    with LogDir(broker.log_dir) as logs:
        for topic, write in CASES.items():
            log = logs.partition(topic, 0, config=SMALL)
            written[topic] = WrittenLog(log, *(before if topic == "continued" else ()))
            if topic == "continued":  # the broker's marker has the time when it was written
                written[topic].markers.append((2500, NOW))
            write(written[topic])
    consumed, by_time = {}, {}
    for topic, expected in written.items():
        consumed[topic] = {level: broker.consume(topic, level) for level in LEVELS}
        times = [0, T0, 2**42, *(row.timestamp_ms + 1 for row in expected.rows[:: len(expected.rows) // 4])]
        by_time[topic] = {time: broker.offset_for_timestamp(topic, time) for time in times}
        if topic in EXTENDED:
            broker.send(topic, 100, first=expected.end, batch_size=1000)
    assert broker.log_problems() == []
    broker.stop(cleanly=False)
    after = {topic: broker.consume(topic) for topic in CASES}
    assert broker.log_problems() == []
    return {topic: Outcome(written[topic], consumed[topic], by_time[topic], after[topic]) for topic in CASES}


@pytest.mark.parametrize("topic", CASES)
def test_a_consumer_gets_every_record(outcomes: dict[str, Outcome], topic: str) -> None:
    written, consumed = outcomes[topic].written, outcomes[topic].consumed
    assert consumed["read_uncommitted"] == Consumed(0, written.end, written.rows)
    assert consumed["read_committed"] == Consumed(0, written.last_stable_offset, written.stable_rows())


@pytest.mark.parametrize("topic", CASES)
def test_offsets_by_time_are_right(outcomes: dict[str, Outcome], topic: str) -> None:
    for time_ms, offset in outcomes[topic].offsets_by_time.items():
        assert offset == outcomes[topic].written.offset_for_timestamp(time_ms), time_ms


@pytest.mark.parametrize("topic", CASES)
def test_no_record_is_lost_when_the_broker_is_killed(outcomes: dict[str, Outcome], topic: str) -> None:
    written, after = outcomes[topic].written, outcomes[topic].after_kill
    assert after.rows[: len(written.rows)] == written.rows
    added = [record.offset for record in after.rows[len(written.rows) :]]
    assert added == list(range(written.end, written.end + 100 * (topic in EXTENDED)))
