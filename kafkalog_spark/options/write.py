"""Parse and validate the write options, without a Spark session and without opening files.

The options of Spark's kafka sink keep their names, and are rejected where Spark and Kafka reject them (Spark:
KafkaSourceProvider; Kafka: ProducerConfig). Topic settings have Kafka's names.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.names import Option
from kafkalog_spark.options.producer import CONSUMER_OPTIONS, PRODUCER_OPTIONS, ProducerOptions
from kafkalog_spark.options.raw import RawOptions
from kafkalog_spark.options.read import UNSUPPORTED
from native_log.config import SETTINGS_BY_NAME, LogConfig
from native_log.producer.settings import trim

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from native_log.publish.partitioning import Partitioner

SINK_OPTIONS = {
    "topic": Option("", "the topic of all records; overrides the column `topic`"),
    "partitions": Option(
        "", "the number of partitions of topics that do not exist yet; if it is not set, they have one"
    ),
    "useTimestampColumn": Option(
        "true",
        "whether the column `timestamp` sets the time of records; Spark's kafka sink ignores it",
    ),
    "txnAppId": Option(
        "", "with `txnVersion`: [write each version once](#exactly-once-in-foreachbatch), as in Delta Lake"
    ),
    "txnVersion": Option("", "the version of this write: an integer of 64 bits, from 0 on"),
    "cluster.id": Option("", "the cluster of a log directory that does not exist yet; otherwise a random id"),
    "node.id": Option("1", "the broker of a log directory that does not exist yet"),
}
"""Write options other than topic settings and producer settings."""
_OPTIONS = (*SINK_OPTIONS, *PRODUCER_OPTIONS, *SETTINGS_BY_NAME)
_WRITE_ONLY = {name.lower() for name in _OPTIONS} - {*CONSUMER_OPTIONS}
_AMBIGUOUS = {"topics"}
"""Misspellings of one option in a read and of a different option in a write."""

_NAMES_ELSEWHERE = {
    "compression": "kafka.compression.type",
    "numPartitions": "partitions",
    "num.partitions": "partitions",
}
"""Names that other sinks of Spark, or brokers, use for an option. They are rejected instead of ignored."""


_TRANSACTION_NAMESPACE = uuid.UUID("6b61666b-616c-4f67-8a6f-74786e2e6964")


@dataclass(frozen=True, slots=True)
class Transaction:
    """The identity of a batch write. Each version of it is written once (Delta Lake: SetTransaction).

    Attributes:
        app_id: names a sequence of writes.
        version: the position in that sequence, at least 0.
        topic: the option topic of the write; None: rows name their topics.
    """

    app_id: str
    version: int
    topic: str | None

    @classmethod
    def parse(cls, raw: RawOptions, topic: str | None) -> Transaction | None:
        """Return the transaction of the options; None if there is none. Raises OptionError."""
        app_id, version = raw.get("txnAppId"), raw.long("txnVersion")
        if app_id is None and version is None:
            return None
        if app_id is None or version is None:
            given, missing = ("txnVersion", "txnAppId") if app_id is None else ("txnAppId", "txnVersion")
            raise OptionError(f"expected txnAppId and txnVersion, found only {given}; set {missing}, too")
        if not app_id.strip():
            raise OptionError(f"txnAppId: expected a name of this sequence of writes, found {app_id!r}")
        if version < 0:
            raise OptionError(f"txnVersion: expected a number of at least 0, found {version}")
        return cls(app_id, version, topic)

    @property
    def record_id(self) -> str:
        """The id under which the log directory keeps the last version: a UUID.

        Writes to several topics may have one app id, as writes to several tables may in Delta Lake.
        """
        return str(uuid.uuid5(_TRANSACTION_NAMESPACE, json.dumps([self.app_id, self.topic])))


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write.

    Attributes:
        path: the log directory.
        topic: the topic of all records; None: each row names its topic.
        partitions: number of partitions of topics that the write creates; None: one.
        use_timestamp_column: whether the column `timestamp` sets the timestamps of records.
        transaction: the version of this write; None: it is written each time.
        producer: the producer settings.
        config: the topic settings, by Kafka's names.
        cluster_id, node_id: the ids of a log directory that the write creates; cluster_id None: a random id.
    """

    path: str
    topic: str | None
    partitions: int | None
    use_timestamp_column: bool
    transaction: Transaction | None
    producer: ProducerOptions
    cluster_id: str | None
    node_id: int
    config: dict[str, str] = field(default_factory=dict)

    @property
    def new_topic_partitions(self) -> int:
        """The number of partitions of topics that the write creates."""
        return self.partitions or 1

    def partitioner(self, topic: str, partitions: int) -> Partitioner:
        """Return a new partitioner for a topic with this number of partitions."""
        # Imported here because reads import this module, and the import is slow.
        from native_log.publish.partitioning import Partitioner

        return Partitioner(
            topic,
            partitions,
            self.producer.batch_size,
            ignore_keys=self.producer.ignore_keys,
            round_robin=self.producer.round_robin,
        )


def may_be_write(names: Iterable[str]) -> bool:
    """Return whether options may belong to a write: at least one of them is not an option of reads."""
    return any(name.lower() in _WRITE_ONLY | _AMBIGUOUS for name in names)


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Parse write options. Ignore unknown names, unless they look like misspellings.

    Raises OptionError; InvalidConfigError for a topic setting.
    """
    raw = RawOptions(options)
    raw.check_spelling((*_OPTIONS, *UNSUPPORTED))
    for name, correct in _NAMES_ELSEWHERE.items():
        if raw.get(name) is not None:
            raise OptionError(f"unknown option {name!r}: did you mean {correct}?")
    producer = ProducerOptions.parse(raw)
    config = {name: value for name, value in raw.values.items() if name in SETTINGS_BY_NAME}
    LogConfig.parse(config)
    topic = raw.get("topic")
    if topic is not None and not trim(topic):
        raise OptionError(f"topic: expected a topic name, found {topic!r}")
    topic = None if topic is None else trim(topic)
    cluster_id = raw.get("cluster.id")
    return WriteOptions(
        path=_path(raw),
        topic=topic,
        partitions=raw.positive("partitions", 32),
        use_timestamp_column=raw.boolean("useTimestampColumn", True),
        transaction=Transaction.parse(raw, topic),
        producer=producer,
        cluster_id=None if cluster_id is None else cluster_id.strip(),
        node_id=raw.positive("node.id", 32) or 1,
        config=config,
    )


def _path(raw: RawOptions) -> str:
    paths = raw.paths()
    if len(paths) != 1:
        raise OptionError(f"expected one log directory to write to, found {len(paths)}: {', '.join(paths)}")
    return paths[0]
