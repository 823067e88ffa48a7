"""Topics and configurations, built from the records of a cluster's metadata (Kafka: MetadataDelta,
ConfigurationsDelta)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from native_log.messages.metadata_records import MetadataRecords

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOPIC_RECORD, _CONFIG_RECORD, _REMOVE_TOPIC_RECORD = 2, 4, 9
_READ = (_TOPIC_RECORD, _CONFIG_RECORD, _REMOVE_TOPIC_RECORD)

_TOPIC, _BROKER = 2, 4
"""Types of resources that have a configuration (Kafka: ConfigResource.Type)."""

Configs = dict[str, dict[str, str]]


@dataclass(slots=True)
class ConfigsImage:
    """The topics and configurations of a cluster. Apply the metadata's records in order.

    Attributes:
        topic_ids: ids by topic, as in partition.metadata.
        topics: configurations by topic; topics without one are missing.
        brokers: dynamic configurations by broker id; "" is the default of all brokers.
    """

    topic_ids: dict[str, str] = field(default_factory=dict)
    topics: Configs = field(default_factory=dict)
    brokers: Configs = field(default_factory=dict)
    _topics_by_id: dict[str, str] = field(default_factory=dict)
    _records: MetadataRecords[None] = field(default_factory=lambda: MetadataRecords(_READ, skips_others=True))

    def apply(self, value: bytes) -> None:
        """Apply a record. Those of a transaction take effect when it ends.

        Raises:
            MessageError: the record cannot be decoded, or its version is unknown.
        """
        for record in self._records.decode(value, None):
            self._replay(record.api_key, record.data)

    def broker_config(self, node_id: int | None) -> Mapping[str, str]:
        """Return the dynamic configuration of a broker, which overrides the default of all."""
        return {**self.brokers.get("", {}), **self.brokers.get(str(node_id), {})}

    def _replay(self, api_key: int, data: dict[str, Any]) -> None:
        if api_key == _TOPIC_RECORD:
            self.topic_ids[data["name"]] = data["topicId"]
            self._topics_by_id[data["topicId"]] = data["name"]
        elif api_key == _REMOVE_TOPIC_RECORD:
            name = self._topics_by_id.pop(data["topicId"], None)
            if name is not None:
                self.topic_ids.pop(name, None)
                self.topics.pop(name, None)
        elif data["resourceType"] in (_TOPIC, _BROKER):
            configs = self.topics if data["resourceType"] == _TOPIC else self.brokers
            config = configs.setdefault(data["resourceName"], {})
            if data["value"] is None:
                config.pop(data["name"], None)
            else:
                config[data["name"]] = data["value"]
