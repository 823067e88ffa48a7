"""Run a real broker, producer and consumer on the loopback address."""

from __future__ import annotations

import json
import re
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.broker import Broker
from benchmarks.jvm import KAFKA, JavaError, Jvm
from tests.class_sharing import broker_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from native_log.log import PartitionLog

ROW_COLUMNS = ["offset", "key", "value", "timestamp", "timestampType", "headers"]
# A broker does these tasks every few seconds or minutes by default.
SHORT_INTERVALS = {
    "replica.high.watermark.checkpoint.interval.ms": "50",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "200",
    "log.cleaner.backoff.ms": "100",
    # A killed broker cannot start again before its registration expires.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
}


class Row(NamedTuple):
    """A record."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    timestamp_type: int
    headers: list[tuple[str, bytes | None]] | None


class Consumed(NamedTuple):
    """The records that a consumer gets of a partition, and the offsets from start to end (exclusive)."""

    start: int
    end: int
    rows: list[Row]


class Cluster:
    """A broker with one log directory, and a Java client. Both start with the first request."""

    def __init__(
        self,
        log_dir: Path,
        class_path: str,
        kafka: Path = KAFKA,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.log_dir = log_dir
        every = SHORT_INTERVALS | dict(settings or {})
        self.broker = Broker(log_dir, every, options=broker_options(kafka), kafka=kafka)
        self._class_path = class_path
        self._client: Jvm | None = None

    def stop(self, *, cleanly: bool = True) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        if cleanly:
            self.broker.stop()
        else:
            self.broker.kill()

    def create(self, topic: str, partitions: int = 1, **settings: Any) -> str:
        """Create a topic; `segment_ms=5` is its setting segment.ms."""
        self._ask("create", topic=topic, partitions=partitions, settings=_dotted(settings))
        return topic

    def alter(self, topic: str, **settings: Any) -> None:
        """Change settings of a topic, named as for `create`; None removes a setting."""
        kept = {name: value for name, value in settings.items() if value is not None}
        removed = dict.fromkeys(name.replace("_", ".") for name in settings.keys() - kept.keys())
        self._ask("alter", topic=topic, settings=_dotted(kept) | removed)

    def configs(self, topic: str) -> dict[str, str]:
        """Return the settings of a topic that differ from the defaults."""
        settings: dict[str, str] = self._ask("configs", topic=topic)
        return settings

    def create_partitions(self, topic: str, partitions: int) -> None:
        """Increase the number of partitions, as kafka-topics --alter."""
        self._ask("create_partitions", topic=topic, partitions=partitions)

    def delete(self, topic: str) -> None:
        self._ask("delete", topic=topic)

    def send(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        first: int = 0,
        keys: int = 1000,
        value_bytes: int = 20,
        plain: bool = False,
        end: str = "",
        **settings: Any,
    ) -> None:
        """Send records numbered from `first` (see Client.java); `plain` ones have no nulls and no headers.

        With `transactional_id` they are one transaction, and `end` is commit, abort or open.
        """
        self._ask(
            "send",
            topic=topic,
            partition=partition,
            count=count,
            first=first,
            keys=keys,
            value_bytes=value_bytes,
            plain=plain,
            end=end,
            settings=_dotted({"linger_ms": 5} | settings),
        )

    def consume(self, topic: str, isolation_level: str = "read_uncommitted", partition: int = 0) -> Consumed:
        """Return the records of a partition from its beginning to the end that the broker reports."""
        answer = self._ask("consume", topic=topic, isolation=isolation_level, partition=partition)
        rows = [
            Row(
                offset,
                _bytes(key),
                _bytes(value),
                time_ms,
                kind,
                [(k, _bytes(v)) for k, v in headers] or None,
            )
            for offset, key, value, time_ms, kind, headers in answer["rows"]
        ]
        return Consumed(answer["start"], answer["end"], rows)

    def delete_records(self, topic: str, before: int) -> None:
        self._ask("delete_records", topic=topic, before=before)

    def move(self, topic: str, log_dir: Path) -> None:
        """Move partition 0 to another log directory of the broker, and wait until it is there."""
        self._ask("move", topic=topic, log_dir=str(log_dir))

    def offset_for_timestamp(self, topic: str, timestamp_ms: int) -> int | None:
        """Return the offset of the ListOffsets request, or None if there is none."""
        offset = self._ask("offset_for_time", topic=topic, timestamp=timestamp_ms)["offset"]
        return None if offset == -1 else offset

    def join(self, group: str, topic: str, count: int, **settings: Any) -> None:
        """Add a consumer to a group. When all of the group have partitions, read `count` records and commit.

        The consumers stay in the group until `leave` or `stop`.
        """
        self._ask("join", group=group, topic=topic, count=count, settings=_dotted(settings))

    def leave(self, group: str) -> None:
        """Close the consumers of a group."""
        self._ask("leave", group=group)

    def commit_offset(
        self,
        group: str,
        topic: str,
        partition: int,
        offset: int,
        *,
        metadata: str = "",
        transactional_id: str | None = None,
        end: str = "",
    ) -> None:
        """Commit an offset for a group; with `transactional_id` in a transaction, see `send`."""
        self._ask(
            "commit_offsets",
            group=group,
            topic=topic,
            partition=partition,
            offset=offset,
            metadata=metadata,
            transactional_id=transactional_id,
            end=end,
        )

    def upgrade(self, feature: str, level: int) -> None:
        """Set the level of a feature, as kafka-features does."""
        self._ask("upgrade", feature=feature, level=level)

    def allow(self, principal: str, operation: str, topic_prefix: str) -> None:
        """Create an ACL for topics with this prefix."""
        self._ask("allow", principal=principal, operation=operation, prefix=topic_prefix)

    def limit(self, user: str, client_id: str | None, quota: str, value: float) -> None:
        """Set a quota of a user and a client id; None: the default of the user's clients."""
        self._ask("limit", user=user, client_id=client_id, quota=quota, value=value)

    def set_password(self, user: str) -> None:
        """Create a SCRAM-SHA-256 credential with 8192 iterations."""
        self._ask("set_password", user=user)

    def share(self, group: str, topic: str, count: int, *, accepts_all: bool = False) -> int:
        """Read at least `count` records with a consumer of a share group. Return how many it read.

        It accepts every third record, releases the next and rejects the one after it. Or it accepts all, and
        reads until there are no more.
        """
        answer = self._ask("share", group=group, topic=topic, count=count, accepts_all=accepts_all)
        return int(answer["count"])

    def stream(self, group: str, topic: str, client_id: str) -> None:
        """Add a member to a streams group, and wait until the group is stable. See Client.java.

        The members stay in the group until `leave` or `stop`.
        """
        self._ask("stream", group=group, topic=topic, client_id=client_id)

    def describe_streams(self, group: str) -> dict[str, Any]:
        """Return what the broker says about a streams group, named as in GROUPS_SCHEMA.

        The tasks of a member are lists of type, subtopology and partitions.
        """
        description: dict[str, Any] = self._ask("describe_streams", group=group)
        return description

    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        self._ask("delete_offsets", group=group, topic=topic, partition=partition)

    def log_problems(self) -> list[str]:
        """Return the warnings and errors about logs in the broker's output since its start."""
        return [
            line
            for line in self.broker.log_lines()
            if re.search(r"(WARN|ERROR|FATAL) .*\blog\.", line, re.IGNORECASE)
        ]

    def log(self, topic: str) -> PartitionLog:
        from native_log import LogDir

        return LogDir(self.log_dir).partition(topic, 0)

    def log_up_to(self, topic: str, high_watermark: int) -> PartitionLog:
        """Return the log when the broker has checkpointed that high watermark."""
        return eventually(lambda: self.log(topic), lambda log: log.high_watermark == high_watermark)

    def _ask(self, command: str, **arguments: Any) -> Any:
        if self._client is None:
            self.broker.start()
            self._client = Jvm(
                self._class_path,
                "Client",
                self.broker.bootstrap,
                options=["-Xmx512m", *broker_options(KAFKA)],
            )
        answer = json.loads(self._client.ask(json.dumps({"do": command} | arguments)))
        if "error" in answer:
            raise JavaError(f"{command} {arguments}: {answer['error']}")
        return answer


def eventually(get: Any, is_expected: Any, seconds: float = 60) -> Any:
    """Call `get` until it returns an expected value, and return that. Fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not is_expected(value := get()):
        assert time.monotonic() < deadline, f"still {value!r} after {seconds} s"
        time.sleep(0.05)
    return value


def run_during(work: Callable[[], Any], step: Callable[[], Any]) -> None:
    """Call `step` repeatedly while `work` runs in a thread, and once after it. Raise the errors of both."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    worker = threading.Thread(target=run)
    worker.start()
    try:
        while worker.is_alive():
            step()
        step()
    finally:
        worker.join()
    if failures:
        raise failures[0]


def rows(batches: Iterator[pa.RecordBatch]) -> list[Row]:
    """Return the records of batches with ROW_COLUMNS."""
    records: list[Row] = []
    for batch in batches:
        assert batch.schema.names == ROW_COLUMNS
        columns = [
            batch["timestamp"].cast("int64").to_pylist() if name == "timestamp" else batch[name].to_pylist()
            for name in ROW_COLUMNS
        ]
        for offset, key, value, time_us, kind, headers in zip(*columns, strict=True):
            pairs = None if headers is None else [(header["key"], header["value"]) for header in headers]
            records.append(Row(offset, key, value, time_us // 1000, kind, pairs))
    return records


def _dotted(settings: dict[str, Any]) -> dict[str, str]:
    return {name.replace("_", "."): str(value) for name, value in settings.items()}


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")
