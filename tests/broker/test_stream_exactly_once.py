"""A stream from kafkalog to kafkalog whose drivers and workers are killed writes each row once.

The number of kills and the seed of the random decisions are environment variables: see CONTRIBUTING.md.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from kafkalog_spark.read.offset_state import LOG_IDENTITIES
from native_log import LogDir
from native_log.checkpoints.write_intent import WRITE_INTENT, WriteIntent, last_stream_batch
from native_log.storage import Folder

from .cluster import Cluster
from .copying_driver import StreamCopy, command
from .files import replace_log
from .killed_driver import Driver, kill
from .written_log import WrittenLog, row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .cluster import Row

KILLS = int(os.environ.get("KAFKALOG_KILLS", "3"))
SEED = int(os.environ.get("KAFKALOG_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.skipif(
        pyspark.__version__.startswith(("4.0.", "4.1.")), reason="Spark has no read limits before 4.2"
    ),
    pytest.mark.timeout(600 + 120 * KILLS),
]

ROOT = Path(__file__).parents[2]
T0 = 1_700_000_000_000
ROWS_PER_KILL = 2000
STEP_SECONDS = 120

Values = list[tuple[bytes | None, bytes | None]]
"""Keys and values of records."""


@pytest.fixture
def broker(class_path: str, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "broker", class_path)
    yield cluster
    cluster.stop()


def copied(topic: str, partition: int, records: Iterable[Row]) -> Values:
    """Return what the query makes of the records of a partition."""
    name = f"{topic}-{partition}".encode()
    return [(r.key, b"%s@%d:%s" % (name, r.offset, r.value or b"")) for r in records]


def write_input(path: Path) -> Values:
    """Write logs with and without transactions. Return what the query makes of them."""
    rng, config = random.Random(SEED), {"segment.bytes": 20_000}
    expected: Values = []
    with LogDir.create(path) as log_dir:
        log_dir.create_topic("orders", 2)
        log_dir.create_topic("payments", 1)
        for topic, partition in [("orders", 0), ("orders", 1), ("payments", 0)]:
            log = WrittenLog(log_dir.partition(topic, partition, config=config))
            while log.end < ROWS_PER_KILL * KILLS // 3:
                records = [row(log.end + n, T0 + log.end) for n in range(rng.randint(1, 40))]
                if topic == "orders":
                    log.append(records)
                else:
                    log.append(records, producer_id=7, producer_epoch=0, base_sequence=len(log.rows))
                    log.end_transaction(7, T0 + log.end, commit=rng.random() < 0.7)
            expected += copied(topic, partition, log.committed)
    return expected


class Feeder(threading.Thread):
    """Sends records and transactions to a broker until it is stopped. Logs roll about every 200 records.

    Attributes:
        topics: what it has created.
    """

    def __init__(self, broker: Cluster) -> None:
        super().__init__()
        self.topics: list[str] = []
        self._broker = broker
        self._rng = random.Random(SEED + 1)
        self._stop_now = threading.Event()
        self._sent = 0
        self._failure: BaseException | None = None
        for topic in ("live-plain", "live-transactions"):
            self._create(topic)

    def stop(self) -> None:
        """Stop, and raise the error if one happened."""
        self._stop_now.set()
        self.join()
        if self._failure is not None:
            raise self._failure

    def run(self) -> None:
        try:
            number = 0
            while not self._stop_now.wait(2):
                self._send(self._rng.choice(["commit", "commit", "abort", "open"]))
                if number % 10 == 5:
                    self._create(f"live-later-{number}")
                number += 1
            self._send("commit")
        except BaseException as error:
            self._failure = error

    def _create(self, topic: str) -> None:
        self.topics.append(self._broker.create(topic, segment_ms=200))

    def _send(self, end: str) -> None:
        count = self._rng.randint(1, 100)
        for topic in self.topics:
            settings = {"transactional_id": "t", "end": end} if topic == "live-transactions" else {}
            self._broker.send(topic, count, first=self._sent, **settings)
        self._sent += count


class Killer:
    """Runs drivers that copy, and kills them and their workers.

    Attributes:
        positions: how often each position in a micro-batch was the one at which a driver was killed.
    """

    def __init__(self, copy: StreamCopy, output: Path) -> None:
        self._copy = copy
        self._output = output
        self._rng = random.Random(SEED + 2)
        self._drivers: list[Driver] = []
        self.positions: Counter[str] = Counter()

    def run(self, kills: int) -> None:
        """Kill two workers for each driver, because a driver takes seconds to start. The last is a driver."""
        driver = None
        for number in range(kills):
            driver = driver or self._start(self._copy, complete=False)
            step, changes = self._rng.choice([*_steps(self._copy)]), self._rng.randint(1, 3)
            delay, only_jvm = self._rng.choice([0, self._rng.random() * 0.03]), self._rng.random() < 0.3
            takes_newest = self._rng.random() < 0.5  # it may run the sink's commit
            self._wait_for(driver, step, changes)
            time.sleep(delay)
            if (kills - 1 - number) % 3:
                what = "worker"
                while not (workers := driver.workers()):
                    assert driver.is_running()
                kill(workers[-1] if takes_newest else self._rng.choice(workers))
            else:
                what = "JVM" if only_jvm else "driver"
                driver.kill_jvm() if only_jvm else driver.kill()
                driver = None
                self.positions[_position(self._copy)] += 1
            after = f"{delay * 1000:.0f} ms after change {changes} of {step}"
            print(f"kill {number}: {what}, {after}: {_position(self._copy)}")

    def complete(self) -> None:
        """Let a driver copy what is left."""
        options = {k: v for k, v in self._copy.options.items() if k != "maxOffsetsPerTrigger"}
        driver = self._start(replace(self._copy, options=options), complete=True)
        assert driver.wait(600) == 0

    def stop(self) -> None:
        for driver in self._drivers:
            driver.kill()

    def _start(self, copy: StreamCopy, *, complete: bool) -> Driver:
        self._drivers.append(Driver(command(copy, complete=complete), ROOT, self._output))
        return self._drivers[-1]

    def _wait_for(self, driver: Driver, step: str, changes: int) -> None:
        """Wait until a step of a micro-batch was done several times."""
        path, deadline = _steps(self._copy)[step], time.monotonic() + STEP_SECONDS
        version = _version(path)
        while changes:
            time.sleep(0.002)
            assert driver.is_running()
            assert time.monotonic() < deadline, f"expected a change of {path}, found none"
            now = _version(path)
            if now != version:
                version, changes = now, changes - 1
                if changes:
                    driver.find_jvm()


def _steps(copy: StreamCopy) -> dict[str, Path]:
    """Return the files and directories that change in a micro-batch, in this order."""
    return {
        "offset log": Path(copy.checkpoint, "offsets"),
        "identities": Path(copy.options["offsetStateLocation"], LOG_IDENTITIES),
        "staging": Path(copy.target, f"{copy.topic}-0"),
        "intent": Path(copy.target, WRITE_INTENT),  # it is written, and removed
        "commit log": Path(copy.checkpoint, "commits"),
    }


def _version(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_mtime_ns


def _position(copy: StreamCopy) -> str:
    """Return how far the current micro-batch is."""
    checkpoint, target = Path(copy.checkpoint), Path(copy.target)
    planned, committed = _newest(checkpoint / "offsets"), _newest(checkpoint / "commits")
    if planned == committed:
        return "between micro-batches"
    query_id = json.loads((checkpoint / "metadata").read_text())["id"]
    intent = WriteIntent.read_file(Folder(str(target)), WRITE_INTENT)
    if intent is not None and intent.stream is not None and intent.stream[0] == query_id:
        return "in the sink's commit"
    if last_stream_batch(target, query_id) == planned:
        return "after the sink's commit"
    staged = target.glob(f"{copy.topic}-*/.kafkalog-write-*/*")
    return "in a task" if any(staged) else "planned"


def _newest(folder: Path) -> int:
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def test_each_row_is_written_once(broker: Cluster, tmp_path: Path) -> None:
    """The source has a directory that does not change, and that of a broker to which records are sent."""
    print(f"KAFKALOG_SEED={SEED} KAFKALOG_KILLS={KILLS}")
    expected = write_input(tmp_path / "input")
    broker.create("copy", 2)
    feeder = Feeder(broker)
    options = {
        "subscribePattern": "orders|payments|live-.*",
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        "maxOffsetsPerTrigger": 200,
        "offsetStateLocation": str(tmp_path / "state"),
    }
    sources, output = [str(tmp_path / "input"), str(broker.log_dir)], tmp_path / "output"
    copy = StreamCopy(options, sources, str(output), "copy", str(tmp_path / "checkpoint"))
    killer = Killer(copy, tmp_path / "driver.log")
    try:
        feeder.start()
        try:
            killer.run(KILLS)
        finally:
            feeder.stop()
        for topic in feeder.topics:
            broker.log_up_to(topic, broker.consume(topic).end)
        killer.complete()
    finally:
        killer.stop()
        print((tmp_path / "driver.log").read_text(), killer.positions)
    for topic in feeder.topics:
        expected += copied(topic, 0, broker.consume(topic, "read_committed").rows)
    broker.stop()
    (left,) = output.rglob(".kafkalog-*")
    assert left.name.startswith(".kafkalog-stream-")
    written: Values = []
    for partition in range(2):
        replace_log(broker.log_dir / f"copy-{partition}", output / f"copy-{partition}")
    for partition in range(2):
        written += [(r.key, r.value) for r in broker.consume("copy", partition=partition).rows]
    assert broker.log_problems() == []
    missing, more = Counter(expected) - Counter(written), Counter(written) - Counter(expected)
    assert not missing and not more, (
        f"KAFKALOG_SEED={SEED}: {missing.total()} of {len(expected)} rows are missing: {list(missing)[:3]}; "
        f"{more.total()} are there too often: {list(more)[:3]}"
    )
