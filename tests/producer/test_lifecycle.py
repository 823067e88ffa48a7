"""Closing, forking, blocking, and exceptions of the user's code, with real threads."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from native_log import LogDir, verify
from native_log.checkpoints.names import INTERNAL_TOPICS
from native_log.errors import (
    BufferExhaustedError,
    InvalidBatchError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTopicError,
    KafkaLogError,
    LogDirInUseError,
    ProducerClosedError,
)
from native_log.log import PartitionLog
from native_log.producer import KafkaLogProducer, ProducerRecord, RecordFuture, RecordMetadata, client
from native_log.system import current_ms
from tests.broker_lock import held_lock
from tests.builders.batches import batch
from tests.builders.golden import GOLDEN
from tests.builders.logs import write_log

from .support import in_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS = 30
"""A limit for what takes no time."""


def values(path: Path, partition: int = 0) -> list[bytes]:
    table = LogDir(path).partition("t", partition).read(columns=["value"]).read_all()
    column: list[bytes] = table.column("value").to_pylist()
    return column


def wait(future: RecordFuture) -> Exception | None:
    """Wait until a record is done. Return its error."""
    with contextlib.suppress(Exception):
        future.get(SECONDS)
    assert future.is_done
    return future.exception


@pytest.fixture
def stall(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Appends to logs wait until this event is set."""
    gate = threading.Event()
    append = PartitionLog.append_built

    def stalled(self: PartitionLog, *arguments: Any, **named: Any) -> tuple[int, list[int]]:
        gate.wait(SECONDS)
        return append(self, *arguments, **named)

    monkeypatch.setattr(PartitionLog, "append_built", stalled)
    yield gate
    gate.set()


def test_close_writes_what_is_left(tmp_path: Path) -> None:
    producer = KafkaLogProducer(tmp_path / "logs", linger_ms=100_000)
    futures = [producer.send("t", b"%d" % number) for number in range(10)]
    producer.close()
    assert [future.get(0).offset for future in futures] == list(range(10))


def test_a_forced_close_fails_the_records_that_wait(tmp_path: Path, stall: threading.Event) -> None:
    producer = KafkaLogProducer(tmp_path / "logs", linger_ms=0, batch_size=0)
    seen: list[Any] = []
    futures = [
        producer.send("t", b"v" * 100, callback=lambda *result: seen.append(result)) for _ in range(10)
    ]
    producer.close(0)
    for future in futures:
        with pytest.raises(ProducerClosedError, match="Producer is closed forcefully"):
            future.get(0)
    assert len(seen) == 10
    stall.set()
    with pytest.raises(ProducerClosedError):
        producer.send("t", b"v")


def test_full_batches_are_written_without_a_flush(tmp_path: Path, stall: threading.Event) -> None:
    """They do not wake the sender while requests are in flight; the responses do."""
    settings: dict[str, Any] = {"batch_size": 200, "linger_ms": 100_000}
    with KafkaLogProducer(tmp_path / "logs", settings) as producer:
        in_time(lambda: producer.partitions_for("t"))
        futures = [producer.send("t", b"v" * 100) for _ in range(1000)]
        assert not any(future.is_done for future in futures)
        stall.set()
        offsets = [future.get(SECONDS).offset for future in futures[:-1]]
        assert offsets == list(range(999))


def test_a_log_directory_that_stalls_delays_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    append = PartitionLog.append_built

    def stalled(self: PartitionLog, *arguments: Any, **named: Any) -> tuple[int, list[int]]:
        if self.path.parent.name == "slow":
            gate.wait(SECONDS)
        return append(self, *arguments, **named)

    monkeypatch.setattr(PartitionLog, "append_built", stalled)
    paths = [tmp_path / "slow", tmp_path / "fast"]
    LogDir.create(paths).create_topic("t", 2)
    with KafkaLogProducer(paths, linger_ms=0, batch_size=0) as producer:
        slow = next(number for number in range(2) if (tmp_path / f"slow/t-{number}").exists())
        waiting = [producer.send("t", b"v", partition=slow) for _ in range(10)]
        for _ in range(10):
            assert producer.send("t", b"v", partition=1 - slow).get(SECONDS).offset >= 0
        assert not any(future.is_done for future in waiting)
        gate.set()


def test_close_after_its_timeout_is_forced(tmp_path: Path, stall: threading.Event) -> None:
    producer = KafkaLogProducer(tmp_path / "logs")
    future = producer.send("t", b"v")
    producer.close(0.01)
    assert isinstance(future.exception, ProducerClosedError)
    stall.set()
    with pytest.raises(ValueError, match="timeout cannot be negative"):
        producer.close(-1)


def test_close_in_a_callback_does_not_wait(tmp_path: Path) -> None:
    producer = KafkaLogProducer(tmp_path / "logs", linger_ms=100_000)
    closed = threading.Event()

    def close(*_: object) -> None:
        producer.close()
        closed.set()

    producer.send("t", b"v", callback=close)
    threading.Thread(target=producer.flush).start()
    assert closed.wait(SECONDS)
    with pytest.raises(ProducerClosedError):
        producer.send("t", b"w")
    producer.close()


def test_flush_in_a_callback_is_an_error(tmp_path: Path) -> None:
    errors: list[Exception] = []
    with KafkaLogProducer(tmp_path / "logs") as producer:

        def flush(*_: object) -> None:
            try:
                producer.flush()
            except KafkaLogError as error:
                errors.append(error)

        producer.send("t", b"v", callback=flush).get(SECONDS)
    assert "expected flush outside of callbacks" in str(errors[0])


def test_send_in_a_callback(tmp_path: Path) -> None:
    with KafkaLogProducer(tmp_path / "logs", linger_ms=0) as producer:
        again: list[Any] = []
        producer.send("t", b"1", callback=lambda *_: again.append(producer.send("t", b"2")))
        producer.flush()
        again[0].get(SECONDS)
    assert values(tmp_path / "logs") == [b"1", b"2"]


def test_a_full_buffer_blocks_until_records_are_written(tmp_path: Path, stall: threading.Event) -> None:
    settings = {"buffer_memory": 300, "batch_size": 100, "max_request_size": 200, "linger_ms": 0}
    with KafkaLogProducer(tmp_path / "logs", settings, max_block_ms=SECONDS * 1000) as producer:
        futures = []
        threads = []
        for _ in range(8):
            thread = threading.Thread(target=lambda: futures.append(producer.send("t", b"v" * 50)))
            thread.start()
            threads.append(thread)
        while producer.metrics()["waiting-threads"] < 5:
            pass
        assert producer.metrics()["buffer-available-bytes"] < 200
        stall.set()
        for thread in threads:
            thread.join(SECONDS)
    assert sorted(future.get(0).offset for future in futures) == list(range(8))


def test_a_buffer_that_stays_full_is_an_error(tmp_path: Path, stall: threading.Event) -> None:
    settings: dict[str, Any] = {"buffer_memory": 200, "batch_size": 200, "max_request_size": 200}
    LogDir.create(tmp_path / "logs").create_topic("t")
    with KafkaLogProducer(tmp_path / "logs", settings, max_block_ms=1, linger_ms=0) as producer:
        in_time(lambda: producer.partitions_for("t"))
        futures = [producer.send("t", b"v" * 100) for _ in range(3)]
        assert isinstance(futures[-1].exception, BufferExhaustedError)
        assert producer.metrics()["buffer-exhausted-total"] > 0
        stall.set()


def test_close_wakes_threads_that_wait_for_memory(tmp_path: Path, stall: threading.Event) -> None:
    producer = KafkaLogProducer(tmp_path / "logs", buffer_memory=200, batch_size=200, max_request_size=200)
    producer.send("t", b"v" * 100)
    errors: list[Exception] = []

    def send() -> None:
        try:
            producer.send("t", b"v" * 100)
        except ProducerClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    while not producer.metrics()["waiting-threads"]:
        pass
    producer.close(0)
    thread.join(SECONDS)
    assert "Producer closed while allocating memory" in str(errors[0])
    stall.set()


def test_many_threads_send_at_once(tmp_path: Path) -> None:
    with KafkaLogProducer(tmp_path / "logs", num_partitions=2, batch_size=200, linger_ms=0) as producer:
        futures: list[list[Any]] = [[] for _ in range(8)]

        def send(sender: int) -> None:
            for number in range(200):
                futures[sender].append(producer.send("t", b"%d %d" % (sender, number), partition=sender % 2))

        threads = [threading.Thread(target=send, args=(sender,)) for sender in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for partition in range(2):
        written = values(tmp_path / "logs", partition)
        assert len(written) == 800
        for sender in range(partition, 8, 2):
            offsets = [future.get(0).offset for future in futures[sender]]
            assert offsets == sorted(offsets)
            assert [written[offset] for offset in offsets] == [b"%d %d" % (sender, n) for n in range(200)]


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_partitions_are_appended_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    monkeypatch.setattr(client, "_BYTES_FOR_THREADS", 0)
    monkeypatch.setattr(client, "available_cores", lambda: cores)
    append = PartitionLog.append_built

    def failing(self: PartitionLog, *arguments: Any, **named: Any) -> tuple[int, list[int]]:
        if self.partition == 1:
            raise RuntimeError("a defect")
        return append(self, *arguments, **named)

    monkeypatch.setattr(PartitionLog, "append_built", failing)
    with KafkaLogProducer(tmp_path / "logs", num_partitions=4, linger_ms=100_000) as producer:
        futures = [producer.send("t", b"%d" % number, partition=number % 4) for number in range(40)]
    errors = [str(future.exception) for future in futures if future.failed()]
    assert errors == ["a defect"] * 10 and all(future.is_done for future in futures)
    for partition in (0, 2, 3):
        assert values(tmp_path / "logs", partition) == [b"%d" % n for n in range(partition, 40, 4)]


class Notes:
    """An interceptor that changes values, raises once, and notes what was acknowledged."""

    def __init__(self) -> None:
        self.metadata: list[tuple[RecordMetadata, Exception | None]] = []
        self.closed = False

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        if record.value == b"raise":
            raise RuntimeError("mine")
        return record._replace(value=record.value + b"!")

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        self.metadata.append((metadata, error))

    def close(self) -> None:
        self.closed = True


def test_interceptors(tmp_path: Path) -> None:
    notes, order = Notes(), []
    with KafkaLogProducer(tmp_path / "logs", interceptors=notes, max_request_size=200) as producer:
        producer.send("t", b"a", callback=lambda *_: order.append(len(notes.metadata)))
        producer.send("t", b"raise")
        producer.send("t", b"v" * 200)
        with pytest.raises(KafkaLogError, match="int"):
            producer.send("t", b"b", key=1)
    assert values(tmp_path / "logs") == [b"a!", b"raise"]
    written = [metadata.offset for metadata, error in notes.metadata if error is None]
    failed = [metadata[:3] for metadata, error in notes.metadata if error is not None]
    assert (written, failed) == ([0, 1], [("t", -1, -1)] * 2)
    assert notes.closed
    assert order[0] >= 1, "expected the interceptor before the callback"


class Faulty:
    """A partitioner that raises, or returns a partition that does not exist."""

    def partition(self, _topic: str, key: Any, *_: Any) -> int:
        if key == "raise":
            raise RuntimeError("mine")
        return int(key)


def test_an_exception_of_a_partitioner_harms_only_its_record(tmp_path: Path) -> None:
    with KafkaLogProducer(tmp_path / "logs", num_partitions=2, partitioner_class=Faulty) as producer:
        future = producer.send("t", b"0", key="1")
        with pytest.raises(RuntimeError, match="mine"):
            producer.send("t", b"1", key="raise")
        for key in ("-1", "2"):
            with pytest.raises(ValueError, match=f"invalid partition number: {key}"):
                producer.send("t", b"2", key=key)
        assert producer.send("t", b"3", key="1", partition=0).get(SECONDS).partition == 0
        assert future.get(SECONDS).partition == 1


def test_a_fork_cannot_use_the_producer(tmp_path: Path) -> None:
    with KafkaLogProducer(tmp_path / "logs", linger_ms=100_000) as producer:
        future = producer.send("t", b"v")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                producer.send("t", b"w")
            except ProducerClosedError as error:
                if "a fork of it" in str(error):
                    failed = isinstance(future.exception, ProducerClosedError)
                    producer.close()
                    with KafkaLogProducer(tmp_path / "others") as mine:
                        status = 0 if failed and mine.send("t", b"x").get(SECONDS).offset == 0 else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        producer.flush()
        assert future.get(0).offset == 0
    assert values(tmp_path / "logs") == [b"v"]
    assert values(tmp_path / "others") == [b"x"]


def test_a_producer_that_is_not_closed_writes_its_records(tmp_path: Path) -> None:
    producer: Any = KafkaLogProducer(tmp_path / "logs", linger_ms=100_000)
    future, thread = producer.send("t", b"v"), producer._thread
    with pytest.warns(ResourceWarning, match=r"expected close\(\) of a KafkaLogProducer"):
        del producer
        gc.collect()
    thread.join(SECONDS)
    assert future.get(0).offset == 0


def test_a_new_producer_waits_while_another_one_closes_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, gate, is_closing = tmp_path / "logs", threading.Event(), threading.Event()
    close = PartitionLog.close

    def stalled(self: PartitionLog) -> None:
        is_closing.set()
        gate.wait(SECONDS)
        close(self)

    first = KafkaLogProducer(path, linger_ms=0)
    first.send("t", b"1").get(SECONDS)
    monkeypatch.setattr(PartitionLog, "close", stalled)
    closing = threading.Thread(target=first.close)
    closing.start()
    assert is_closing.wait(SECONDS)
    with KafkaLogProducer(path, linger_ms=0) as second:
        future = second.send("t", b"2")
        while not second._sender._client.in_flight():
            assert not future.is_done, future.exception
        gate.set()
        assert future.get(SECONDS).offset == 1
    closing.join(SECONDS)
    assert (path / ".kafka_cleanshutdown").exists()


def test_producers_that_are_not_closed_in_a_loop_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = PartitionLog.close

    def slow(self: PartitionLog) -> None:
        threading.Event().wait(0.01)
        close(self)

    monkeypatch.setattr(PartitionLog, "close", slow)
    with pytest.warns(ResourceWarning):
        for number in range(20):
            assert KafkaLogProducer(tmp_path / "logs").send("t", b"v").get(SECONDS).offset == number


def test_producers_in_many_threads_open_create_and_close_at_the_same_time(tmp_path: Path) -> None:
    futures: list[RecordFuture] = []
    errors: list[Exception] = []

    def produce(sender: int) -> None:
        try:
            for number in range(10):
                with KafkaLogProducer(tmp_path / "logs") as producer:
                    for topic in ("t", f"topic-{number}"):
                        futures.append(producer.send(topic, b"%d" % sender))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=produce, args=(sender,)) for sender in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert [future.exception for future in futures] == [None] * 80
    assert sorted(values(tmp_path / "logs")) == [b"%d" % sender for sender in range(4) for _ in range(10)]
    assert (tmp_path / "logs/.kafka_cleanshutdown").exists()


FORGETTING = {
    "a record": "p = Producer(path); p.send('t', b'v')",
    "a record that waits": "p = Producer(path, linger_ms=10**5); p.send('t', b'v')",
    "Arrow records": (
        "p = Producer(path, linger_ms=10**5); p.send_batch('t', pa.table({'value': [b'v'] * 100}))"
    ),
    "large Arrow records": (
        "p = Producer(path, linger_ms=10**5); p.send_batch('t', pa.table({'value': [b'v' * 10**5] * 200}))"
    ),
    "several partitions": (
        "p = Producer(path, num_partitions=3, linger_ms=10**5)\n"
        "for n in range(3): p.send('t', b'v', partition=n)"
    ),
    "many segments": (
        "p = Producer(path, linger_ms=10**5, batch_size=200, segment_bytes=1024, segment_index_bytes=100)\n"
        "for n in range(100): p.send('t', b'v' * 100)"
    ),
    "several producers": "all = [Producer(path) for n in range(5)]\nfor p in all: p.send('t', b'v')",
    "producers in a function": ("def use():\n    for n in range(5): Producer(path).send('t', b'v')\nuse()"),
    "a daemon thread": (
        "def use():\n"
        "    p = Producer(path)\n"
        "    p.send('t', b'v'); sent.set(); threading.Event().wait()\n"
        "sent = threading.Event()\n"
        "threading.Thread(target=use, daemon=True).start(); sent.wait()"
    ),
    "a thread that outlives the main thread": (
        "def use():\n"
        "    threading.main_thread().join()\n"
        "    p.send('t', b'v').get(30)\n"
        "    p.send('t', b'v' * 100)\n"
        "p = Producer(path); threading.Thread(target=use).start()"
    ),
    "a fork": ("p = Producer(path); p.send('t', b'v')\nif os.fork() == 0: raise SystemExit\nos.wait()"),
    "a transaction": (
        "p = Producer(path, transactional_id='x'); p.init_transactions(); p.begin_transaction()\n"
        "p.send('t', b'v')"
    ),
    "a transactional producer in a function": (
        "def use():\n"
        "    p = Producer(path, transactional_id='x'); p.init_transactions(); p.begin_transaction()\n"
        "    p.send('t', b'v'); p.commit_transaction()\n"
        "use()"
    ),
}


def run_script(path: Path, code: str) -> subprocess.CompletedProcess[str]:
    imports = "import os, sys, threading\nimport pyarrow as pa\n"
    imports += "from native_log.producer import KafkaLogProducer as Producer\npath = sys.argv[1]\n"
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", imports + code, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("case", FORGETTING)
def test_a_process_that_ends_closes_its_producers(tmp_path: Path, case: str) -> None:
    done = run_script(tmp_path / "logs", FORGETTING[case])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "logs/.kafka_cleanshutdown").exists()
    assert values(tmp_path / "logs")
    assert verify(tmp_path / "logs").num_rows == 0


def test_a_process_that_ends_says_that_it_cannot_close_a_producer(tmp_path: Path) -> None:
    code = "p = Producer(path, linger_ms=10**5, retries=1)\nfor n in range(3): p.send('t', b'v')\n"
    code += "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
    done = run_script(tmp_path / "logs", code)
    assert "3 records could not be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interpreter_that_starts_no_more_threads_closes_a_producer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Python 3.12 and later do at the exit of the process."""
    settings: dict[str, Any] = {"linger_ms": 100_000, "num_partitions": 3, "batch_size": 1 << 20}
    producer = KafkaLogProducer(tmp_path / "logs", settings)
    futures = [producer.send("t", b"v" * 1_000_000, partition=number % 3) for number in range(6)]

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    producer.close()
    assert [future.get(0).offset for future in futures] == [0, 0, 0, 1, 1, 1]
    assert (tmp_path / "logs/.kafka_cleanshutdown").exists()


def test_a_directory_that_a_broker_uses_is_left_alone(tmp_path: Path) -> None:
    LogDir.create(tmp_path / "logs").create_topic("t")
    with KafkaLogProducer(tmp_path / "logs") as producer, held_lock(tmp_path / "logs"):
        assert isinstance(wait(producer.send("t", b"v")), LogDirInUseError)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(tmp_path: Path, compression: str) -> None:
    settings = {"compression_type": compression, "batch_size": 1000, "linger_ms": 0}
    with KafkaLogProducer(tmp_path / "logs", settings) as producer:
        futures = [producer.send("t", b"%d " % number * 20) for number in range(100)]
        producer.flush()
        assert producer.metrics()["record-send-total"] == 100
    assert [future.get(0).offset for future in futures] == list(range(100))
    batches = [
        row for batch in LogDir(tmp_path / "logs").partition("t", 0).batches() for row in batch.to_pylist()
    ]
    assert {batch["compression"] for batch in batches} == {compression}


def test_the_topic_decides_on_codec_and_time(tmp_path: Path) -> None:
    logdir = LogDir.create(tmp_path / "logs")
    logdir.create_topic("t", config={"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"})
    with KafkaLogProducer(logdir, compression_type="lz4") as producer:
        assert producer.send("t", b"v", timestamp_ms=5).get(SECONDS).timestamp > 5
    (row,) = LogDir(tmp_path / "logs").partition("t", 0).read().read_all().to_pylist()
    assert (row["compression"], row["timestampType"]) == ("zstd", 1)


def test_a_record_that_the_topic_rejects(tmp_path: Path) -> None:
    with KafkaLogProducer(tmp_path / "logs", cleanup_policy="compact", linger_ms=100_000) as producer:
        notes: list[Any] = []
        futures = [
            producer.send("t", b"v", key=key, callback=lambda _, error: notes.append(type(error)))
            for key in (b"k", None, b"k")
        ]
        producer.flush()
        assert notes == [InvalidBatchError, InvalidRecordError, InvalidBatchError]
        assert "expected a key, because the topic is compacted" in str(futures[1].exception)
        with pytest.raises(InvalidBatchError, match="part of a batch which had one more more invalid"):
            futures[2].get()
        assert producer.send("t", b"v", key=b"k")
        producer.flush()
    assert values(tmp_path / "logs") == [b"v"]


@pytest.mark.parametrize("far", [2**50, 2**63 - 1])
def test_several_records_that_the_topic_rejects(tmp_path: Path, far: int) -> None:
    """As in Kafka, the kind of error is exact for a single record only (Sender.failBatch)."""
    now = current_ms()
    with KafkaLogProducer(tmp_path / "logs", num_partitions=2, linger_ms=100_000) as producer:
        for partition, times in enumerate([(far, now, far), (now, far)]):
            futures = [
                producer.send("t", b"v", partition=partition, timestamp_ms=time_ms) for time_ms in times
            ]
            producer.flush()
            kind = InvalidRecordError if partition == 0 else InvalidTimestampError
            expected = [InvalidBatchError if time_ms == now else kind for time_ms in times]
            assert [type(future.exception) for future in futures] == expected
            assert f"found {far}" in str(futures[-1].exception)
            assert "t-" in str(futures[-1].exception)


def test_new_log_directories_are_of_one_broker(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one", "two")]
    KafkaLogProducer(paths).close()
    paths += [tmp_path / "three"]
    paths[2].mkdir()
    with KafkaLogProducer(paths, num_partitions=3) as producer:
        producer.send("t", b"v").get(SECONDS)
    states = LogDir(paths).directories
    assert len({state.meta_properties.cluster_id for state in states if state.meta_properties}) == 1
    assert [len(LogDir(path).partitions()) for path in paths] == [1, 1, 1]


def test_a_new_log_directory_beside_one_without_ids(tmp_path: Path) -> None:
    """A copy of partitions has no meta.properties."""
    write_log(tmp_path / "copy" / "other-0", {0: [batch(0)]})
    KafkaLogProducer([tmp_path / "copy", tmp_path / "new"]).close()
    assert (tmp_path / "new" / "meta.properties").exists()


def test_a_topic_with_a_gap_in_its_partitions(tmp_path: Path) -> None:
    """The rest of the topic is in a log directory that was not given."""
    paths = [tmp_path / "one", tmp_path / "two"]
    LogDir.create(paths).create_topic("t", 4)
    with KafkaLogProducer(paths[1]) as producer:
        future = producer.send("t", b"v")
    assert "expected partitions of topic t from 0 on without gaps, found [1, 3]" in str(future.exception)


def test_topics_over_several_directories(tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    logdir = LogDir.create(paths)
    logdir.create_topic("t", 4)
    with KafkaLogProducer(paths) as producer:
        futures = [producer.send("t", b"%d" % number, partition=number % 4) for number in range(20)]
        producer.flush()
    assert [future.get(0).offset for future in futures] == [number // 4 for number in range(20)]
    assert all(len(LogDir(path).partitions()) == 2 for path in paths)


def test_a_topic_that_another_object_creates_is_found(tmp_path: Path) -> None:
    LogDir.create(tmp_path / "logs").create_topic("t", 2)
    with KafkaLogProducer(tmp_path / "logs", auto_create_topics_enable=False) as producer:
        assert producer.partitions_for("t") == {0, 1}
        LogDir(tmp_path / "logs").create_topic("u", 3)
        assert producer.partitions_for("u") == {0, 1, 2}


def test_a_log_that_cannot_be_closed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = KafkaLogProducer(tmp_path / "logs")
    producer.send("t", b"v").get(SECONDS)
    (tmp_path / "logs" / ".lock").unlink()
    with pytest.raises(LogDirInUseError, match="found it removed"):
        producer.close()
    producer.close()


@pytest.mark.parametrize("headers", [[("n", "text")], [(b"n", b"v")], ["n"], [("n",)]])
def test_headers_of_wrong_types_take_no_memory(tmp_path: Path, headers: Any) -> None:
    with KafkaLogProducer(tmp_path / "logs") as producer:
        with pytest.raises(TypeError, match="headers: expected pairs of str and bytes"):
            producer.send("t", b"v", headers=headers)
        with pytest.raises(TypeError):
            producer.send("t", b"v", timestamp_ms="now")  # type: ignore[arg-type]
        assert producer.metrics()["buffer-available-bytes"] == 32 << 20


@pytest.mark.parametrize("creates", [True, False])
@pytest.mark.parametrize("topic", [*sorted(INTERNAL_TOPICS), "a b", "", ".."])
def test_topics_that_clients_cannot_write(tmp_path: Path, topic: str, creates: bool) -> None:
    with KafkaLogProducer(tmp_path / "logs", auto_create_topics_enable=creates) as producer:
        assert isinstance(producer.send(topic, b"v").exception, InvalidTopicError)
    assert LogDir(tmp_path / "logs", allow_empty=True).topics() == {}


def test_a_record_for_the_controllers_is_not_written(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "kafka-4.1/whole-broker/data", tmp_path / "logs")
    before = LogDir(tmp_path / "logs").partition("__cluster_metadata", 0).log_end_offset
    for client_id in ("", "__admin_client"):
        with KafkaLogProducer(tmp_path / "logs", client_id=client_id) as producer:
            error = producer.send("__cluster_metadata", b"v", partition=0).exception
            assert isinstance(error, InvalidTopicError)
    assert LogDir(tmp_path / "logs").partition("__cluster_metadata", 0).log_end_offset == before


def test_an_admin_client_writes_to_internal_topics(tmp_path: Path) -> None:
    with KafkaLogProducer(tmp_path / "logs", client_id="__admin_client") as producer:
        assert producer.send("__consumer_offsets", b"v").get(SECONDS).offset == 0


@pytest.mark.parametrize("partition", ["0", 0.0, True])
def test_a_partition_of_a_wrong_type_is_rejected(tmp_path: Path, partition: Any) -> None:
    with (
        KafkaLogProducer(tmp_path / "logs") as producer,
        pytest.raises(TypeError, match="partition: expected an int, found"),
    ):
        producer.send("t", b"v", partition=partition)


@pytest.mark.parametrize(
    ("timestamp_ms", "error", "message"),
    [
        ("5", TypeError, "timestamp_ms: expected an int, found '5'"),
        (-1, ValueError, "Invalid timestamp: -1"),
        (2**63, ValueError, "timestamp_ms: expected at most 9223372036854775807, found 9223372036854775808"),
    ],
)
def test_an_invalid_timestamp_is_rejected(
    tmp_path: Path, timestamp_ms: Any, error: type[Exception], message: str
) -> None:
    with KafkaLogProducer(tmp_path / "logs") as producer:
        for _ in range(2):  # the topic is unknown, then known
            with pytest.raises(error, match=message):
                producer.send("t", b"v", timestamp_ms=timestamp_ms)


def test_a_topic_that_cannot_be_created_fails_the_record(tmp_path: Path) -> None:
    with KafkaLogProducer(tmp_path / "logs") as producer:
        assert isinstance(producer.send("a/b", b"v").exception, InvalidTopicError)
        with pytest.raises(TypeError, match="topic: expected a str"):
            producer.send(5, b"v")  # type: ignore[arg-type]
        assert producer.send("t", b"v").get(SECONDS).offset == 0
