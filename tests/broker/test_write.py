"""A broker serves logs that kafkalog wrote, appends to them, and recovers them.

The steps: A broker creates the topics and stops. kafkalog writes, and kafka-dump-log checks the files. A
broker serves them, appends, and is killed. Our indexes are removed, and a broker recovers the logs and stops.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from native_log import LogDir
from native_log.checkpoints.leader_epochs import parse_leader_epochs
from native_log.log.producers.producer_state import ProducerStateEntry, parse_snapshot
from native_log.records import EncodeOptions, encode
from tests.builders.golden import golden

from .cluster import Cluster, Consumed, Row
from .files import contents, dump_log, remove_derived
from .python_consumers import read_by_aiokafka, read_by_kafka_python, read_by_librdkafka
from .written_log import WrittenLog, row, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.broker,
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated"),  # kafka-python
]

T0 = 1_700_000_000_000
NOW = time.time_ns() // 1_000_000 - 3_600_000
"""A recent time, because brokers forget producers whose last record is a day old."""
LEVELS = ["read_uncommitted", "read_committed"]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SMALL = {"segment.bytes": 50_000, "index.interval.bytes": 3000}


def rows(first: int, count: int, start_ms: int = T0, **options: Any) -> Iterator[Row]:
    """Return records a second apart, a little out of order."""
    return (row(n, start_ms + 1000 * n + n * 7919 % 5000, **options) for n in range(first, first + count))


# The logs that kafkalog writes, each in a topic of its own
# --------------------------------------------------------------------------------------------------------


def with_codec(codec: str) -> Callable[[WrittenLog], None]:
    def write(log: WrittenLog) -> None:
        for first in range(0, 2100, 700):
            log.append(rows(first, 700), compression=codec, batch_size=2000)

    return write


def with_append_time(log: WrittenLog) -> None:
    for first in range(0, 1000, 250):
        log.append(rows(first, 250), append_time_ms=T0 + first, batch_size=2000)


def with_large_records(log: WrittenLog) -> None:
    for first in range(1, 6):
        log.append([row(first, T0 + first, 900_000)], compression=CODECS[first - 1])


def transactions(log: WrittenLog) -> None:
    """Write transactions of two producers at a time: committed, aborted and, at the end, an open one."""
    number = 0
    sequences = dict.fromkeys(range(20, 24), 0)

    def data(producer: int, count: int) -> None:
        nonlocal number
        log.append(
            rows(number, count, NOW),
            producer_id=producer,
            producer_epoch=1,
            base_sequence=sequences[producer],
            batch_size=1500,
        )
        number += count
        sequences[producer] += count

    for turn in range(12):
        first, second = 20 + turn % 3, 20 + (turn + 1) % 3
        data(first, 80)
        log.append(rows(number, 5, NOW))
        data(second, 60)
        log.end_transaction(first, NOW + 1000 * number, commit=turn % 2 == 0, epoch=1)
        data(second, 20)
        log.end_transaction(second, NOW + 1000 * number, commit=turn % 3 == 0, epoch=1)
    data(23, 30)
    log.append(rows(number, 5, NOW))


def plain(log: WrittenLog) -> None:
    log.append(rows(log.end, 1500, value_bytes=90), compression="lz4", batch_size=2000)
    log.append(rows(log.end, 300, value_bytes=90), batch_size=2000)


def with_levels(log: WrittenLog) -> None:
    for codec, levels in {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-5, 19)}.items():
        for level in levels:
            log.append(rows(log.end, 300), compression=codec, level=level, batch_size=5000)


def batches_of_producers(log: WrittenLog) -> None:
    """Append the bytes of encoded batches, which get new offsets."""
    for codec in CODECS:
        batches = encode(to_arrow(rows(log.end, 300)), EncodeOptions(compression=codec, batch_size=3000)).data
        log.append_encoded(batches, rows(log.end, 300))


def replica_of(fixture: str) -> Callable[[WrittenLog], None]:
    """Append the batches of a log that a broker wrote, with their offsets."""

    def write(log: WrittenLog) -> None:
        source = golden(fixture)
        for path in sorted(source.path.glob("*.log")):
            log.append_replica(path.read_bytes())
        log.rows, log.committed = ([golden_row(record) for record in source.rows(level)] for level in LEVELS)
        log.stable_up_to = source.expected["latestCommitted"]

    return write


def golden_row(record: dict[str, Any]) -> Row:
    times = record["timestamp"], record["timestampType"]
    return Row(record["offset"], record["key"], record["value"], *times, record["headers"] or None)


class Case(NamedTuple):
    topic: str
    write: Callable[[WrittenLog], None]
    config: dict[str, Any]


CASES = [
    *(Case(f"codec-{codec}", with_codec(codec), SMALL) for codec in CODECS),
    Case("append-time", with_append_time, SMALL | {"message.timestamp.type": "LogAppendTime"}),
    Case("rolled-by-time", plain, {"segment.ms": 400_000}),
    Case("rolled-by-index", plain, {"segment.index.bytes": 240}),
    Case("preallocated", plain, SMALL | {"preallocate": "true"}),
    Case("levels", with_levels, SMALL),
    Case("batches", batches_of_producers, SMALL),
    Case("replica-of-all-formats", replica_of("kafka-2.8/mixed"), SMALL),
    Case("replica-of-transactions", replica_of("kafka-4.1/txn"), SMALL),
    Case("replica-of-compacted", replica_of("kafka-4.1/compact-codecs/round2-after"), SMALL),
    Case("replica-of-huge-offsets", replica_of("kafka-4.1/offsets-huge"), SMALL),
    Case("large", with_large_records, {}),
    Case("transactions", transactions, SMALL),
    # kafkalog creates its log directory, and the broker gets that as one of its log.dirs
    Case("own-directory", plain, SMALL),
    # the broker has written to it before, with an aborted transaction
    Case("continued", plain, SMALL),
]
TOPICS = [case.topic for case in CASES]
WITH_GAPS = ["replica-of-compacted", "replica-of-huge-offsets"]
EXTENDED = ["codec-lz4", "transactions", "continued", "own-directory"]
"""Topics that the broker appends to."""
KILLED = [f"codec-{codec}" for codec in CODECS]
"""Topics to which a kafkalog process appends until it is killed, at the end."""

PEERS = {
    "kafka-python": read_by_kafka_python,
    "aiokafka": read_by_aiokafka,
    "librdkafka": read_by_librdkafka,
}
READ_BY_PEERS = [*(f"codec-{codec}" for codec in CODECS), "append-time", "transactions"]


class Served(NamedTuple):
    """What consumers get of a topic before and after the broker appends to it."""

    consumed: dict[str, Consumed]
    extended: dict[str, Consumed]
    offsets_by_time: dict[int, int | None]
    read_by: dict[str, list[Row]]
    """What Python's consumers get, by consumer; empty for most topics."""


class Outcome(NamedTuple):
    written: dict[str, WrittenLog]
    files: dict[str, dict[str, bytes]]
    """Content as kafkalog wrote it, by topic and name."""
    dumped: tuple[str, str]


@pytest.fixture(scope="module")
def broker(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("written")
    cluster = Cluster(folder / "logs", class_path)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def outcome(broker: Cluster) -> Outcome:
    for case in CASES:
        settings = {name.replace(".", "_"): value for name, value in case.config.items()}
        broker.create(case.topic, **settings | {"segment_bytes": 2**20})  # the minimum of a broker
    broker.send("continued", 2000, value_bytes=40, batch_size=2000)
    broker.send("continued", 500, first=2000, transactional_id="t", end="abort", batch_size=2000)
    before = {level: broker.consume("continued", level).rows for level in LEVELS}
    broker.stop()
    written = {}
    own = create_directory(broker, "own-directory")
    with LogDir(broker.log_dir) as logs, own:
        for case in CASES:
            log = (own if case.topic == "own-directory" else logs).partition(
                case.topic, 0, config=case.config
            )
            earlier = before.values() if case.topic == "continued" else ()
            written[case.topic] = WrittenLog(log, *earlier)
            if case.topic == "continued":  # the broker's marker has the time when it was written
                written[case.topic].markers.append((2500, NOW))
            case.write(written[case.topic])
    files = {topic: contents(log.log.path) for topic, log in written.items()}
    dense = [log.log.path for topic, log in written.items() if topic not in WITH_GAPS]
    return Outcome(written, files, dump_log(broker.broker, dense))


def create_directory(broker: Cluster, topic: str) -> LogDir:
    """Create another log directory of the broker, and move the topic's empty partition there."""
    first = LogDir(broker.log_dir)
    meta, partition = first.meta_properties, first.partition(topic, 0)
    assert meta is not None
    more = broker.log_dir.with_name("more")
    own = LogDir.create(more, cluster_id=meta.cluster_id, node_id=meta.node_id or 0)
    own.create_topic(topic, topic_id=partition.topic_id)
    shutil.rmtree(partition.path)
    broker.broker.more_log_dirs.append(more)
    return own


def test_the_dump_tool_prints_every_record_and_no_error(outcome: Outcome) -> None:
    output, errors = outcome.dumped
    assert errors == ""
    assert "isvalid: false" not in output
    assert "invalid bytes" not in output
    ends = [log.end for topic, log in outcome.written.items() if topic not in WITH_GAPS]
    assert output.count("\n| offset: ") == sum(ends)


@pytest.fixture(scope="module")
def served(broker: Cluster, outcome: Outcome) -> dict[str, Served]:
    """Consume, append and kill the broker. It trusts our files, because the last shutdown was clean."""
    answers = {}
    for topic, written in outcome.written.items():
        consumed = {level: broker.consume(topic, level) for level in LEVELS}
        times = [
            0,
            T0,
            NOW,
            2**42,
            *(record.timestamp_ms + 1 for record in written.rows[:: len(written.rows) // 4]),
        ]
        by_time = {time: broker.offset_for_timestamp(topic, time) for time in times}
        stable = consumed["read_committed"].end
        readers = PEERS.items() if topic in READ_BY_PEERS else ()
        read_by = {name: read(broker.broker.bootstrap, topic, stable) for name, read in readers}
        if topic in EXTENDED:
            broker.send(topic, 100, first=written.end, batch_size=1000)
        extended = {level: broker.consume(topic, level) for level in LEVELS}
        answers[topic] = Served(consumed, extended, by_time, read_by)
    assert broker.log_problems() == []
    broker.stop(cleanly=False)
    return answers


@pytest.mark.parametrize("topic", TOPICS)
def test_a_consumer_gets_every_record(outcome: Outcome, served: dict[str, Served], topic: str) -> None:
    written, consumed = outcome.written[topic], served[topic].consumed
    assert consumed["read_uncommitted"] == Consumed(0, written.end, written.rows)
    assert consumed["read_committed"] == Consumed(0, written.last_stable_offset, written.stable_rows())


# A broker stops at an empty first segment, which the topic with huge offsets has.
@pytest.mark.parametrize("topic", [topic for topic in TOPICS if topic != "replica-of-huge-offsets"])
def test_offsets_by_time_are_right(outcome: Outcome, served: dict[str, Served], topic: str) -> None:
    written = outcome.written[topic]
    for time_ms, offset in served[topic].offsets_by_time.items():
        assert offset == written.offset_for_timestamp(time_ms), time_ms


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("topic", READ_BY_PEERS)
def test_other_consumers_get_every_record(
    outcome: Outcome, served: dict[str, Served], topic: str, peer: str
) -> None:
    assert served[topic].read_by[peer] == outcome.written[topic].stable_rows()


@pytest.mark.parametrize("topic", EXTENDED)
def test_the_broker_appends_after_our_records(
    outcome: Outcome, served: dict[str, Served], topic: str
) -> None:
    written, extended = outcome.written[topic], served[topic].extended["read_uncommitted"]
    assert extended.rows[: len(written.rows)] == written.rows
    added = extended.rows[len(written.rows) :]
    assert [record.offset for record in added] == list(range(written.end, written.end + 100))


class Recovered(NamedTuple):
    consumed: dict[str, dict[str, Consumed]]
    files: dict[str, dict[str, bytes]]


@pytest.fixture(scope="module")
def recovered(broker: Cluster, outcome: Outcome, served: dict[str, Served]) -> Recovered:
    """Recover by a broker that finds batches only: no indexes, clean shutdown marker or recovery points."""
    remove_derived(log.log.path for log in outcome.written.values())
    for directory in (broker.log_dir, *broker.broker.more_log_dirs):
        (directory / "recovery-point-offset-checkpoint").unlink()
    consumed = {topic: {level: broker.consume(topic, level) for level in LEVELS} for topic in TOPICS}
    broker.stop()
    return Recovered(consumed, {topic: contents(log.log.path) for topic, log in outcome.written.items()})


@pytest.mark.parametrize("topic", TOPICS)
def test_no_record_is_lost_in_a_crash(served: dict[str, Served], recovered: Recovered, topic: str) -> None:
    assert recovered.consumed[topic] == served[topic].extended


@pytest.mark.parametrize("topic", TOPICS)
def test_the_brokers_recovery_writes_the_same_files(
    outcome: Outcome, recovered: Recovered, topic: str
) -> None:
    ours, theirs = outcome.files[topic], recovered.files[topic]
    bases = sorted(name.removesuffix(".log") for name in ours if name.endswith(".log"))
    # After appending to a segment with content, the interval of index entries starts where appending did.
    excepted = tuple(bases[:2] if topic == "continued" else ()) + tuple(
        bases[-1:] if topic in EXTENDED else ()
    )
    compared = [
        name for name in ours if name.endswith((".log", "index")) and not name.startswith(excepted or "-")
    ]
    assert compared
    for name in compared:
        assert theirs[name] == ours[name], name


# The first leader epoch begins at offset 0, but recovery finds its start only if there is a batch.
@pytest.mark.parametrize("topic", [topic for topic in TOPICS if topic not in WITH_GAPS])
def test_the_brokers_recovery_finds_the_same_producers_and_epochs(
    outcome: Outcome, recovered: Recovered, topic: str
) -> None:
    ours, theirs = outcome.files[topic], recovered.files[topic]
    for name in [name for name in ours if name.endswith(".snapshot") and name in theirs]:
        assert producers(ours[name]) == producers(theirs[name]), name
    # A broker that becomes leader adds an epoch, even without records.
    epochs = [parse_leader_epochs(files["leader-epoch-checkpoint"].decode()) for files in (ours, theirs)]
    assert epochs[1][: len(epochs[0])] == epochs[0]
    assert theirs["partition.metadata"] == ours["partition.metadata"]


def producers(snapshot: bytes) -> list[ProducerStateEntry]:
    """Return the producers of a snapshot that a broker would not have forgotten."""
    entries = [entry for entry in parse_snapshot(snapshot) if entry.timestamp_ms >= NOW]
    return sorted(entries, key=lambda entry: entry.producer_id)


def test_a_broker_appends_where_our_process_was_killed(broker: Cluster, recovered: Recovered) -> None:
    """Each topic's writer is killed a little later. The log has all of its records up to some batch."""
    before = {topic: recovered.consumed[topic]["read_uncommitted"] for topic in KILLED}
    command = [sys.executable, "-m", "tests.broker.killed_processes", "append", str(broker.log_dir)]
    subprocess.run([*command, json.dumps(SMALL), *KILLED], cwd=Path(__file__).parents[2], check=True)
    counts = set()
    for topic in KILLED:
        consumed = broker.consume(topic)
        first = len(before[topic].rows)
        assert consumed.rows[:first] == before[topic].rows
        added = consumed.rows[first:]
        assert added == [row(before[topic].end + i, T0) for i in range(len(added))]
        counts.add(len(added))
        broker.send(topic, 10, first=consumed.end)
        assert broker.consume(topic).end == consumed.end + 10
    assert len(counts) > 2
    assert broker.log_problems() == []
    broker.stop()
    for topic in KILLED:
        with LogDir(broker.log_dir).partition(topic, 0) as log:
            end = log.log_end_offset
            assert log.append(to_arrow([row(end, T0)])) == end
