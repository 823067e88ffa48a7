"""The producer from end to end, on real log directories."""

from __future__ import annotations

import re
import threading
import time
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from native_log import InvalidConfigError, InvalidRecordError, LogDir, RecordTooLargeError
from native_log.errors import (
    KafkaTimeoutError,
    ProducerClosedError,
    SerializationError,
    UnknownTopicOrPartitionError,
)
from native_log.producer import KafkaLogProducer
from native_log.producer.client import LogDirClient

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.producer import RecordFuture, RecordMetadata


def values(path: Path, topic: str = "t", partition: int = 0) -> list[bytes | None]:
    table = LogDir(path).partition(topic, partition).read(columns=["value"]).read_all()
    return [bytes(value) if value is not None else None for value in table.column("value").to_pylist()]


def test_records_are_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "logs"
    with KafkaLogProducer(path) as producer:
        future = producer.send("t", b"v", key="k", headers=[("h", b"1"), ("n", None)], timestamp_ms=5)
        assert future.get(10) == ("t", 0, 0, 5, 1, 1)
        assert producer.send("t").get(10).offset == 1
    rows = LogDir(path).partition("t", 0).read(columns=["key", "value", "headers", "timestamp"]).read_all()
    row = rows.to_pylist()[0]
    assert (row["key"], row["value"]) == (b"k", b"v")
    assert row["headers"] == [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
    assert values(path) == [b"v", None]


def test_a_new_topic_gets_num_partitions(tmp_path: Path) -> None:
    with KafkaLogProducer(tmp_path / "logs", num_partitions=3) as producer:
        assert producer.partitions_for("t") == {0, 1, 2}
        futures = [producer.send("t", str(number), partition=number % 3) for number in range(30)]
    assert [future.get(0).partition for future in futures] == [number % 3 for number in range(30)]
    assert values(tmp_path / "logs", partition=1) == [b"%d" % number for number in range(1, 30, 3)]


def test_a_producer_continues_a_log(tmp_path: Path) -> None:
    for number in range(2):
        with KafkaLogProducer(tmp_path / "logs", {"linger.ms": 0}) as producer:
            assert producer.send("t", b"v").get(10).offset == number


def test_two_producers_share_a_log(tmp_path: Path) -> None:
    with KafkaLogProducer(tmp_path / "logs") as first, KafkaLogProducer(tmp_path / "logs") as second:
        first.send("t", b"1").get(10)
        second.send("t", b"2").get(10)
        first.send("t", b"3").get(10)
    assert values(tmp_path / "logs") == [b"1", b"2", b"3"]


class SlowAppends:
    """Appends of a producer that wait until they may begin, and what is sent meanwhile."""

    def __init__(self, producer: KafkaLogProducer, monkeypatch: pytest.MonkeyPatch) -> None:
        self._producer = producer
        self._began, self._may_end = threading.Semaphore(0), threading.Semaphore(0)
        append = LogDirClient._append

        def slow_append(*arguments: Any) -> Any:
            self._began.release()
            assert self._may_end.acquire(timeout=30)
            return append(*arguments)

        monkeypatch.setattr(LogDirClient, "_append", slow_append)

    def wait_for_next(self) -> None:
        """Wait until an append is about to begin."""
        assert self._began.acquire(timeout=30)

    def send(self, value: str, key: str | None) -> RecordFuture:
        """Send a record in a request of its own."""
        future = self._producer.send("t", value, key=key)
        while any(self._producer._accumulator._topics["t"].queues):
            self._producer._sender.wakeup()  # as flush does: it would wait for the request in flight
            time.sleep(0.001)
        return future

    def let_pass(self, count: int) -> None:
        """Let appends begin."""
        self._may_end.release(count)


COMPACTED = {"cleanup_policy": "compact", "batch_size": 1, "linger_ms": 0}


def test_a_record_that_fails_does_not_change_the_order_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without sequences, later requests are on their way when a batch fails, and are written first."""
    with KafkaLogProducer(tmp_path / "logs", enable_idempotence=False, **COMPACTED) as producer:
        producer.send("t", "0", key="k").get(30)
        appends = SlowAppends(producer, monkeypatch)
        appends.send("1", "k")
        appends.wait_for_next()  # the next two are appended together after it
        appends.send("without a key", None)
        appends.send("2", "k")
        appends.let_pass(1)
        appends.wait_for_next()
        appends.send("3", "k")
        appends.let_pass(20)
    assert values(tmp_path / "logs") == [b"0", b"1", b"2", b"3"]


def test_after_the_first_record_of_a_producer_failed_others_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next request is on its way with the second sequence. A log would accept that as the first one."""
    with KafkaLogProducer(tmp_path / "logs", **COMPACTED) as producer:
        producer.send("t", "0", key="k").get(30)
    with KafkaLogProducer(tmp_path / "logs", **COMPACTED) as producer:
        assert producer.partitions_for("t") == {0}
        appends = SlowAppends(producer, monkeypatch)
        first = appends.send("without a key", None)
        appends.wait_for_next()
        others = [appends.send("1", "k"), appends.send("2", "k")]
        appends.let_pass(20)
        others[-1].get(30)
        others.append(producer.send("t", "3", key="k"))
    assert [future.get(0).offset for future in others] == [1, 2, 3]
    assert isinstance(first.exception, InvalidRecordError)
    assert values(tmp_path / "logs") == [b"0", b"1", b"2", b"3"]


def test_callbacks_run_in_order_before_flush_returns(tmp_path: Path) -> None:
    seen: list[int] = []

    def note(metadata: RecordMetadata | None, error: Exception | None) -> None:
        assert metadata is not None and error is None
        seen.append(metadata.offset)
        raise RuntimeError("an exception of one callback harms no other")

    with KafkaLogProducer(tmp_path / "logs", linger_ms=60_000) as producer:
        for _ in range(5):
            producer.send("t", b"v", callback=note)
        future = producer.send("t", b"v")
        more: list[RecordMetadata] = []
        future.add_callback(more.append)
        producer.flush()
        assert future.is_done and future.succeeded()
    assert (seen, more) == ([0, 1, 2, 3, 4], [future.get(0)])


def test_a_record_that_is_too_large_fails_at_once(tmp_path: Path) -> None:
    errors: list[Exception | None] = []
    with KafkaLogProducer(tmp_path / "logs", max_request_size=100) as producer:
        future = producer.send("t", b"v" * 100, callback=lambda _, error: errors.append(error))
        message = re.escape("The message is 186 bytes when serialized which is larger than 100")
        with pytest.raises(RecordTooLargeError, match=message):
            future.get(0)
    assert [type(error) for error in errors] == [RecordTooLargeError]


def test_a_missing_topic_fails_at_once(tmp_path: Path) -> None:
    LogDir.create(tmp_path / "logs")
    with KafkaLogProducer(tmp_path / "logs", auto_create_topics_enable=False) as producer:
        future = producer.send("t", b"v")
        assert isinstance(future.exception, UnknownTopicOrPartitionError)


def test_a_missing_partition_fails_after_max_block_ms(tmp_path: Path) -> None:
    with KafkaLogProducer(tmp_path / "logs") as producer:
        producer.send("t", b"v").get(10)
    with KafkaLogProducer(tmp_path / "logs", max_block_ms=1) as producer:
        future = producer.send("t", b"v", partition=7)
        assert isinstance(future.exception, KafkaTimeoutError)
        assert "present in metadata after 1 ms." in str(future.exception)


def test_send_after_close(tmp_path: Path) -> None:
    producer = KafkaLogProducer(tmp_path / "logs")
    producer.close()
    producer.close()
    with pytest.raises(ProducerClosedError):
        producer.send("t", b"v")


def test_values_that_are_no_bytes_need_a_serializer(tmp_path: Path) -> None:
    with KafkaLogProducer(tmp_path / "logs") as producer, pytest.raises(SerializationError, match="int"):
        producer.send("t", 1)
    with KafkaLogProducer(tmp_path / "logs", value_serializer=lambda value: b"%d" % value) as producer:
        producer.send("t", 1)
    assert values(tmp_path / "logs") == [b"1"]


def test_a_misspelled_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match=r"did you mean 'linger\.ms'"):
        KafkaLogProducer(tmp_path / "logs", linger_s=1)


def test_arrow_records_follow_the_records_sent_before(tmp_path: Path) -> None:
    records = pa.RecordBatch.from_pydict({"value": [b"%d" % number for number in range(1000)]})
    with KafkaLogProducer(tmp_path / "logs", batch_size=500, linger_ms=1000) as producer:
        producer.send("t", b"before")
        future = producer.send_batch("t", records)
        producer.send("t", b"after")
        assert future.get(10) == [("t", 0, 1, 1000)]
    assert values(tmp_path / "logs") == [b"before", *records["value"].to_pylist(), b"after"]
    headers = pa.concat_tables(
        map(pa.Table.from_batches, [[b] for b in LogDir(tmp_path / "logs").partition("t", 0).batches()])
    )
    assert headers["baseSequence"].to_pylist() == headers["baseOffset"].to_pylist()


def test_arrow_records_go_to_the_partitions_of_their_keys(tmp_path: Path) -> None:
    keys = [b"%d" % number for number in range(50)]
    with KafkaLogProducer(
        tmp_path / "logs", num_partitions=4, buffer_memory=3000, batch_size=100
    ) as producer:
        written = [producer.send("t", b"v", key=key).get(10).partition for key in keys]
        records = pa.table({"key": keys, "value": keys, "partition": pa.array([None] * 49 + [0], pa.int64())})
        parts = producer.send_batch("t", records).get(10)
        producer.send_batch("t", pa.table({"value": ["x"]}), partition=2).get(10)
        with pytest.raises(InvalidRecordError, match="found 4"):
            producer.send_batch("t", pa.table({"value": ["x"]}), partition=4)
        with pytest.raises(ValueError, match="did you mean value"):
            producer.send_batch("t", pa.table({"valu": ["x"]}))
    assert sum(part.record_count for part in parts) == 50
    for number in range(4):
        mine = [key for key, partition in zip(keys, written, strict=True) if partition == number]
        moved = [keys[-1]] if number == 0 and keys[-1] not in mine else []
        expected = [key for key in mine if key != keys[-1] or number == 0] + moved + [b"x"] * (number == 2)
        assert values(tmp_path / "logs", partition=number)[len(mine) :] == expected


@pytest.mark.parametrize(("column", "value"), [("topic", "u"), ("partition", 1)])
def test_arrow_records_that_contradict_the_arguments(tmp_path: Path, column: str, value: object) -> None:
    expected = {"topic": "t", "partition": 0}[column]
    rejected = pa.table({"value": ["a", "b", "c"], column: [None, expected, value]})
    with KafkaLogProducer(tmp_path / "logs", num_partitions=2) as producer:
        with pytest.raises(
            InvalidRecordError, match=f"row 2: expected {column} {expected!r}, found {value!r}"
        ):
            producer.send_batch("t", rejected, partition=0)
        producer.send_batch("t", rejected.slice(0, 2), partition=0).get(10)
    assert values(tmp_path / "logs") == [b"a", b"b"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": ["a"]}, "expected a column value"),
        ({"value": [1]}, "column value: expected binary or string, found int64"),
        ({"value": ["a"], "key": [1.5]}, "column key: expected binary or string"),
        ({"value": ["a"], "headers": [1]}, "column headers: expected a list of structs"),
        ({"value": ["a"], "timestamp": [date(2026, 11, 1)]}, "column timestamp: expected timestamps"),
    ],
)
def test_arrow_records_with_wrong_types(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    with KafkaLogProducer(tmp_path / "logs") as producer:
        with pytest.raises(ValueError, match=message):
            producer.send_batch("t", pa.table(columns))
        producer.send_batch("t", pa.table({"value": ["a"]})).get(10)
    assert values(tmp_path / "logs") == [b"a"]


def test_arrow_records_that_make_too_large_batches_are_split(tmp_path: Path) -> None:
    records = pa.table({"value": [b"%050d" % number for number in range(100)]})
    settings: dict[str, Any] = {"batch_size": 20_000, "max_message_bytes": 1000}
    with KafkaLogProducer(tmp_path / "logs", **settings) as producer:
        parts = producer.send_batch("t", records).get(10)
        with pytest.raises(RecordTooLargeError):
            producer.send_batch("t", pa.table({"value": [b"1", b"2" * 1000]})).get(10)
        assert producer.metrics()["buffer-available-bytes"] == 32 << 20
    assert [part.base_offset for part in parts] == [0, 13, 25, 38, 50, 63, 75, 88]
    assert values(tmp_path / "logs") == [*records["value"].to_pylist(), b"1"]
    for batches in LogDir(tmp_path / "logs").partition("t", 0).batches():
        assert batches["baseSequence"].to_pylist() == batches["baseOffset"].to_pylist()


def test_sequences_continue_those_of_a_snapshot(tmp_path: Path) -> None:
    """The log forgets what it knew of the producer, and reads it from its snapshot."""
    logdir = LogDir.create(tmp_path / "logs")
    with KafkaLogProducer(logdir, linger_ms=0) as producer:
        for number in range(3):
            assert producer.send("t", b"v").get(10).offset == number
            logdir.close()
            assert (tmp_path / "logs" / "t-0" / f"{number + 1:020}.snapshot").exists()
    batches = [
        row for batch in LogDir(tmp_path / "logs").partition("t", 0).batches() for row in batch.to_pylist()
    ]
    assert [row["baseSequence"] for row in batches] == [0, 1, 2]
    assert len({row["producerId"] for row in batches}) == 1
