"""The settings of a producer, with Kafka's names, checks and messages (Kafka: ProducerConfig)."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from native_log.codecs import CODECS, GZIP, LZ4, ZSTD
from native_log.config import SETTINGS_BY_NAME, InvalidConfigError, LogConfig
from native_log.java_numbers import parse_int

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from native_log.codecs import Codec

ACKS = ("all", "-1", "0", "1")
MAX_IN_FLIGHT_WITH_IDEMPOTENCE = 5
_MAX_INT, _MAX_LONG = 2**31 - 1, 2**63 - 1
_BITS = {"INT": 32, "LONG": 64}
_WHITESPACE = "".join(map(chr, range(33)))


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        kind: Kafka's type: INT, LONG, BOOLEAN or STRING; OBJECT for a Python object.
        default: the default of Kafka 4.
        minimum: of a number.
        choices: the values that a STRING may have; None: any.
        codec: the codec whose level it is.
    """

    kind: str
    default: Any
    minimum: int = 0
    choices: tuple[str, ...] | None = None
    codec: Codec | None = None


SETTINGS = {
    "acks": Setting("STRING", "all", choices=ACKS),
    "batch.size": Setting("INT", 16384),
    "buffer.memory": Setting("LONG", 32 << 20),
    "client.id": Setting("STRING", ""),
    "compression.type": Setting("STRING", "none", choices=tuple(CODECS)),
    **{
        f"compression.{codec.name}.level": Setting("INT", codec.default_level, codec.min_level, codec=codec)
        for codec in (GZIP, LZ4, ZSTD)
    },
    "delivery.timeout.ms": Setting("INT", 120_000),
    "enable.idempotence": Setting("BOOLEAN", True),
    "interceptor.classes": Setting("OBJECT", ()),
    "key.serializer": Setting("OBJECT", None),
    "linger.ms": Setting("LONG", 5),
    "max.block.ms": Setting("LONG", 60_000),
    "max.in.flight.requests.per.connection": Setting("INT", 5, 1),
    "max.request.size": Setting("INT", 1 << 20),
    "metadata.max.age.ms": Setting("LONG", 300_000),
    "metadata.max.idle.ms": Setting("LONG", 300_000, 5000),
    "partitioner.adaptive.partitioning.enable": Setting("BOOLEAN", True),
    "partitioner.availability.timeout.ms": Setting("LONG", 0),
    "partitioner.class": Setting("OBJECT", None),
    "partitioner.ignore.keys": Setting("BOOLEAN", False),
    "request.timeout.ms": Setting("INT", 30_000),
    "retries": Setting("INT", _MAX_INT),
    "retry.backoff.max.ms": Setting("LONG", 1000),
    "retry.backoff.ms": Setting("LONG", 100),
    "transaction.timeout.ms": Setting("INT", 60_000),
    "transactional.id": Setting("STRING", None),
    "value.serializer": Setting("OBJECT", None),
}
"""The settings of Kafka's producer that have a meaning without a broker, by name."""

BROKER_SETTINGS = {
    "auto.create.topics.enable": Setting("BOOLEAN", True),
    "num.partitions": Setting("INT", 1, 1),
}
"""Settings of brokers that apply when a producer writes to a topic that does not exist."""

_ALIASES = {"partitioner": "partitioner.class", "interceptors": "interceptor.classes"}
"""Names that kafka-python or Python users expect."""

_CONNECTION_PREFIXES = ("sasl.", "ssl.", "security.", "socket.", "reconnect.", "metric.", "metrics.", "api.")
_CONNECTION = frozenset(
    {"bootstrap.servers", "client.dns.lookup", "send.buffer.bytes", "receive.buffer.bytes",
     "connections.max.idle.ms", "enable.metrics.push", "auto.include.jmx.reporter", "compression.level",
     "transaction.two.phase.commit.enable", "config.providers", "allow.auto.create.topics",
     "kafka.client", "selector", "connections.setup.timeout.ms", "metadata.recovery.strategy",
     "metadata.recovery.rebootstrap.trigger.ms", "bootstrap.timeout.ms", "proxy.url",
     "receive.message.max.bytes", "socks5.proxy"}
)  # fmt: skip
"""Settings that only a connection to a broker needs. They are ignored."""

_SIMILARITY = 0.8


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """All settings of a producer. Times are in ms, sizes in bytes.

    An attribute has the name of the setting, with `_` for `.`.
    """

    acks: str
    """With 0, metadata have no offset. With all and 1, a record is acknowledged when its log contains it."""
    batch_size: int
    """The most bytes of a batch before compression, unless one record needs more."""
    buffer_memory: int
    """The most bytes of records that are not written yet. When they are reached, `send` waits."""
    client_id: str
    """The name of the producer's thread."""
    compression_type: str
    """The codec, unless the topic has one: none, gzip, snappy, lz4 or zstd."""
    compression_level: int | None
    """The level of the codec; None: the codec has none."""
    delivery_timeout_ms: int
    """A record that is not written after this time fails."""
    enable_idempotence: bool
    """Whether batches have a producer id and sequences, by which a log rejects repeated or missing ones."""
    interceptor_classes: tuple[Any, ...]
    """Classes or objects that see each record before it is sent, and its result."""
    key_serializer: Any
    """A function, class or object that converts keys to bytes; by default str becomes UTF-8."""
    value_serializer: Any
    """A function, class or object that converts values to bytes; by default str becomes UTF-8."""
    linger_ms: int
    """How long a batch waits for more records."""
    max_block_ms: int
    """How long `send` waits for memory or for the topic."""
    max_in_flight_requests_per_connection: int
    """The most requests for one log directory that are not answered yet."""
    max_request_size: int
    """The most bytes of a record, and of the batches of one request."""
    metadata_max_age_ms: int
    """After this time, the log directories are listed again."""
    metadata_max_idle_ms: int
    """A topic that was not used for this time is forgotten."""
    partitioner_adaptive_partitioning_enable: bool
    """Whether partitions with short queues get more records without a key."""
    partitioner_availability_timeout_ms: int
    """Records without a key avoid a log directory that accepted no request for this time; 0: never."""
    partitioner_class: Any
    """What chooses partitions: a Python function, class or object, or the name of one of Kafka's classes."""
    partitioner_ignore_keys: bool
    """Whether the partition of a record does not depend on its key."""
    request_timeout_ms: int
    """Checked against delivery.timeout.ms, without further effect."""
    retries: int
    """How often a batch is tried again after an I/O error."""
    retry_backoff_max_ms: int
    """The longest time before another attempt."""
    retry_backoff_ms: int
    """The time before the second attempt. It doubles with each further one."""
    transaction_timeout_ms: int
    """A transaction that is open for this time is aborted."""
    transactional_id: str | None
    """Identifies a transactional producer across restarts."""
    auto_create_topics_enable: bool
    """Whether topics that do not exist are created."""
    num_partitions: int
    """The number of partitions of topics that are created."""
    topic_config: dict[str, object] = field(default_factory=dict)
    """Settings of topics (see LogConfig). Those by a topic's own name override stored ones."""
    ignored: tuple[str, ...] = ()
    """Names that are neither settings of producers nor of topics, and need no broker."""

    @classmethod
    def parse(cls, configs: Mapping[str, object]) -> Self:
        """Parse settings. `.` and `_` are equivalent in names. A value may be text or a Python value.

        Raises InvalidConfigError for an invalid value, for settings that contradict each other, and for a
        name that looks like a misspelling.
        """
        given, topic_config, ignored = _sort_names(configs)
        known = SETTINGS | BROKER_SETTINGS
        parsed = {name: parse_setting(name, value) for name, value in given.items() if value is not None}
        values = {name: parsed.get(name, setting.default) for name, setting in known.items()}
        values["acks"] = "all" if values["acks"] == "-1" else values["acks"]
        values["enable.idempotence"] = _decide_idempotence(parsed, values)
        values["delivery.timeout.ms"] = _delivery_timeout(parsed, values)
        check_buffer(values)
        if values["transactional.id"] == "":
            raise invalid_value("transactional.id", "", "String must be non-empty")
        codec = values["compression.type"]
        LogConfig.parse(topic_config)
        interceptors = values["interceptor.classes"]
        levels = [name for name in values if name.startswith("compression.") and name.endswith(".level")]
        values["compression.level"] = values.get(f"compression.{codec}.level")
        values["interceptor.classes"] = (
            tuple(interceptors) if isinstance(interceptors, list | tuple) else (interceptors,)
        )
        for name in levels:
            del values[name]
        attributes = {name.replace(".", "_"): value for name, value in values.items()}
        return cls(**attributes, topic_config=topic_config, ignored=tuple(ignored))


def parse_setting(name: str, value: object) -> Any:
    """Return the typed value of one of SETTINGS or BROKER_SETTINGS. Raises InvalidConfigError."""
    setting = SETTINGS.get(name) or BROKER_SETTINGS[name]
    if setting.kind == "OBJECT":
        return value
    if value == math.inf and setting.kind in _BITS:  # kafka-python's default of retries
        value = (1 << _BITS[setting.kind] - 1) - 1
    text = trim(str(value))
    if setting.kind == "BOOLEAN":
        if text.lower() not in ("true", "false"):
            raise invalid_value(name, text, "Expected value to be either true or false")
        return text.lower() == "true"
    if setting.kind == "STRING":
        if setting.choices is not None and text not in setting.choices:
            raise invalid_value(name, text, f"String must be one of: {', '.join(setting.choices)}")
        return text
    return _parse_number(name, text, setting)


def trim(text: str) -> str:
    """Trim like Java's String.trim: remove spaces and control characters, keep no-break spaces."""
    return text.strip(_WHITESPACE)


def invalid_value(name: str, value: object, reason: str) -> InvalidConfigError:
    """Return an error with the text of Kafka's ConfigException."""
    return InvalidConfigError(f"Invalid value {value} for configuration {name}: {reason}")


def check_delivery_timeout(delivery_timeout_ms: int, linger_ms: int, request_timeout_ms: int) -> None:
    """Raise InvalidConfigError for a delivery timeout that is too short.

    Kafka: KafkaProducer.configureDeliveryTimeout.
    """
    if delivery_timeout_ms < min(linger_ms + request_timeout_ms, _MAX_INT):
        raise InvalidConfigError(
            "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms"
        )


def check_buffer(values: Mapping[str, Any]) -> None:
    """Raise InvalidConfigError if no batch fits into the buffer (Kafka: BufferPool.allocate)."""
    if values["buffer.memory"] < values["batch.size"]:
        raise InvalidConfigError(
            f"Attempt to allocate {values['batch.size']} bytes (batch.size), but there is a hard limit of "
            f"{values['buffer.memory']} on memory allocations (buffer.memory)"
        )


def idempotence_conflict(retries: int, acks: str, max_in_flight: int) -> str | None:
    """Return why a producer with these settings cannot be idempotent; None if it can."""
    if retries == 0:
        return "Must set retries to non-zero when using the idempotent producer."
    if acks not in ("all", "-1"):
        return "Must set acks to all in order to use the idempotent producer."
    if max_in_flight > MAX_IN_FLIGHT_WITH_IDEMPOTENCE:
        return "Must set max.in.flight.requests.per.connection to at most 5 to use the idempotent producer."
    return None


def _decide_idempotence(given: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Return whether to be idempotent. The default gives way to settings that contradict it.

    Kafka: ProducerConfig.postProcessAndValidateIdempotenceConfigs.
    """
    is_transactional = values["transactional.id"] is not None
    if not values["enable.idempotence"]:
        if is_transactional:
            raise InvalidConfigError("Cannot set a transactional.id without also enabling idempotence.")
        return False
    in_flight = values["max.in.flight.requests.per.connection"]
    conflict = idempotence_conflict(values["retries"], values["acks"], in_flight)
    is_explicit = "enable.idempotence" in given or is_transactional
    if conflict is not None and (is_explicit or in_flight > MAX_IN_FLIGHT_WITH_IDEMPOTENCE):
        raise InvalidConfigError(conflict)
    return conflict is None


def _delivery_timeout(given: Mapping[str, Any], values: Mapping[str, Any]) -> int:
    linger, request = values["linger.ms"], values["request.timeout.ms"]
    timeout: int = values["delivery.timeout.ms"]
    if "delivery.timeout.ms" in given:
        check_delivery_timeout(timeout, linger, request)
    shortest: int = min(linger + request, _MAX_INT)
    return max(timeout, shortest)


def _parse_number(name: str, text: str, setting: Setting) -> int:
    try:
        number = parse_int(text, _BITS[setting.kind])
    except ValueError:
        raise invalid_value(name, text, f"Not a number of type {setting.kind}") from None
    codec = setting.codec
    if codec is GZIP and not codec.has_level(number):
        raise invalid_value(name, number, "Value must be between 1 and 9 or equal to -1")
    if number < setting.minimum:
        raise invalid_value(name, number, f"Value must be at least {setting.minimum}")
    if codec is not None and number > codec.max_level:
        raise invalid_value(name, number, f"Value must be no more than {codec.max_level}")
    return number


def _sort_names(
    configs: Mapping[str, object],
) -> tuple[dict[str, object], dict[str, object], list[str]]:
    """Return the producer's settings, the topics' settings, and the names of the others.

    Raises InvalidConfigError for misspelled names.
    """
    given: dict[str, object] = {}
    topic_config: dict[str, object] = {}
    ignored: list[str] = []
    for original, value in configs.items():
        name = original.replace("_", ".")
        name = _ALIASES.get(name, name)
        if name in SETTINGS or name in BROKER_SETTINGS:
            given[name] = value
        elif name in SETTINGS_BY_NAME:
            topic_config[name] = value
        elif name not in _CONNECTION and not name.startswith(_CONNECTION_PREFIXES):
            names = (*SETTINGS, *BROKER_SETTINGS, *SETTINGS_BY_NAME, *_CONNECTION, *_ALIASES)
            similar = difflib.get_close_matches(name.lower(), names, 1, _SIMILARITY)
            if similar:
                raise InvalidConfigError(f"unknown setting {original!r}: did you mean {similar[0]!r}?")
            ignored.append(original)
    return given, topic_config, ignored
