"""Logs that we wrote, served, gone on with and recovered by a broker.

What happens, in this order: a broker makes the topics and stops; we write; kafka-dump-log looks at the files;
a broker serves them, appends, and is killed; with our indexes removed a broker recovers the logs and stops.
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
from tests.log.support import golden

from .cluster import Cluster, Consumed, Row
from .files import contents, dump_log, remove_derived
from .peers import read_by_aiokafka, read_by_kafka_python
from .written import Written, row, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.broker,
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated"),  # kafka-python
]

T0 = 1_700_000_000_000
NOW = time.time_ns() // 1_000_000 - 3_600_000
"""Producers whose last record is a day old are forgotten."""
LEVELS = ["read_uncommitted", "read_committed"]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SMALL = {"segment.bytes": 50_000, "index.interval.bytes": 3000}


def rows(first: int, count: int, start_ms: int = T0, **how: Any) -> Iterator[Row]:
    """Records a second apart, a little out of order."""
    return (row(n, start_ms + 1000 * n + n * 7919 % 5000, **how) for n in range(first, first + count))


# What we write, each in a topic of its own
# --------------------------------------------------------------------------------------------------------


def with_codec(codec: str) -> Callable[[Written], None]:
    def write(log: Written) -> None:
        for first in range(0, 2100, 700):
            log.append(rows(first, 700), compression=codec, batch_size=2000)

    return write


def with_append_time(log: Written) -> None:
    for first in range(0, 1000, 250):
        log.append(rows(first, 250), append_time_ms=T0 + first, batch_size=2000)


def with_large_records(log: Written) -> None:
    for first in range(1, 6):
        log.append([row(first, T0 + first, 900_000)], compression=CODECS[first - 1])


def transactions(log: Written) -> None:
    """Of several producers at a time, committed, aborted and, at the end, open."""
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


def plain(log: Written) -> None:
    log.append(rows(log.end, 1500, value_bytes=90), compression="lz4", batch_size=2000)
    log.append(rows(log.end, 300, value_bytes=90), batch_size=2000)


def with_levels(log: Written) -> None:
    for codec, levels in {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-5, 19)}.items():
        for level in levels:
            log.append(rows(log.end, 300), compression=codec, level=level, batch_size=5000)


def batches_of_producers(log: Written) -> None:
    """Bytes that other logs hold, one behind the other, each batch with offsets anew."""
    for codec in CODECS:
        batches = encode(to_arrow(rows(log.end, 300)), EncodeOptions(compression=codec, batch_size=3000)).data
        log.append_encoded(batches, rows(log.end, 300))


def replica_of(fixture: str) -> Callable[[Written], None]:
    """The batches of a log that a broker wrote, at their own offsets."""

    def write(log: Written) -> None:
        source = golden(fixture)
        for path in sorted(source.path.glob("*.log")):
            log.append_replica(path.read_bytes())
        log.rows, log.committed = ([golden_row(one) for one in source.rows(level)] for level in LEVELS)
        log.stable_up_to = source.expected["latestCommitted"]

    return write


def golden_row(one: dict[str, Any]) -> Row:
    times = one["timestamp"], one["timestampType"]
    return Row(one["offset"], one["key"], one["value"], *times, one["headers"] or None)


class Case(NamedTuple):
    topic: str
    write: Callable[[Written], None]
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
    # in a log directory of our own, given to the broker as another of its log.dirs
    Case("own-directory", plain, SMALL),
    # where the broker has written before, and aborted some of it
    Case("continued", plain, SMALL),
]
TOPICS = [case.topic for case in CASES]
WITH_GAPS = ["replica-of-compacted", "replica-of-huge-offsets"]
EXTENDED = ["codec-lz4", "transactions", "continued", "own-directory"]
"""These the broker goes on with."""
KILLED = [f"codec-{codec}" for codec in CODECS]
"""At last, our process is killed while it appends to these."""

PEERS = {"kafka-python": read_by_kafka_python, "aiokafka": read_by_aiokafka}
READ_BY_PEERS = [*(f"codec-{codec}" for codec in CODECS), "append-time", "transactions"]


class Served(NamedTuple):
    """What a broker gave of a topic: before and after it appended to it."""

    consumed: dict[str, Consumed]
    extended: dict[str, Consumed]
    offsets_by_time: dict[int, int | None]
    read_by: dict[str, list[Row]]
    """What Python's consumers got, of some topics."""


class Outcome(NamedTuple):
    written: dict[str, Written]
    files: dict[str, dict[str, bytes]]
    """As we left them, by topic and name."""
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
        broker.create(case.topic, **settings | {"segment_bytes": 2**20})  # the least that it takes
    broker.send("continued", 2000, value_bytes=40, batch_size=2000)
    broker.send("continued", 500, first=2000, transactional_id="t", end="abort", batch_size=2000)
    before = {level: broker.consume("continued", level).rows for level in LEVELS}
    broker.stop()
    written = {}
    own = hand_over_directory(broker, "own-directory")
    with LogDir(broker.log_dir) as logs, own:
        for case in CASES:
            log = (own if case.topic == "own-directory" else logs).partition(
                case.topic, 0, config=case.config
            )
            seen = before.values() if case.topic == "continued" else ()
            written[case.topic] = Written(log, *seen)
            if case.topic == "continued":  # the broker's marker has the time it was written
                written[case.topic].markers.append((2500, NOW))
            case.write(written[case.topic])
    files = {topic: contents(one.log.path) for topic, one in written.items()}
    dense = [one.log.path for topic, one in written.items() if topic not in WITH_GAPS]
    return Outcome(written, files, dump_log(broker.broker, dense))


def hand_over_directory(broker: Cluster, topic: str) -> LogDir:
    """A new log directory of that broker, with a topic of it, whose empty partition elsewhere is removed."""
    has = LogDir(broker.log_dir)
    meta, found = has.meta_properties, has.partition(topic, 0)
    assert meta is not None
    more = broker.log_dir.with_name("more")
    own = LogDir.create(more, cluster_id=meta.cluster_id, node_id=meta.node_id or 0)
    own.create_topic(topic, topic_id=found.topic_id)
    shutil.rmtree(found.path)
    broker.broker.more_log_dirs.append(more)
    return own


def test_the_dump_tool_finds_every_record_and_no_fault(outcome: Outcome) -> None:
    said, complaints = outcome.dumped
    assert complaints == ""
    assert "isvalid: false" not in said
    assert "invalid bytes" not in said
    ends = [one.end for topic, one in outcome.written.items() if topic not in WITH_GAPS]
    assert said.count("\n| offset: ") == sum(ends)


@pytest.fixture(scope="module")
def served(broker: Cluster, outcome: Outcome) -> dict[str, Served]:
    """By a broker that trusts our files, for the directory is marked as left in order. Then it is killed."""
    answers = {}
    for topic, written in outcome.written.items():
        consumed = {level: broker.consume(topic, level) for level in LEVELS}
        times = [
            0,
            T0,
            NOW,
            2**42,
            *(one.timestamp_ms + 1 for one in written.rows[:: len(written.rows) // 4]),
        ]
        by_time = {time: broker.offset_for_timestamp(topic, time) for time in times}
        stable = consumed["read_committed"].end
        request = PEERS.items() if topic in READ_BY_PEERS else ()
        read_by = {name: read(broker.broker.bootstrap, topic, stable) for name, read in request}
        if topic in EXTENDED:
            broker.send(topic, 100, first=written.end, batch_size=1000)
        extended = {level: broker.consume(topic, level) for level in LEVELS}
        answers[topic] = Served(consumed, extended, by_time, read_by)
    assert broker.complaints() == []
    broker.stop(cleanly=False)
    return answers


@pytest.mark.parametrize("topic", TOPICS)
def test_a_consumer_gets_every_record(outcome: Outcome, served: dict[str, Served], topic: str) -> None:
    written, consumed = outcome.written[topic], served[topic].consumed
    assert consumed["read_uncommitted"] == Consumed(0, written.end, written.rows)
    assert consumed["read_committed"] == Consumed(0, written.last_stable_offset, written.stable_rows())


# A broker looks no further than an empty first segment, such as lies before the huge offsets.
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
def test_the_broker_goes_on_behind_our_records(
    outcome: Outcome, served: dict[str, Served], topic: str
) -> None:
    written, extended = outcome.written[topic], served[topic].extended["read_uncommitted"]
    assert extended.rows[: len(written.rows)] == written.rows
    added = extended.rows[len(written.rows) :]
    assert [one.offset for one in added] == list(range(written.end, written.end + 100))


class Recovered(NamedTuple):
    consumed: dict[str, dict[str, Consumed]]
    files: dict[str, dict[str, bytes]]


@pytest.fixture(scope="module")
def recovered(broker: Cluster, outcome: Outcome, served: dict[str, Served]) -> Recovered:
    """By a broker that finds nothing but the batches, no mark of a clean shutdown, no recovery points."""
    remove_derived(one.log.path for one in outcome.written.values())
    for directory in (broker.log_dir, *broker.broker.more_log_dirs):
        (directory / "recovery-point-offset-checkpoint").unlink()
    consumed = {topic: {level: broker.consume(topic, level) for level in LEVELS} for topic in TOPICS}
    broker.stop()
    return Recovered(consumed, {topic: contents(one.log.path) for topic, one in outcome.written.items()})


@pytest.mark.parametrize("topic", TOPICS)
def test_after_a_crash_all_is_there(served: dict[str, Served], recovered: Recovered, topic: str) -> None:
    assert recovered.consumed[topic] == served[topic].extended


@pytest.mark.parametrize("topic", TOPICS)
def test_the_brokers_recovery_makes_the_files_that_we_wrote(
    outcome: Outcome, recovered: Recovered, topic: str
) -> None:
    ours, theirs = outcome.files[topic], recovered.files[topic]
    bases = sorted(name.removesuffix(".log") for name in ours if name.endswith(".log"))
    # Where appending began anew, in a segment with content, index entries are counted from there.
    excepted = tuple(bases[:2] if topic == "continued" else ()) + tuple(
        bases[-1:] if topic in EXTENDED else ()
    )
    compared = [
        name for name in ours if name.endswith((".log", "index")) and not name.startswith(excepted or "-")
    ]
    assert compared
    for name in compared:
        assert theirs[name] == ours[name], name


# The epoch that the topics were made in begins at offset 0, but recovery only sees where it has batches.
@pytest.mark.parametrize("topic", [topic for topic in TOPICS if topic not in WITH_GAPS])
def test_the_brokers_recovery_finds_the_producers_and_epochs_that_we_wrote(
    outcome: Outcome, recovered: Recovered, topic: str
) -> None:
    ours, theirs = outcome.files[topic], recovered.files[topic]
    for name in [name for name in ours if name.endswith(".snapshot") and name in theirs]:
        assert producers(ours[name]) == producers(theirs[name]), name
    # A broker that leads anew notes its epoch, were it without records.
    epochs = [parse_leader_epochs(one["leader-epoch-checkpoint"].decode()) for one in (ours, theirs)]
    assert epochs[1][: len(epochs[0])] == epochs[0]
    assert theirs["partition.metadata"] == ours["partition.metadata"]


def producers(snapshot: bytes) -> list[ProducerStateEntry]:
    """Those that a broker would not have forgotten."""
    found = [one for one in parse_snapshot(snapshot) if one.timestamp_ms >= NOW]
    return sorted(found, key=lambda one: one.producer_id)


def test_a_broker_goes_on_where_our_process_was_killed(broker: Cluster, recovered: Recovered) -> None:
    """Each topic's writer a little later. Of what it had written, there is all up to some batch."""
    before = {topic: recovered.consumed[topic]["read_uncommitted"] for topic in KILLED}
    command = [sys.executable, "-m", "tests.broker.killed", "append", str(broker.log_dir)]
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
    assert broker.complaints() == []
    broker.stop()
    for topic in KILLED:
        with LogDir(broker.log_dir).partition(topic, 0) as log:
            end = log.log_end_offset
            assert log.append(to_arrow([row(end, T0)])) == end
