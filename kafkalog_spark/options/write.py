"""The write options: one parser, one validation, one frozen result. Knows no Spark session, opens no file.

Those of Spark's kafka sink keep their names and refusals (KafkaSourceProvider, ProducerConfig); settings of
topics go by Kafka's names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.producer import ALSO_OF_CONSUMERS, PRODUCER, ProducerOptions, trimmed
from kafkalog_spark.options.read import PROTECTED, Given
from native_log.config import SETTINGS_BY_NAME, LogConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from native_log.publish.partitioning import Partitioner

SINK = ("topic", "partitions", "useTimestampColumn", "cluster.id", "node.id")
"""Names that only a write knows, beside topics' settings and those of the producer."""
ONLY_OF_WRITES = {name.lower() for name in (*SINK, *PRODUCER, *SETTINGS_BY_NAME)} - {*ALSO_OF_CONSUMERS}
_UNDECIDED = {"topics"}
"""Slips that stand for one option in a read, and for another one in a write."""

_NAMES_ELSEWHERE = {
    "compression": "kafka.compression.type",
    "numPartitions": "partitions",
    "num.partitions": "partitions",
}
"""What Spark's other sinks, and brokers, call it: passed over, they would be missed."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a write is to do.

    Attributes:
        path: of the log directory.
        topic: of all records; None: each row names its own.
        partitions: of topics that are not there yet.
        use_timestamp_column: whether a column `timestamp` is the records' time.
        producer: how records become batches, and where they go.
        config: the topics' settings among the options, by Kafka's names.
        cluster_id, node_id: of a log directory that is not there yet.
    """

    path: str
    topic: str | None
    partitions: int
    use_timestamp_column: bool
    producer: ProducerOptions
    cluster_id: str | None
    node_id: int
    config: dict[str, str] = field(default_factory=dict)

    def partitioner(self, topic: str, partitions: int) -> Partitioner:
        from native_log.publish.partitioning import Partitioner  # readers parse these options, too

        how = self.producer
        return Partitioner(
            topic, partitions, how.batch_size, ignore_keys=how.ignore_keys, round_robin=how.round_robin
        )


def is_write(names: Iterable[str]) -> bool:
    """Whether these options may be those of a write: whether there is one that a read does not know."""
    return any(name.lower() in ONLY_OF_WRITES | _UNDECIDED for name in names)


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Raises OptionError; InvalidConfigError for a setting of a topic. Unknown names are passed over, unless
    they look like slips."""
    given = Given(options)
    given.check_write_names((*SINK, *PRODUCER, *SETTINGS_BY_NAME, *PROTECTED))
    for name, meant in _NAMES_ELSEWHERE.items():
        if given.get(name) is not None:
            raise OptionError(f"unknown option {name!r}: is {meant} meant?")
    producer = ProducerOptions.parse(given)
    config = {name: value for name, value in given.values.items() if name in SETTINGS_BY_NAME}
    LogConfig.parse(config)
    topic = given.get("topic")
    if topic is not None and not trimmed(topic):
        raise OptionError(f"topic: expected a topic's name, got {topic!r}")
    cluster_id = given.get("cluster.id")
    return WriteOptions(
        path=_path(given),
        topic=None if topic is None else trimmed(topic),
        partitions=given.positive("partitions", 32) or 1,
        use_timestamp_column=given.boolean("useTimestampColumn", True),
        producer=producer,
        cluster_id=None if cluster_id is None else cluster_id.strip(),
        node_id=given.positive("node.id", 32) or 1,
        config=config,
    )


def _path(given: Given) -> str:
    paths = given.paths()
    if len(paths) != 1:
        raise OptionError(f"expected one log directory to write to, got {len(paths)}: {', '.join(paths)}")
    return paths[0]
