"""Parse the producer settings of a write as Kafka's producer does (Kafka: ProducerConfig).

Values are trimmed, and rejected if Kafka rejects them: see native_log.producer.settings. Settings that only a
network client needs are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.names import Option
from native_log.config import InvalidConfigError
from native_log.errors import RecordTooLargeError
from native_log.producer.record_size import MAX_OVERHEAD, max_size
from native_log.producer.settings import (
    SETTINGS,
    check_buffer,
    check_delivery_timeout,
    idempotence_conflict,
    parse_setting,
    trim,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import pyarrow as pa

    from kafkalog_spark.options.raw import RawOptions

_PACKAGE = "org.apache.kafka.clients.producer."
_PARTITIONERS = {
    f"{_PACKAGE}internals.DefaultPartitioner": "keys",
    f"{_PACKAGE}UniformStickyPartitioner": "sticky",
    f"{_PACKAGE}RoundRobinPartitioner": "round robin",
}
_NUMBERS = (
    "batch.size",
    "linger.ms",
    "max.request.size",
    "buffer.memory",
    "retries",
    "max.in.flight.requests.per.connection",
    "delivery.timeout.ms",
    "request.timeout.ms",
    "max.block.ms",
    "partitioner.availability.timeout.ms",
)
_BOOLEANS = ("enable.idempotence", "partitioner.ignore.keys", "partitioner.adaptive.partitioning.enable")
_LEVELS = ("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")
_OTHERS = (
    "compression.type",
    *_LEVELS,
    "acks",
    "partitioner.class",
    "interceptor.classes",
    "transactional.id",
    "key.serializer",
    "value.serializer",
)
_PARSED = ("compression.type", *_LEVELS, "acks", *_NUMBERS, *_BOOLEANS)
_LINGER_MS = 0
"""The default of linger.ms in Kafka 3.9, whose client Spark's kafka sink contains."""
PRODUCER_OPTIONS = tuple(f"kafka.{name}" for name in (*_OTHERS, *_NUMBERS, *_BOOLEANS))
"""The option names of all producer settings."""
EFFECTIVE_OPTIONS = {
    "kafka.compression.type": Option("none", "the codec: `none`, `gzip`, `snappy`, `lz4` or `zstd`"),
    "kafka.compression.gzip.level": Option("", "the level of gzip, from 1 to 9, or -1 for its default"),
    "kafka.compression.lz4.level": Option("", "the level of lz4, from 1 to 17"),
    "kafka.compression.zstd.level": Option("", "the level of zstd, from -131072 to 22"),
    "kafka.batch.size": Option("16384", "about how many bytes a batch has before compression"),
    "kafka.partitioner.class": Option(
        "",
        f"`{_PACKAGE}RoundRobinPartitioner` distributes records in turn; "
        f"`{_PACKAGE}UniformStickyPartitioner` ignores keys",
    ),
    "kafka.partitioner.ignore.keys": Option("false", "whether to ignore keys when a partition is chosen"),
    "kafka.max.request.size": Option("", "the maximum size of a record in bytes; a larger one is an error"),
    "kafka.buffer.memory": Option("", "another maximum size of a record in bytes; the smaller one applies"),
}
"""The producer settings that change what is written. The others are checked and then ignored, or rejected."""
REJECTED_OPTIONS = (
    "kafka.key.serializer",
    "kafka.value.serializer",
    "kafka.interceptor.classes",
    "kafka.transactional.id",
)
"""Producer settings that are an error."""
CONSUMER_OPTIONS = ("kafka.request.timeout.ms", "kafka.interceptor.classes")
"""Producer settings that consumers have as well. They may belong to a read."""


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """The producer settings of a write.

    Attributes:
        compression, level, batch_size: see native_log.records.encoding.
        ignore_keys, round_robin: see native_log.publish.partitioning.Partitioner.
        max_record_bytes: maximum size of a record, uncompressed and in a batch of its own; None: no limit.
    """

    compression: str
    level: int | None
    batch_size: int
    ignore_keys: bool
    round_robin: bool
    max_record_bytes: int | None

    @classmethod
    def parse(cls, raw: RawOptions) -> ProducerOptions:
        """Parse the settings. Raises OptionError."""
        _reject_unsupported(raw)
        values = _parse_settings(raw)
        _check_combinations(values)
        compression = values.get("compression.type", SETTINGS["compression.type"].default)
        partitioner = _parse_partitioner(raw)
        limits = [values[name] for name in ("max.request.size", "buffer.memory") if name in values]
        return cls(
            compression,
            values.get(f"compression.{compression}.level"),
            _effective(values, "batch.size"),
            partitioner == "sticky" or values.get("partitioner.ignore.keys", False),
            partitioner == "round robin",
            min(limits, default=None),
        )

    def check(self, records: pa.RecordBatch) -> None:
        """Raise RecordTooLargeError for a record that Kafka's producer would not send."""
        limit = self.max_record_bytes
        if limit is None or not records.num_rows or _max_record_size(records) <= limit:
            return
        for row in records.to_pylist():
            headers = [(header["key"], header["value"]) for header in row.get("headers") or []]
            size = max_size(_to_bytes(row.get("key")), _to_bytes(row["value"]), headers)
            if size > limit:
                raise RecordTooLargeError(
                    f"The message is {size} bytes when serialized which is larger than {limit}: "
                    "raise kafka.max.request.size and kafka.buffer.memory, or make the record smaller"
                )


def _get(raw: RawOptions, name: str) -> str | None:
    value = raw.get(f"kafka.{name}")
    return None if value is None else trim(value)


def _parse_settings(raw: RawOptions) -> dict[str, Any]:
    """Return the settings that are set. Raises OptionError with the text of Kafka's ConfigException."""
    given = {name: value for name in _PARSED if (value := raw.get(f"kafka.{name}")) is not None}
    try:
        return {name: parse_setting(name, value) for name, value in given.items()}
    except InvalidConfigError as error:
        raise OptionError(str(error)) from None


def _effective(values: Mapping[str, Any], name: str) -> Any:
    return values.get(name, SETTINGS[name].default)


def _parse_partitioner(raw: RawOptions) -> str:
    name = _get(raw, "partitioner.class")
    if name is not None and name not in _PARTITIONERS:
        raise OptionError(
            f"kafka.partitioner.class: expected one of {', '.join(_PARTITIONERS)}, found {name!r}; other "
            "classes cannot run outside the JVM: put the partition into a column `partition`"
        )
    return "keys" if name is None else _PARTITIONERS[name]


def _reject_unsupported(raw: RawOptions) -> None:
    for name in ("key", "value"):
        if raw.get(f"kafka.{name}.serializer") is not None:
            raise OptionError(
                f"Kafka option '{name}.serializer' is not supported: {name}s are written unchanged if "
                "binary, and in UTF-8 if string"
            )
    if _get(raw, "interceptor.classes"):
        raise OptionError(
            "kafka.interceptor.classes is not supported: interceptors cannot run outside the JVM; change the "
            "records with DataFrame operations"
        )
    if raw.get("kafka.transactional.id") is not None:
        raise OptionError(
            "kafka.transactional.id is not supported: like Spark's kafka sink, this one uses no "
            "transactions; a write is atomic without them"
        )


def _check_combinations(values: Mapping[str, Any]) -> None:
    """Raise OptionError for settings that contradict each other."""
    try:
        if "delivery.timeout.ms" in values:
            check_delivery_timeout(
                values["delivery.timeout.ms"],
                values.get("linger.ms", _LINGER_MS),
                _effective(values, "request.timeout.ms"),
            )
        if "buffer.memory" in values:
            check_buffer({"batch.size": _effective(values, "batch.size"), **values})
    except InvalidConfigError as error:
        raise OptionError(str(error)) from None
    # The producer of Kafka 3.9 only reports such settings if idempotence is set explicitly.
    if values.get("enable.idempotence"):
        names = ("retries", "acks", "max.in.flight.requests.per.connection")
        conflict = idempotence_conflict(*(_effective(values, name) for name in names))
        if conflict is not None:
            raise OptionError(conflict)


def _max_record_size(records: pa.RecordBatch) -> int:
    """Return an upper bound of the size of any record in bytes, computed by column."""
    import pyarrow.compute as pc  # Imported here because reads import this module, and the import is slow.

    size = MAX_OVERHEAD + 15
    for name in records.schema.names:
        column = records.column(name)
        if name == "headers":
            size += 2 * int(column.nbytes)  # Two of Arrow's 4-byte offsets exceed a length of up to 5.
        elif name != "timestamp":
            size += pc.max(pc.binary_length(column)).as_py() or 0
    return size


def _to_bytes(content: Any) -> bytes | None:
    return content.encode() if isinstance(content, str) else content
