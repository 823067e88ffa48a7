"""The write options: one parser, one validation, one frozen result. Knows no Spark session, opens no file.

Those of Spark's kafka sink keep their names and refusals (KafkaSourceProvider, ProducerConfig); settings of
topics go by Kafka's names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalog_spark.errors import OptionError
from kafkalog_spark.options import Given
from native_log.config import SETTINGS_BY_NAME, LogConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from native_log.publish.partitioning import Partitioner

SINK = ("topic", "partitions", "useTimestampColumn", "cluster.id", "node.id")
"""Names that only a write knows, beside topics' settings and these of the producer:"""
PRODUCER = (
    "kafka.compression.type",
    "kafka.compression.gzip.level",
    "kafka.compression.lz4.level",
    "kafka.compression.zstd.level",
    "kafka.batch.size",
    "kafka.linger.ms",
    "kafka.acks",
    "kafka.partitioner.class",
    "kafka.partitioner.ignore.keys",
    "kafka.key.serializer",
    "kafka.value.serializer",
)

ONLY_OF_WRITES = {name.lower() for name in (*SINK, *PRODUCER, *SETTINGS_BY_NAME)}

_NAMES_ELSEWHERE = {
    "compression": "kafka.compression.type",
    "numPartitions": "partitions",
    "num.partitions": "partitions",
}
"""What Spark's other sinks, and brokers, call it: passed over, they would be missed."""

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_LEVELS = {"gzip": (-1, 9), "lz4": (1, 17), "zstd": (-131072, 22)}
_ACKS = ("all", "-1", "0", "1")
_PACKAGE = "org.apache.kafka.clients.producer."
_PARTITIONERS = {
    "": "keys",
    f"{_PACKAGE}internals.DefaultPartitioner": "keys",
    f"{_PACKAGE}UniformStickyPartitioner": "sticky",
    f"{_PACKAGE}RoundRobinPartitioner": "round robin",
}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a write is to do.

    Attributes:
        path: of the log directory.
        topic: of all records; None: each row names its own.
        partitions: of topics that are not there yet.
        use_timestamp_column: whether a column `timestamp` is the records' time.
        compression, level, batch_size, ignore_keys, round_robin: of the producer.
        config: the topics' settings among the options, by Kafka's names.
        cluster_id, node_id: of a log directory that is not there yet.
    """

    path: str
    topic: str | None
    partitions: int
    use_timestamp_column: bool
    compression: str
    level: int | None
    batch_size: int
    ignore_keys: bool
    round_robin: bool
    cluster_id: str | None
    node_id: int
    config: dict[str, str] = field(default_factory=dict)

    def partitioner(self, topic: str, partitions: int) -> Partitioner:
        from native_log.publish.partitioning import Partitioner  # readers parse these options, too

        return Partitioner(
            topic, partitions, self.batch_size, ignore_keys=self.ignore_keys, round_robin=self.round_robin
        )


def is_write(names: Iterable[str]) -> bool:
    """Whether one of these options is one that only a write knows."""
    return any(name.lower() in ONLY_OF_WRITES for name in names)


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Raises OptionError; InvalidConfigError for a setting of a topic. Unknown names are passed over, unless
    they look like slips."""
    given = Given(options)
    given.check_write_names((*SINK, *PRODUCER, *SETTINGS_BY_NAME))
    for name, meant in _NAMES_ELSEWHERE.items():
        if given.get(name) is not None:
            raise OptionError(f"unknown option {name!r}: is {meant} meant?")
    for name in ("key", "value"):
        if given.get(f"kafka.{name}.serializer") is not None:
            raise OptionError(
                f"Kafka option '{name}.serializer' is not supported as {name}s are written as they are: "
                "binary, or strings as UTF-8"
            )
    compression = _one_of(given, "compression.type", _CODECS, "none")
    _one_of(given, "acks", _ACKS, "all")
    _number(given, "linger.ms", 0, 2**63 - 1)
    level = None
    for codec, (least, most) in _LEVELS.items():
        found = _number(given, f"compression.{codec}.level", least, most)
        level = found if codec == compression else level
    batch_size = _number(given, "batch.size", 0, 2**31 - 1)
    config = {name: value for name, value in given.values.items() if name in SETTINGS_BY_NAME}
    LogConfig.parse(config)
    partitioner = (given.get("kafka.partitioner.class") or "").strip()
    if partitioner not in _PARTITIONERS:
        raise OptionError(
            f"kafka.partitioner.class: {partitioner} is a class of the JVM, where nothing of this runs; "
            f"expected {' or '.join(name.removeprefix(_PACKAGE) for name in _PARTITIONERS if name)} (in "
            f"{_PACKAGE[:-1]}), or put the partition into a column `partition`"
        )
    kind = _PARTITIONERS[partitioner]
    topic = given.get("topic")
    if topic is not None and not topic.strip():
        raise OptionError(f"topic: expected a topic's name, got {topic!r}")
    cluster_id = given.get("cluster.id")
    return WriteOptions(
        path=_path(given),
        topic=None if topic is None else topic.strip(),
        partitions=given.positive("partitions", 32) or 1,
        use_timestamp_column=given.boolean("useTimestampColumn", True),
        compression=compression,
        level=level,
        batch_size=16384 if batch_size is None else batch_size,
        ignore_keys=kind == "sticky" or given.boolean("kafka.partitioner.ignore.keys", False, trim=True),
        round_robin=kind == "round robin",
        cluster_id=None if cluster_id is None else cluster_id.strip(),
        node_id=given.positive("node.id", 32) or 1,
        config=config,
    )


def _path(given: Given) -> str:
    paths = given.paths()
    if len(paths) != 1:
        raise OptionError(f"expected one log directory to write to, got {len(paths)}: {', '.join(paths)}")
    return paths[0]


def _one_of(given: Given, name: str, allowed: tuple[str, ...], default: str) -> str:
    value = given.get(f"kafka.{name}")
    if value is not None and value not in allowed:
        raise OptionError(
            f"Invalid value {value} for configuration {name}: String must be one of: {', '.join(allowed)}"
        )
    return default if value is None else value


def _number(given: Given, name: str, least: int, most: int) -> int | None:
    number = given.long(f"kafka.{name}")
    if number is not None and not least <= number <= most:
        bound = f"at least {least}" if number < least else f"no more than {most}"
        raise OptionError(f"Invalid value {number} for configuration {name}: Value must be {bound}")
    return number
