"""Parse the producer settings of a write as Kafka's producer does (Kafka: ProducerConfig).

Values are trimmed, and rejected if Kafka rejects them. Settings that only a network client needs are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.names import Option
from kafkalog_spark.options.offset_json import parse_int
from native_log.codecs import CODECS, GZIP, LZ4, ZSTD
from native_log.errors import RecordTooLargeError

if TYPE_CHECKING:
    from typing import Any

    import pyarrow as pa

    from kafkalog_spark.options.raw import RawOptions
    from native_log.codecs import Codec

_CODECS_WITH_LEVELS = (GZIP, LZ4, ZSTD)
_ACKS = ("all", "-1", "0", "1")
_PACKAGE = "org.apache.kafka.clients.producer."
_PARTITIONERS = {
    f"{_PACKAGE}internals.DefaultPartitioner": "keys",
    f"{_PACKAGE}UniformStickyPartitioner": "sticky",
    f"{_PACKAGE}RoundRobinPartitioner": "round robin",
}
_NUMBERS = {
    "batch.size": ("INT", 0, 16384),
    "linger.ms": ("LONG", 0, 0),
    "max.request.size": ("INT", 0, None),
    "buffer.memory": ("LONG", 0, None),
    "retries": ("INT", 0, None),
    "max.in.flight.requests.per.connection": ("INT", 1, 5),
    "delivery.timeout.ms": ("INT", 0, None),
    "request.timeout.ms": ("INT", 0, 30_000),
    "max.block.ms": ("LONG", 0, None),
    "partitioner.availability.timeout.ms": ("LONG", 0, None),
}
"""For each setting Kafka's type, the minimum, and the default if it matters here."""
_BOOLEANS = ("enable.idempotence", "partitioner.ignore.keys", "partitioner.adaptive.partitioning.enable")
_OTHERS = (
    "compression.type",
    *(f"compression.{codec.name}.level" for codec in _CODECS_WITH_LEVELS),
    "acks",
    "partitioner.class",
    "interceptor.classes",
    "transactional.id",
    "key.serializer",
    "value.serializer",
)
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

_WHITESPACE = "".join(map(chr, range(33)))
_BITS = {"INT": 32, "LONG": 64}
_MAX_OVERHEAD = 61 + 21
"""Size of a batch header, plus the maximum size of a record without key, value, headers and their lengths
(Kafka: DefaultRecordBatch.RECORD_BATCH_OVERHEAD, DefaultRecord.MAX_RECORD_OVERHEAD)."""


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """The producer settings of a write.

    Attributes:
        compression, level, batch_size: see native_log.records.encode.
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
        numbers = {
            name: _parse_number(raw, name, kind, minimum, default)
            for name, (kind, minimum, default) in _NUMBERS.items()
        }
        booleans = {name: _parse_boolean(raw, name) for name in _BOOLEANS}
        acks = _parse_choice(raw, "acks", _ACKS, "all")
        _check_combinations(numbers, booleans["enable.idempotence"], acks)
        compression = _parse_choice(raw, "compression.type", tuple(CODECS), "none")
        levels = {codec.name: _parse_level(raw, codec) for codec in _CODECS_WITH_LEVELS}
        partitioner = _parse_partitioner(raw)
        limits = [numbers[name] for name in ("max.request.size", "buffer.memory")]
        return cls(
            compression,
            levels.get(compression),
            numbers["batch.size"] or 0,
            partitioner == "sticky" or booleans["partitioner.ignore.keys"] is True,
            partitioner == "round robin",
            min((limit for limit in limits if limit is not None), default=None),
        )

    def check(self, records: pa.RecordBatch) -> None:
        """Raise RecordTooLargeError for a record that Kafka's producer would not send."""
        limit = self.max_record_bytes
        if limit is None or not records.num_rows or _max_record_size(records) <= limit:
            return
        for row in records.to_pylist():
            size = _MAX_OVERHEAD + sum(map(_field_size, (_to_bytes(row.get("key")), _to_bytes(row["value"]))))
            headers = row.get("headers") or []
            size += _varint_size(len(headers))
            size += sum(
                _field_size(_to_bytes(header["key"])) + _field_size(header["value"]) for header in headers
            )
            if size > limit:
                raise RecordTooLargeError(
                    f"The message is {size} bytes when serialized which is larger than {limit}: "
                    "raise kafka.max.request.size and kafka.buffer.memory, or make the record smaller"
                )


def trim(text: str) -> str:
    """Trim like Java's String.trim: remove spaces and control characters, keep no-break spaces."""
    return text.strip(_WHITESPACE)


def _get(raw: RawOptions, name: str) -> str | None:
    value = raw.get(f"kafka.{name}")
    return None if value is None else trim(value)


def _invalid_value(name: str, value: object, reason: str) -> OptionError:
    """Return an error with the text of Kafka's ConfigException."""
    return OptionError(f"Invalid value {value} for configuration {name}: {reason}")


def _parse_choice(raw: RawOptions, name: str, allowed: tuple[str, ...], default: str) -> str:
    value = _get(raw, name)
    if value is not None and value not in allowed:
        raise _invalid_value(name, value, f"String must be one of: {', '.join(allowed)}")
    return default if value is None else value


def _parse_number(raw: RawOptions, name: str, kind: str, minimum: int, default: int | None) -> int | None:
    value = _get(raw, name)
    if value is None:
        return default
    try:
        number = parse_int(value, _BITS[kind])
    except ValueError:
        raise _invalid_value(name, value, f"Not a number of type {kind}") from None
    if number < minimum:
        raise _invalid_value(name, number, f"Value must be at least {minimum}")
    return number


def _parse_level(raw: RawOptions, codec: Codec) -> int | None:
    name = f"compression.{codec.name}.level"
    level = _parse_number(raw, name, "INT", codec.min_level, None)
    if level is None or codec.has_level(level):
        return level
    if level > codec.max_level:
        raise _invalid_value(name, level, f"Value must be no more than {codec.max_level}")
    raise _invalid_value(name, level, "Value must be between 1 and 9 or equal to -1")


def _parse_boolean(raw: RawOptions, name: str) -> bool | None:
    value = _get(raw, name)
    if value is not None and value.lower() not in ("true", "false"):
        raise _invalid_value(name, value, "Expected value to be either true or false")
    return None if value is None else value.lower() == "true"


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


def _check_combinations(numbers: dict[str, Any], idempotence: bool | None, acks: str) -> None:
    """Raise OptionError for settings that contradict each other.

    Kafka: KafkaProducer.configureDeliveryTimeout, and the checks of idempotence in ProducerConfig.
    """
    timeout = numbers["delivery.timeout.ms"]
    if timeout is not None and timeout < min(numbers["linger.ms"] + numbers["request.timeout.ms"], 2**31 - 1):
        raise OptionError(
            "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms"
        )
    if numbers["buffer.memory"] is not None and numbers["buffer.memory"] < numbers["batch.size"]:
        raise OptionError(
            f"Attempt to allocate {numbers['batch.size']} bytes (batch.size), but there is a hard limit of "
            f"{numbers['buffer.memory']} on memory allocations (buffer.memory)"
        )
    if not idempotence:
        return
    if numbers["retries"] == 0:
        raise OptionError("Must set retries to non-zero when using the idempotent producer.")
    if acks not in ("all", "-1"):
        raise OptionError("Must set acks to all in order to use the idempotent producer.")
    if numbers["max.in.flight.requests.per.connection"] > 5:
        raise OptionError(
            "Must set max.in.flight.requests.per.connection to at most 5 to use the idempotent producer."
        )


def _max_record_size(records: pa.RecordBatch) -> int:
    """Return an upper bound of the size of any record in bytes, computed by column."""
    import pyarrow.compute as pc  # Imported here because reads import this module, and the import is slow.

    size = _MAX_OVERHEAD + 15
    for name in records.schema.names:
        column = records.column(name)
        if name == "headers":
            size += 2 * int(column.nbytes)  # Two of Arrow's 4-byte offsets exceed a length of up to 5.
        elif name != "timestamp":
            size += pc.max(pc.binary_length(column)).as_py() or 0
    return size


def _to_bytes(content: Any) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


def _field_size(content: bytes | None) -> int:
    """Return the size of a field with its length, in bytes."""
    return 1 if content is None else _varint_size(len(content)) + len(content)


def _varint_size(length: int) -> int:
    """Return the size of a length as a zigzag varint, in bytes."""
    return max(1, -(-(2 * length).bit_length() // 7))
