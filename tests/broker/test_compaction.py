"""A broker serves logs that kafkalog compacted or erased records of, and compacts them again.

The steps: A broker creates the topics and stops. kafkalog writes, compacts and erases; some of its processes
are killed. A broker serves the logs, appends to them and compacts them. It is killed and started again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from native_log import LogDir, compact, erase

from .cluster import Cluster, Consumed, Row, eventually
from .files import remove_derived
from .written_log import WrittenLog, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000
NOW = time.time_ns() // 1_000_000 - HOUR_MS
LEVELS = ["read_uncommitted", "read_committed"]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SMALL = {"segment.bytes": 30_000, "index.interval.bytes": 2000}
COMPACTION = {"min.cleanable.dirty.ratio": "0", "segment.bytes": 2**20, "index.interval.bytes": 2000}
NEVER, ALWAYS = {"min_cleanable_dirty_ratio": 1}, {"min_cleanable_dirty_ratio": 0.001}
"""Topic settings that decide when the broker compacts a topic."""


def rows(first: int, count: int) -> Iterator[Row]:
    return (row(n, NOW + n * 100, with_key=True) for n in range(first, first + count))


# The logs that kafkalog writes, each in a topic of its own
# --------------------------------------------------------------------------------------------------------


def with_codec(codec: str) -> Callable[[WrittenLog], None]:
    def write(log: WrittenLog) -> None:
        for first in range(0, 1500, 500):
            log.append(rows(first, 500), compression=codec, batch_size=2000)

    return write


def transactions(log: WrittenLog) -> None:
    """Write transactions of two producers at a time, committed and aborted."""
    sequences = {20: 0, 21: 0, 22: 0}
    number = 0
    for turn in range(12):
        for producer in (20 + turn % 3, 20 + (turn + 1) % 3):
            log.append(
                rows(number, 40),
                producer_id=producer,
                producer_epoch=1,
                base_sequence=sequences[producer],
                batch_size=1500,
            )
            sequences[producer] += 40
            number += 40
        log.end_transaction(20 + turn % 3, NOW + 100 * number, commit=turn % 2 == 0, epoch=1)
        log.append(rows(number, 5))
        log.end_transaction(20 + (turn + 1) % 3, NOW + 100 * number, commit=turn % 3 == 0, epoch=1)


CASES: dict[str, Callable[[WrittenLog], None]] = {
    **{f"codec-{codec}": with_codec(codec) for codec in CODECS},
    "transactions": transactions,
}
TWINS = {"codec-none": "none-by-the-broker", "transactions": "transactions-by-the-broker"}
"""Topics with the same content, which the broker's cleaner compacts."""
KILLED = [f"killed-{number:02d}" for number in range(25)]
"""Topics whose compaction is killed, each a little later than the one before."""
COMPACTED_AGAIN = KILLED[1::2]
"""Of these, a second compaction succeeds. The broker finds the others as the killed process left them."""


ERASED = {
    "erased": (with_codec("zstd"), "drop"),
    "erased-uncompressed": (with_codec("none"), "drop"),
    "erased-transactions": (transactions, "drop"),
    "erased-to-tombstones": (with_codec("lz4"), "tombstone"),
}
"""Topics whose records are erased instead of compacted: how to write them, and how to erase."""
CONDITIONS: dict[str, Any] = {"keys": ["k3", "k50"], "key_prefix": "k7", "header": ("n", b"30")}


WITHOUT_INDEXES = ["erased", "erased-to-tombstones", *COMPACTED_AGAIN[:6]]
"""Topics whose indexes and snapshots are removed before the last start of the broker."""
COMPACTED_BY_BROKER = [*CASES, "twice", "erased-uncompressed", "erased-transactions", *KILLED[-6:]]
"""Topics that the broker appends to and compacts."""


def is_erased(record: Row) -> bool:
    key = record.key or b""
    return key in (b"k3", b"k50") or key.startswith(b"k7") or ("n", b"30") in (record.headers or ())


def survivors(rows: Iterable[Row], end: int) -> list[Row]:
    """Return the newest record of each key below `end`, and all records from `end` on."""
    rows = list(rows)
    newest = {record.key: record.offset for record in rows if record.offset < end}
    return [record for record in rows if record.offset >= end or newest[record.key] == record.offset]


class CompactedLog(NamedTuple):
    """A log that was written, and compacted below `end`."""

    written: WrittenLog
    end: int

    dropped: frozenset[int] = frozenset()
    """Offsets of tombstones older than delete.retention.ms."""

    def rows(self, level: str = "read_uncommitted") -> list[Row]:
        """Return the records expected. Compaction drops aborted records below `end`."""
        kept = {record.offset for record in survivors(self.written.committed, self.end)} - self.dropped
        before = self.written.rows if level == "read_uncommitted" else self.written.committed
        return [record for record in before if record.offset in kept or record.offset >= self.end]


class ErasedLog(NamedTuple):
    """A log that was written, and how its matching records were erased."""

    written: WrittenLog
    how: str

    def rows(self, level: str = "read_uncommitted") -> list[Row]:
        before = self.written.rows if level == "read_uncommitted" else self.written.committed
        if self.how == "drop":
            return [record for record in before if not is_erased(record)]
        return [
            record._replace(value=None, headers=None) if is_erased(record) else record for record in before
        ]


@pytest.fixture(scope="module")
def broker(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cleaned") / "logs", class_path)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def logs(broker: Cluster) -> dict[str, CompactedLog | ErasedLog]:
    """Write, compact and erase; return the logs by topic, without those that the broker is to compact."""
    twins = {TWINS[topic]: CASES[topic] for topic in TWINS}
    topics = CASES | twins | dict.fromkeys(KILLED, with_codec("lz4"))
    topics |= {topic: write for topic, (write, _) in ERASED.items()}
    for topic in [*topics, "twice"]:
        settings = {"segment_bytes": 2**20, "index_interval_bytes": 2000, **NEVER}
        broker.create(topic, cleanup_policy="compact", **settings)
    broker.stop()
    compacted = {}
    with LogDir(broker.log_dir) as log_dir:
        for topic, write in topics.items():
            compacted[topic] = write_and_close(log_dir, topic, write)
    report = compact(broker.log_dir, CASES, COMPACTION).to_pylist()
    assert {partition["status"] for partition in report} == {"cleaned"}, report
    several_groups = json.dumps(COMPACTION | {"segment.bytes": 60_000})
    command = [sys.executable, "-m", "tests.broker.killed_processes", "compact", str(broker.log_dir)]
    subprocess.run([*command, several_groups, *KILLED], cwd=Path(__file__).parents[2], check=True)
    compact(broker.log_dir, COMPACTED_AGAIN, COMPACTION)
    erased = {topic: ErasedLog(compacted[topic].written, how) for topic, (_, how) in ERASED.items()}
    for topic, log in erased.items():
        report = erase(broker.log_dir, topic, how=log.how, **CONDITIONS).to_pylist()
        assert {partition["status"] for partition in report} == {"erased"}, report
    for twin in twins:
        del compacted[twin]
    return compacted | {"twice": compact_twice(broker)} | erased


def write_and_close(log_dir: LogDir, topic: str, write: Callable[[WrittenLog], None]) -> CompactedLog:
    with log_dir.partition(topic, 0, config=SMALL) as log:
        written = WrittenLog(log)
        write(written)
        assert len(log.segments) > 2
    return CompactedLog(written, log.segments[-1].base_offset)


def compact_twice(broker: Cluster) -> CompactedLog:
    """Compact, append, and compact after delete.retention.ms, which drops the first tombstones."""
    log = LogDir(broker.log_dir).partition("twice", 0, config=SMALL)
    written = WrittenLog(log)
    ends = []
    for hours in (0, 25):
        with log:  # each 500 records have keys of their own
            records = (
                record._replace(key=b"%d-%s" % (record.offset // 500, record.key))
                for record in rows(written.end, 1000)
            )
            written.append(records, batch_size=2000)
        ends.append(log.segments[-1].base_offset)
        report = compact(broker.log_dir, ["twice"], COMPACTION, now_ms=NOW + hours * HOUR_MS).to_pylist()
        assert report[0]["status"] == "cleaned"
        log = LogDir(broker.log_dir).partition("twice", 0, config=SMALL)
        written.log = log
    assert report[0]["tombstonesDropped"] > 0
    dropped = [record.offset for record in written.rows if record.value is None and record.offset < ends[0]]
    return CompactedLog(written, ends[1], frozenset(dropped))


@pytest.fixture(scope="module")
def served(broker: Cluster, logs: dict[str, CompactedLog | ErasedLog]) -> dict[str, dict[str, Consumed]]:
    consumed = {topic: {level: broker.consume(topic, level) for level in LEVELS} for topic in logs}
    assert broker.log_problems() == []
    return consumed


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("topic", [*CASES, "twice", *COMPACTED_AGAIN, *ERASED])
def test_a_consumer_gets_the_survivors(
    logs: dict[str, CompactedLog | ErasedLog],
    served: dict[str, dict[str, Consumed]],
    topic: str,
    level: str,
) -> None:
    log = logs[topic]
    assert log.rows(level) != log.written.rows
    assert served[topic][level].rows == log.rows(level)
    assert served[topic][level].end == log.written.end


def test_after_a_kill_a_consumer_gets_the_log_before_or_after_each_change(
    logs: dict[str, CompactedLog | ErasedLog], served: dict[str, dict[str, Consumed]]
) -> None:
    counts = set()
    for topic in KILLED[::2]:
        log, consumed = logs[topic], served[topic]["read_uncommitted"].rows
        before, after = set(comparable(log.written.rows)), set(comparable(log.rows()))
        assert [row.offset for row in consumed] == sorted({row.offset for row in consumed})
        assert after <= set(comparable(consumed)) <= before
        counts.add(len(consumed))
    assert {len(logs[KILLED[0]].written.rows), len(logs[KILLED[0]].rows())} <= counts


def comparable(rows: Iterable[Row]) -> Iterator[tuple[int, str]]:
    """Return hashable values: rows have lists of headers."""
    return ((record.offset, str(record)) for record in rows)


@pytest.mark.parametrize("topic", TWINS)
def test_the_brokers_cleaner_leaves_the_same_records(
    broker: Cluster, served: dict[str, dict[str, Consumed]], topic: str
) -> None:
    broker.alter(TWINS[topic], **ALWAYS)
    ours = {level: served[topic][level].rows for level in LEVELS}
    eventually(
        lambda: {level: broker.consume(TWINS[topic], level).rows for level in LEVELS},
        lambda theirs: theirs == ours,
    )


def consumed_rows(broker: Cluster, topic: str) -> list[Row]:
    return broker.consume(topic).rows


@pytest.fixture(scope="module")
def compacted_by_broker(broker: Cluster, served: dict[str, dict[str, Consumed]]) -> dict[str, list[Row]]:
    """Append to logs, let the broker compact them, and return the records left."""
    records = {}
    for topic in COMPACTED_BY_BROKER:
        first = served[topic]["read_uncommitted"].end
        broker.send(topic, 9000, first=first, keys=97, plain=True, value_bytes=120)
        before = broker.consume(topic).rows
        assert len(before) == len(served[topic]["read_uncommitted"].rows) + 9000
        broker.alter(topic, **ALWAYS)
        end = broker.log(topic).segments[-1].base_offset
        assert end > first
        left = survivors(before, end)
        records[topic] = eventually(partial(consumed_rows, broker, topic), left.__eq__)
    assert broker.log_problems() == []
    return records


def test_the_broker_compacts_our_logs(compacted_by_broker: dict[str, list[Row]]) -> None:
    for topic, rows in compacted_by_broker.items():
        assert {record.key for record in rows} >= {b"k%d" % n for n in range(97)}, topic


def test_after_a_crash_the_logs_are_unchanged(
    broker: Cluster,
    logs: dict[str, CompactedLog | ErasedLog],
    served: dict[str, dict[str, Consumed]],
    compacted_by_broker: dict[str, list[Row]],
) -> None:
    """Some of the logs have lost their indexes and snapshots, too."""
    broker.stop(cleanly=False)
    remove_derived(broker.log_dir / f"{topic}-0" for topic in WITHOUT_INDEXES)
    for topic in logs:
        expected = compacted_by_broker.get(topic, served[topic]["read_uncommitted"].rows)
        assert broker.consume(topic).rows == expected
    rebuild = "Could not find offset index file"
    assert [line for line in broker.log_problems() if rebuild not in line] == []
