"""Combine the settings of a topic from all of their sources, as a broker does.

A setting that is given by a topic's own name comes first. Below it are the settings stored for the topic and
for the broker. A setting that is given by a broker's name, as in server.properties, is a default below these.
(Kafka: DynamicBrokerConfig, LogConfig.fromProps)
"""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from native_log.config import LogConfig, given_broker_fields, stored_broker_fields, topic_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Source(StrEnum):
    """Where the value of a setting comes from. The first five are in the order of precedence."""

    GIVEN = "given"  # by a topic's own name
    TOPIC = "stored for topic"
    BROKER = "stored for broker"  # or as the default of all brokers
    GIVEN_FOR_BROKER = "given for broker"  # by a broker's name
    DEFAULT = "default"  # Kafka's
    CLEANER = "cleaner"  # of cleanup.policy: a cleaner has compacted the topic
    INTERNAL = "internal"  # of cleanup.policy: the topic is internal to Kafka
    UNKNOWN = "unknown"  # neither given nor stored; the broker's server.properties may have it


@dataclass(frozen=True, slots=True)
class AppliedSetting:
    """A setting that decided what is done to a topic: an entry of the column `settings` of a report.

    Attributes:
        name: the topic's name of the setting.
        value: its value as text; None if it is unknown.
        source: where the value comes from.
        overrides: the stored value that a given one overrides, as text; None if it overrides none.
    """

    name: str
    value: str | None
    source: Source
    overrides: str | None = None

    def __str__(self) -> str:
        origin = self.source if self.overrides is None else f"{self.source}, overrides {self.overrides}"
        return f"{self.name}{'' if self.value is None else f'={self.value}'} ({origin})"


SETTINGS_TYPE = pa.list_(
    pa.struct(
        {"name": pa.string(), "value": pa.string(), "source": pa.string(), "overrides": pa.string()},
    )
)
"""The type of the column `settings`: the fields of AppliedSetting."""


def settings_value(settings: Iterable[AppliedSetting]) -> list[dict[str, str | None]]:
    """Return settings as a value of SETTINGS_TYPE."""
    return [
        {"name": s.name, "value": s.value, "source": str(s.source), "overrides": s.overrides}
        for s in settings
    ]


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """The settings of a topic.

    Attributes:
        config: the effective settings.
        sources: by attribute of LogConfig, where its value comes from; those that are missing are defaults.
        stored: by attribute of LogConfig, the value that is stored for the topic or the broker.
    """

    config: LogConfig
    sources: Mapping[str, Source]
    stored: Mapping[str, Any]

    @classmethod
    def combine(
        cls,
        given: Iterable[Mapping[str, object]],
        stored: Mapping[str, str] | None,
        broker: Mapping[str, str] | None,
    ) -> EffectiveConfig:
        """Combine settings by Kafka's names.

        Args:
            given: given settings; each mapping overrides those before it. Those by a topic's own name
                override stored ones, those by a broker's name do not.
            stored: the stored configuration of the topic.
            broker: the stored (dynamic) configuration of the broker.

        Raises InvalidConfigError for an invalid value.
        """
        latest_first = list(given)[::-1]
        layers = {
            Source.GIVEN: ChainMap(*map(topic_fields, latest_first)),
            Source.TOPIC: topic_fields(stored or {}),
            Source.BROKER: stored_broker_fields(broker or {}),
            Source.GIVEN_FOR_BROKER: ChainMap(*map(given_broker_fields, latest_first)),
        }
        sources = ChainMap(*(dict.fromkeys(fields, source) for source, fields in layers.items()))
        values = ChainMap(*map(dict, layers.values()))
        stored_values = ChainMap(dict(layers[Source.TOPIC]), dict(layers[Source.BROKER]))
        return cls(LogConfig(**values), dict(sources), dict(stored_values))

    def source(self, attribute: str) -> Source:
        """Return where the value of an attribute of LogConfig comes from."""
        return self.sources.get(attribute, Source.DEFAULT)

    def applied(self, attribute: str) -> AppliedSetting:
        """Return the setting of an attribute of LogConfig, for a report."""
        value, source = getattr(self.config, attribute), self.source(attribute)
        stored = self.stored.get(attribute, value)
        overrides = None if source is not Source.GIVEN or stored == value else setting_text(stored)
        return AppliedSetting(attribute.replace("_", "."), setting_text(value), source, overrides)


def setting_text(value: object) -> str:
    """Return the value of a setting as it is written in a configuration."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)
