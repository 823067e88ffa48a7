"""Logs that we compacted or erased records of, served and compacted further by a broker.

What happens, in this order: a broker makes the topics and stops; we write and clean, some with our process
killed in between; a broker serves them, goes on with them and cleans them; it is killed and started again.
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
from .written import Written, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000
NOW = time.time_ns() // 1_000_000 - HOUR_MS
LEVELS = ["read_uncommitted", "read_committed"]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SMALL = {"segment.bytes": 30_000, "index.interval.bytes": 2000}
CLEANING = {"min.cleanable.dirty.ratio": "0", "segment.bytes": 2**20, "index.interval.bytes": 2000}
NEVER, ALWAYS = {"min_cleanable_dirty_ratio": 1}, {"min_cleanable_dirty_ratio": 0.001}
"""When the broker is to clean a topic."""


def rows(first: int, count: int) -> Iterator[Row]:
    return (row(n, NOW + n * 100, with_key=True) for n in range(first, first + count))


# What we write, each in a topic of its own
# --------------------------------------------------------------------------------------------------------


def with_codec(codec: str) -> Callable[[Written], None]:
    def write(log: Written) -> None:
        for first in range(0, 1500, 500):
            log.append(rows(first, 500), compression=codec, batch_size=2000)

    return write


def transactions(log: Written) -> None:
    """Of two producers at a time, committed and aborted."""
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


CASES: dict[str, Callable[[Written], None]] = {
    **{f"codec-{codec}": with_codec(codec) for codec in CODECS},
    "transactions": transactions,
}
TWINS = {"codec-none": "none-by-the-broker", "transactions": "transactions-by-the-broker"}
"""The same, left to the broker's cleaner."""
KILLED = [f"killed-{number:02d}" for number in range(25)]
"""Our process was killed while it compacted these, each a little later."""
MENDED = KILLED[1::2]
"""These were compacted again, by a process that came through; the others the broker finds as they are."""


ERASED = {
    "erased": (with_codec("zstd"), "drop"),
    "erased-uncompressed": (with_codec("none"), "drop"),
    "erased-transactions": (transactions, "drop"),
    "erased-to-tombstones": (with_codec("lz4"), "tombstone"),
}
"""Not compacted: what we write, and what becomes of erased records."""
CONDITIONS: dict[str, Any] = {"keys": ["k3", "k50"], "key_prefix": "k7", "header": ("n", b"30")}


BARE = ["erased", "erased-to-tombstones", *MENDED[:6]]
"""At last, indexes and snapshots of these are removed."""
FURTHER = [*CASES, "twice", "erased-uncompressed", "erased-transactions", *KILLED[-6:]]
"""These the broker cleans further."""


def is_erased(one: Row) -> bool:
    key = one.key or b""
    return key in (b"k3", b"k50") or key.startswith(b"k7") or ("n", b"30") in (one.headers or ())


def survivors(rows: Iterable[Row], end: int) -> list[Row]:
    """Of each key the newest below `end`, and all from there on."""
    rows = list(rows)
    newest = {one.key: one.offset for one in rows if one.offset < end}
    return [one for one in rows if one.offset >= end or newest[one.key] == one.offset]


class Cleaned(NamedTuple):
    """A log that was written, and compacted below `end`."""

    written: Written
    end: int

    dropped: frozenset[int] = frozenset()
    """Offsets of tombstones that had their time."""

    def rows(self, level: str = "read_uncommitted") -> list[Row]:
        """Aborted records are there from the end on only: below it the cleaner knows their outcome."""
        kept = {one.offset for one in survivors(self.written.committed, self.end)} - self.dropped
        before = self.written.rows if level == "read_uncommitted" else self.written.committed
        return [one for one in before if one.offset in kept or one.offset >= self.end]


class Erased(NamedTuple):
    """A log that was written, and what became of the records that are to go."""

    written: Written
    how: str

    def rows(self, level: str = "read_uncommitted") -> list[Row]:
        before = self.written.rows if level == "read_uncommitted" else self.written.committed
        if self.how == "tombstone":
            return [one._replace(value=None, headers=None) if is_erased(one) else one for one in before]
        return [one for one in before if not is_erased(one)]


@pytest.fixture(scope="module")
def broker(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cleaned") / "logs", class_path)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def cleaned(broker: Cluster) -> dict[str, Cleaned | Erased]:
    """By topic; the twins, left to the broker, are not among them."""
    twins = {TWINS[topic]: CASES[topic] for topic in TWINS}
    topics = CASES | twins | dict.fromkeys(KILLED, with_codec("lz4"))
    topics |= {topic: write for topic, (write, _) in ERASED.items()}
    for topic in [*topics, "twice"]:
        settings = {"segment_bytes": 2**20, "index_interval_bytes": 2000, **NEVER}
        broker.create(topic, cleanup_policy="compact", **settings)
    broker.stop()
    made = {}
    with LogDir(broker.log_dir) as logs:
        for topic, write in topics.items():
            made[topic] = write_and_close(logs, topic, write)
    told = compact(broker.log_dir, CASES, CLEANING).to_pylist()
    assert {one["status"] for one in told} == {"cleaned"}, told
    in_several_groups = json.dumps(CLEANING | {"segment.bytes": 60_000})
    command = [sys.executable, "-m", "tests.broker.killed", "compact", str(broker.log_dir)]
    subprocess.run([*command, in_several_groups, *KILLED], cwd=Path(__file__).parents[2], check=True)
    compact(broker.log_dir, MENDED, CLEANING)
    erased = {topic: Erased(made[topic].written, how) for topic, (_, how) in ERASED.items()}
    for topic, one in erased.items():
        told = erase(broker.log_dir, topic, how=one.how, **CONDITIONS).to_pylist()
        assert {row["status"] for row in told} == {"erased"}, told
    return (
        {topic: one for topic, one in made.items() if topic not in twins} | {"twice": twice(broker)} | erased
    )


def write_and_close(logs: LogDir, topic: str, write: Callable[[Written], None]) -> Cleaned:
    with logs.partition(topic, 0, config=SMALL) as log:
        written = Written(log)
        write(written)
        assert len(log.segments) > 2
    return Cleaned(written, log.segments[-1].base_offset)


def twice(broker: Cluster) -> Cleaned:
    """Compacted, gone on with, and compacted when the tombstones of the first time have had theirs."""
    log = LogDir(broker.log_dir).partition("twice", 0, config=SMALL)
    written = Written(log)
    ends = []
    for hours in (0, 25):
        with log:  # no key comes again in the next 500 records
            some = (
                one._replace(key=b"%d-%s" % (one.offset // 500, one.key)) for one in rows(written.end, 1000)
            )
            written.append(some, batch_size=2000)
        ends.append(log.segments[-1].base_offset)
        told = compact(broker.log_dir, ["twice"], CLEANING, now_ms=NOW + hours * HOUR_MS).to_pylist()
        assert told[0]["status"] == "cleaned"
        log = LogDir(broker.log_dir).partition("twice", 0, config=SMALL)
        written.log = log
    assert told[0]["tombstonesDropped"] > 0
    gone = [one.offset for one in written.rows if one.value is None and one.offset < ends[0]]
    return Cleaned(written, ends[1], frozenset(gone))


@pytest.fixture(scope="module")
def served(broker: Cluster, cleaned: dict[str, Cleaned]) -> dict[str, dict[str, Consumed]]:
    found = {topic: {level: broker.consume(topic, level) for level in LEVELS} for topic in cleaned}
    assert broker.complaints() == []
    return found


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("topic", [*CASES, "twice", *MENDED, *ERASED])
def test_a_consumer_gets_the_survivors(
    cleaned: dict[str, Cleaned | Erased], served: dict[str, dict[str, Consumed]], topic: str, level: str
) -> None:
    one = cleaned[topic]
    assert one.rows(level) != one.written.rows
    assert served[topic][level].rows == one.rows(level)
    assert served[topic][level].end == one.written.end


def test_after_a_kill_a_consumer_gets_the_log_before_or_after_each_change(
    cleaned: dict[str, Cleaned | Erased], served: dict[str, dict[str, Consumed]]
) -> None:
    counts = set()
    for topic in KILLED[::2]:
        one, consumed = cleaned[topic], served[topic]["read_uncommitted"].rows
        before, after = set(numbered(one.written.rows)), set(numbered(one.rows()))
        assert [row.offset for row in consumed] == sorted({row.offset for row in consumed})
        assert after <= set(numbered(consumed)) <= before
        counts.add(len(consumed))
    assert {len(cleaned[KILLED[0]].written.rows), len(cleaned[KILLED[0]].rows())} <= counts


def numbered(rows: Iterable[Row]) -> Iterator[tuple[int, str]]:
    return ((one.offset, str(one)) for one in rows)


@pytest.mark.parametrize("topic", TWINS)
def test_the_brokers_cleaner_leaves_the_same(
    broker: Cluster, served: dict[str, dict[str, Consumed]], topic: str
) -> None:
    broker.alter(TWINS[topic], **ALWAYS)
    ours = {level: served[topic][level].rows for level in LEVELS}
    eventually(
        lambda: {level: broker.consume(TWINS[topic], level).rows for level in LEVELS},
        lambda them: them == ours,
    )


def consumed_rows(broker: Cluster, topic: str) -> list[Row]:
    return broker.consume(topic).rows


@pytest.fixture(scope="module")
def cleaned_further(broker: Cluster, served: dict[str, dict[str, Consumed]]) -> dict[str, list[Row]]:
    """What the broker's cleaner left of our logs when it had gone on with them."""
    found = {}
    for topic in FURTHER:
        first = served[topic]["read_uncommitted"].end
        broker.send(topic, 9000, first=first, keys=97, plain=True, value_bytes=120)
        before = broker.consume(topic).rows
        assert len(before) == len(served[topic]["read_uncommitted"].rows) + 9000
        broker.alter(topic, **ALWAYS)
        end = broker.log(topic).segments[-1].base_offset
        assert end > first
        left = survivors(before, end)
        found[topic] = eventually(partial(consumed_rows, broker, topic), left.__eq__)
    assert broker.complaints() == []
    return found


def test_the_broker_cleans_our_logs_further(cleaned_further: dict[str, list[Row]]) -> None:
    for topic, rows in cleaned_further.items():
        assert {one.key for one in rows} >= {b"k%d" % n for n in range(97)}, topic


def test_after_a_crash_all_is_as_it_was(
    broker: Cluster,
    cleaned: dict[str, Cleaned | Erased],
    served: dict[str, dict[str, Consumed]],
    cleaned_further: dict[str, list[Row]],
) -> None:
    """Also where nothing is left but the batches."""
    broker.stop(cleanly=False)
    remove_derived(broker.log_dir / f"{topic}-0" for topic in BARE)
    for topic in cleaned:
        expected = cleaned_further.get(topic, served[topic]["read_uncommitted"].rows)
        assert broker.consume(topic).rows == expected
    rebuilt = "Could not find offset index file"
    assert [line for line in broker.complaints() if rebuilt not in line] == []
