"""The producer's settings among a write's options, as Kafka's producer takes them (ProducerConfig): trimmed,
and refused where it refuses them. What only a network client needs is passed over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.offset_json import parse_int
from native_log.errors import RecordTooLargeError

if TYPE_CHECKING:
    from typing import Any

    import pyarrow as pa

    from kafkalog_spark.options.read import Given

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_LEVELS = {"gzip": (-1, 9), "lz4": (1, 17), "zstd": (-131072, 22)}
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
"""Kafka's type, the least value, and what it is by default where that matters here."""
_BOOLEANS = ("enable.idempotence", "partitioner.ignore.keys", "partitioner.adaptive.partitioning.enable")
_WORDS = (
    "compression.type",
    *(f"compression.{codec}.level" for codec in _LEVELS),
    "acks",
    "partitioner.class",
    "interceptor.classes",
    "transactional.id",
    "key.serializer",
    "value.serializer",
)
PRODUCER = tuple(f"kafka.{name}" for name in (*_WORDS, *_NUMBERS, *_BOOLEANS))
"""The names of them all."""
ALSO_OF_CONSUMERS = ("kafka.request.timeout.ms", "kafka.interceptor.classes")

_SPACE = "".join(map(chr, range(33)))
_BITS = {"INT": 32, "LONG": 64}
_MOST_OVERHEAD = 61 + 21
"""Bytes of a batch beside its records, and the most that a record takes beside its content and their lengths
(Kafka: DefaultRecordBatch.RECORD_BATCH_OVERHEAD, DefaultRecord.MAX_RECORD_OVERHEAD)."""


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """How records become batches, and where they go.

    Attributes:
        compression, level, batch_size: see native_log.records.encode.
        ignore_keys, round_robin: see native_log.publish.partitioning.Partitioner.
        max_record_bytes: of one record, uncompressed and in a batch of its own. None: any.
    """

    compression: str
    level: int | None
    batch_size: int
    ignore_keys: bool
    round_robin: bool
    max_record_bytes: int | None

    @classmethod
    def parse(cls, given: Given) -> ProducerOptions:
        """Raises OptionError."""
        _refuse_what_cannot_be(given)
        numbers = {name: _number(given, name, *of) for name, of in _NUMBERS.items()}
        booleans = {name: _boolean(given, name) for name in _BOOLEANS}
        _check_together(numbers, booleans["enable.idempotence"], _one_of(given, "acks", _ACKS, "all"))
        compression = _one_of(given, "compression.type", _CODECS, "none")
        levels = {codec: _level(given, codec) for codec in _LEVELS}
        partitioner = _partitioner(given)
        limits = [numbers[name] for name in ("max.request.size", "buffer.memory")]
        return cls(
            compression,
            levels.get(compression),
            numbers["batch.size"] or 0,
            partitioner == "sticky" or booleans["partitioner.ignore.keys"] is True,
            partitioner == "round robin",
            min((one for one in limits if one is not None), default=None),
        )

    def check(self, records: pa.RecordBatch) -> None:
        """Raises RecordTooLargeError for a record that the producer would not send."""
        limit = self.max_record_bytes
        if limit is None or not records.num_rows or _largest(records) <= limit:
            return
        for row in records.to_pylist():
            size = _MOST_OVERHEAD + sum(map(_sized, (_bytes(row.get("key")), _bytes(row["value"]))))
            headers = row.get("headers") or []
            size += _length_bytes(len(headers))
            size += sum(_sized(_bytes(one["key"])) + _sized(one["value"]) for one in headers)
            if size > limit:
                raise RecordTooLargeError(
                    f"The message is {size} bytes when serialized which is larger than {limit}: see "
                    "kafka.max.request.size, kafka.buffer.memory"
                )


def trimmed(text: str) -> str:
    """As Java trims: no-break spaces are none, control characters are."""
    return text.strip(_SPACE)


def _get(given: Given, name: str) -> str | None:
    value = given.get(f"kafka.{name}")
    return None if value is None else trimmed(value)


def _refused(name: str, value: object, why: str) -> OptionError:
    return OptionError(f"Invalid value {value} for configuration {name}: {why}")


def _one_of(given: Given, name: str, allowed: tuple[str, ...], default: str) -> str:
    value = _get(given, name)
    if value is not None and value not in allowed:
        raise _refused(name, value, f"String must be one of: {', '.join(allowed)}")
    return default if value is None else value


def _number(given: Given, name: str, kind: str, least: int, default: int | None) -> int | None:
    value = _get(given, name)
    if value is None:
        return default
    try:
        number = parse_int(value, _BITS[kind])
    except ValueError:
        raise _refused(name, value, f"Not a number of type {kind}") from None
    if number < least:
        raise _refused(name, number, f"Value must be at least {least}")
    return number


def _level(given: Given, codec: str) -> int | None:
    name, (least, most) = f"compression.{codec}.level", _LEVELS[codec]
    level = _number(given, name, "INT", least, None)
    if level is not None and level > most:
        raise _refused(name, level, f"Value must be no more than {most}")
    if codec == "gzip" and level == 0:
        raise _refused(name, level, "Value must be between 1 and 9 or equal to -1")
    return level


def _boolean(given: Given, name: str) -> bool | None:
    value = _get(given, name)
    if value is not None and value.lower() not in ("true", "false"):
        raise _refused(name, value, "Expected value to be either true or false")
    return None if value is None else value.lower() == "true"


def _partitioner(given: Given) -> str:
    name = _get(given, "partitioner.class")
    if name is not None and name not in _PARTITIONERS:
        raise OptionError(
            f"kafka.partitioner.class: {name} is a class of the JVM, where nothing of this runs; "
            f"expected {' or '.join(one.removeprefix(_PACKAGE) for one in _PARTITIONERS)} (in "
            f"{_PACKAGE[:-1]}), or put the partition into a column `partition`"
        )
    return "keys" if name is None else _PARTITIONERS[name]


def _refuse_what_cannot_be(given: Given) -> None:
    for name in ("key", "value"):
        if given.get(f"kafka.{name}.serializer") is not None:
            raise OptionError(
                f"Kafka option '{name}.serializer' is not supported as {name}s are written as they are: "
                "binary, or strings as UTF-8"
            )
    if _get(given, "interceptor.classes"):
        raise OptionError(
            "kafka.interceptor.classes: interceptors are classes of the JVM, where nothing of this runs; "
            "change the records by DataFrame operations"
        )
    if given.get("kafka.transactional.id") is not None:
        raise OptionError(
            "kafka.transactional.id: no transaction is begun, by Spark's sink neither; a write is all or "
            "nothing without one"
        )


def _check_together(numbers: dict[str, Any], idempotence: bool | None, acks: str) -> None:
    """Kafka: KafkaProducer.configureDeliveryTimeout, ProducerConfig's checks of idempotence."""
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


def _largest(records: pa.RecordBatch) -> int:
    """At least as many bytes as any of the records has, told at once."""
    import pyarrow.compute as pc  # readers look at these names, too

    size = _MOST_OVERHEAD + 15
    for name in records.schema.names:
        column = records.column(name)
        if name == "headers":
            size += 2 * int(column.nbytes)  # lengths are five bytes at most, and eight there
        elif name != "timestamp":
            size += pc.max(pc.binary_length(column)).as_py() or 0
    return size


def _bytes(content: Any) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


def _sized(content: bytes | None) -> int:
    return 1 if content is None else _length_bytes(len(content)) + len(content)


def _length_bytes(length: int) -> int:
    """Of a length as a varint."""
    return max(1, -(-(2 * length).bit_length() // 7))
