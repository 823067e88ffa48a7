"""Settings of a topic's log, under the names that topics and brokers use for them (Kafka: LogConfig)."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from native_log.codecs import CODECS, GZIP, LZ4, ZSTD
from native_log.java_numbers import parse_int

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Self

    from native_log.codecs import Codec

_MAX_INT, _MAX_LONG = 2**31 - 1, 2**63 - 1
_MS_PER_MINUTE = 60_000
_MS_PER_HOUR = 60 * _MS_PER_MINUTE
_POLICIES = ("compact", "delete")
_COMPRESSION_TYPES = ("producer", "uncompressed", *CODECS)
_BROKER_NAMES = ("message.max.bytes", "producer.id.expiration.ms")
"""Names of broker settings that do not begin with `log.`."""
_SHARED_PREFIX = "compression."
"""Topics and brokers use the same names for these settings."""


class InvalidConfigError(ValueError):
    """A setting has an invalid value, or a name that looks like a misspelling."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of a log, with Kafka 4's defaults.

    An attribute has the name of the topic's setting, with `_` for `.`. Names end in the unit.
    """

    segment_bytes: int = 1 << 30
    """A segment is not made larger than this. Compaction merges smaller segments up to this size."""
    segment_ms: int = 168 * _MS_PER_HOUR
    """A new segment is begun when the active one is older than this."""
    segment_jitter_ms: int = 0
    """Up to this is subtracted from segment.ms, at random for each segment."""
    segment_index_bytes: int = 10 << 20
    """Maximum size of an offset index or time index. A new segment is begun when one is full."""
    index_interval_bytes: int = 4096
    """Bytes of log between two index entries."""
    preallocate: bool = False
    """Whether to extend the active segment's file to segment.bytes when it is created."""
    max_message_bytes: int = (1 << 20) + 12
    """Maximum size of a batch, as stored."""
    message_timestamp_type: str = "CreateTime"
    """The timestamp of a record: CreateTime (the record's own) or LogAppendTime."""
    message_timestamp_before_max_ms: int = _MAX_LONG
    """How much older than the clock the timestamp of an appended record may be."""
    message_timestamp_after_max_ms: int = _MS_PER_HOUR
    """How much newer than the clock the timestamp of an appended record may be."""
    compression_type: str = "producer"
    """The codec of every batch; producer: a batch keeps the codec that it has."""
    compression_gzip_level: int = -1
    """The level of gzip; -1: the library's default."""
    compression_lz4_level: int = 9
    """The level of lz4."""
    compression_zstd_level: int = 3
    """The level of zstd."""
    flush_messages: int = _MAX_LONG
    """Flush to disk after this many records."""
    flush_ms: int = _MAX_LONG
    """Flush to disk when records have waited for this long."""
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    """With delete, retention applies; with compact, compaction; compact,delete is both."""
    retention_ms: int = 168 * _MS_PER_HOUR
    """Retention deletes a segment whose newest record is older than this; -1: no limit."""
    retention_bytes: int = -1
    """Retention deletes the oldest segments while the others have at least this size; -1: no limit."""
    delete_retention_ms: int = 24 * _MS_PER_HOUR
    """How long tombstones and transaction markers stay after compaction first meets them."""
    min_cleanable_dirty_ratio: float = 0.5
    """Compaction skips a log with a smaller share of bytes that it has not seen yet."""
    min_compaction_lag_ms: int = 0
    """Compaction leaves segments with younger records as they are."""
    max_compaction_lag_ms: int = _MAX_LONG
    """Compaction ignores the dirty ratio of a log with older dirty records."""
    file_delete_delay_ms: int = _MS_PER_MINUTE
    """How long files named .deleted stay before a later run removes them."""
    producer_id_expiration_ms: int = 24 * _MS_PER_HOUR
    """A producer that wrote nothing for this long is forgotten."""
    log_cleaner_dedupe_buffer_size: int = 128 << 20
    """Bytes of memory for keys: of one compaction, or of one Spark task."""
    log_cleaner_threads: int | None = None
    """Threads of a compaction without Spark; None: one for each core."""

    @classmethod
    def parse(cls, config: Mapping[str, object]) -> Self:
        """Return the settings in `config`, which may use topic names and broker names.

        A topic name overrides a broker name. Settings that do not concern a log are ignored. Raises
        InvalidConfigError for an invalid value, and for a name that looks like a misspelling of a known one.
        """
        for name in unknown_settings(config):
            _check_name(name)
        return cls(**{**given_broker_fields(config), **topic_fields(config)})

    @property
    def is_compacted(self) -> bool:
        """Whether `cleanup.policy` contains compact."""
        return "compact" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """The time after which a segment is rolled; at most `max.compaction.lag.ms` in a compacted log."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    def compression_level(self, codec: str) -> int | None:
        """Return the compression level for `codec`; None for a codec without levels."""
        return {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }.get(codec)


def names_of(attribute: str) -> tuple[str, ...]:
    """Return the names of the setting that an attribute of LogConfig holds. The first one given counts."""
    return tuple(name for name, _ in _SETTINGS[attribute].names)


def is_broker_name(name: str) -> bool:
    """Return whether only brokers have a setting of this name, as in server.properties.

    Such a setting is a default for topics. A name that topics and brokers share is a topic's own name.
    """
    return name.startswith("log.") or name in _BROKER_NAMES


def topic_fields(config: Mapping[str, object]) -> dict[str, Any]:
    """Return the attributes of LogConfig that `config` sets by a topic's own names.

    Raises InvalidConfigError for an invalid value.
    """
    return _parse_fields(config, lambda name: not is_broker_name(name))


def given_broker_fields(config: Mapping[str, object]) -> dict[str, Any]:
    """Return the attributes of LogConfig that given settings set by names that only brokers have.

    Raises InvalidConfigError for an invalid value.
    """
    return _parse_fields(config, is_broker_name)


def stored_broker_fields(config: Mapping[str, object]) -> dict[str, Any]:
    """Return the attributes of LogConfig that the stored configuration of a broker sets.

    Raises InvalidConfigError for an invalid value.
    """
    return _parse_fields(config, lambda name: is_broker_name(name) or name.startswith(_SHARED_PREFIX))


def _parse_fields(config: Mapping[str, object], accepts: Callable[[str], bool]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field, setting in _SETTINGS.items():
        for name, unit in setting.names:
            if name in config and accepts(name):
                values[field] = setting.parse(name, str(config[name]).strip(), unit)
                break
    return values


def unknown_settings(names: Iterable[str]) -> list[str]:
    """Return the names that LogConfig does not know: settings that do not concern a log, or misspellings."""
    return [name for name in names if name not in SETTINGS_BY_NAME]


def _check_name(name: str) -> None:
    close = difflib.get_close_matches(name.lower().replace("_", "."), SETTINGS_BY_NAME, n=1, cutoff=0.92)
    if close and name not in _OTHERS:
        raise InvalidConfigError(f"unknown setting {name!r}: did you mean {close[0]!r}?")


def _number(name: str, text: str, unit: int, least: int, most: int) -> int:
    try:
        number = parse_int(text, 64)
    except ValueError:
        raise InvalidConfigError(f"{name}: expected an integer, found {text!r}") from None
    if not least <= number <= most:
        raise InvalidConfigError(f"{name}: expected a number from {least} to {most}, found {number}")
    return number * unit if number > 0 else number


@dataclass(frozen=True, slots=True)
class _ConfigKey:
    names: tuple[tuple[str, int], ...]
    """(name, factor from its unit to the unit of the attribute), by descending precedence."""
    parse: Callable[[str, str, int], object]


def _integer(least: int, most: int, *names: str | tuple[str, int]) -> _ConfigKey:
    return _ConfigKey(
        tuple((name, 1) if isinstance(name, str) else name for name in names),
        lambda name, text, unit: _number(name, text, unit, least, most),
    )


def _choice(allowed: tuple[str, ...], *names: str) -> _ConfigKey:
    def parse(name: str, text: str, _: int) -> str:
        match = next((value for value in allowed if value.lower() == text.lower()), None)
        if match is None:
            raise InvalidConfigError(f"{name}: expected one of {', '.join(allowed)}, found {text!r}")
        return match

    return _ConfigKey(tuple((name, 1) for name in names), parse)


def _boolean(name: str, text: str, _: int) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidConfigError(f"{name}: expected true or false, found {text!r}")
    return text.lower() == "true"


def _compression_type(name: str, text: str, _: int) -> str:
    if text.lower() not in _COMPRESSION_TYPES:
        raise InvalidConfigError(f"{name}: expected one of {', '.join(_COMPRESSION_TYPES)}, found {text!r}")
    return "none" if text.lower() == "uncompressed" else text.lower()


def _level(codec: Codec) -> _ConfigKey:
    def parse(name: str, text: str, unit: int) -> int:
        level = _number(name, text, unit, codec.min_level, codec.max_level)
        if not codec.has_level(level):
            raise InvalidConfigError(f"{name}: expected {codec.levels}, found {level}")
        return level

    return _ConfigKey(((f"compression.{codec.name}.level", 1),), parse)


def _ratio(name: str, text: str, _: int) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1
    if not 0 <= ratio <= 1:
        raise InvalidConfigError(f"{name}: expected a number from 0 to 1, found {text!r}")
    return ratio


def _policy(name: str, text: str, _: int) -> frozenset[str]:
    policies = frozenset(part.strip().lower() for part in text.strip("[]").split(",") if part.strip())
    if not policies <= set(_POLICIES):
        raise InvalidConfigError(f"{name}: expected compact, delete or compact,delete, found {text!r}")
    return policies


_SETTINGS: dict[str, _ConfigKey] = {
    # Brokers up to 3.9 accept less than 1 MiB, newer ones do not. All brokers read small segments.
    "segment_bytes": _integer(14, _MAX_INT, "internal.segment.bytes", "segment.bytes", "log.segment.bytes"),
    "segment_ms": _integer(1, _MAX_LONG, "segment.ms", "log.roll.ms", ("log.roll.hours", _MS_PER_HOUR)),
    "segment_jitter_ms": _integer(
        0, _MAX_LONG, "segment.jitter.ms", "log.roll.jitter.ms", ("log.roll.jitter.hours", _MS_PER_HOUR)
    ),
    "segment_index_bytes": _integer(4, _MAX_INT, "segment.index.bytes", "log.index.size.max.bytes"),
    "index_interval_bytes": _integer(0, _MAX_INT, "index.interval.bytes", "log.index.interval.bytes"),
    "preallocate": _ConfigKey((("preallocate", 1), ("log.preallocate", 1)), _boolean),
    "max_message_bytes": _integer(0, _MAX_INT, "max.message.bytes", "message.max.bytes"),
    "message_timestamp_type": _choice(
        ("CreateTime", "LogAppendTime"), "message.timestamp.type", "log.message.timestamp.type"
    ),
    "message_timestamp_before_max_ms": _integer(
        0,
        _MAX_LONG,
        "message.timestamp.before.max.ms",
        "log.message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "log.message.timestamp.difference.max.ms",
    ),
    "message_timestamp_after_max_ms": _integer(
        0,
        _MAX_LONG,
        "message.timestamp.after.max.ms",
        "log.message.timestamp.after.max.ms",
        "message.timestamp.difference.max.ms",
        "log.message.timestamp.difference.max.ms",
    ),
    # In a broker's configuration, the setting of the same name is the default of all topics.
    "compression_type": _ConfigKey((("compression.type", 1),), _compression_type),
    "compression_gzip_level": _level(GZIP),
    "compression_lz4_level": _level(LZ4),
    "compression_zstd_level": _level(ZSTD),
    "flush_messages": _integer(1, _MAX_LONG, "flush.messages", "log.flush.interval.messages"),
    "flush_ms": _integer(
        0, _MAX_LONG, "flush.ms", "log.flush.interval.ms", "log.flush.scheduler.interval.ms"
    ),
    "cleanup_policy": _ConfigKey((("cleanup.policy", 1), ("log.cleanup.policy", 1)), _policy),
    "retention_ms": _integer(
        -1,
        _MAX_LONG,
        "retention.ms",
        "log.retention.ms",
        ("log.retention.minutes", _MS_PER_MINUTE),
        ("log.retention.hours", _MS_PER_HOUR),
    ),
    "retention_bytes": _integer(-(2**63), _MAX_LONG, "retention.bytes", "log.retention.bytes"),
    "delete_retention_ms": _integer(0, _MAX_LONG, "delete.retention.ms", "log.cleaner.delete.retention.ms"),
    "min_cleanable_dirty_ratio": _ConfigKey(
        (("min.cleanable.dirty.ratio", 1), ("log.cleaner.min.cleanable.ratio", 1)), _ratio
    ),
    "min_compaction_lag_ms": _integer(
        0, _MAX_LONG, "min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"
    ),
    "max_compaction_lag_ms": _integer(
        1, _MAX_LONG, "max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    ),
    "file_delete_delay_ms": _integer(0, _MAX_LONG, "file.delete.delay.ms", "log.segment.delete.delay.ms"),
    "producer_id_expiration_ms": _integer(1, _MAX_INT, "producer.id.expiration.ms"),
    "log_cleaner_dedupe_buffer_size": _integer(1 << 10, _MAX_LONG, "log.cleaner.dedupe.buffer.size"),
    "log_cleaner_threads": _integer(1, _MAX_INT, "log.cleaner.threads"),
}
SETTINGS_BY_NAME = frozenset(name for setting in _SETTINGS.values() for name, _ in setting.names)
"""All setting names that LogConfig.parse knows."""

_OTHERS = frozenset(
    {"log.retention.check.interval.ms", "log.flush.scheduler.interval.ms", "local.retention.ms",
     "local.retention.bytes", "log.local.retention.ms", "log.local.retention.bytes",
     "log.cleaner.io.buffer.size", "min.insync.replicas"}
)  # fmt: skip
"""Kafka settings that are ignored although their names resemble a known one."""
