"""Topics and configurations, built from the records of a cluster's metadata (Kafka: MetadataDelta,
ConfigurationsDelta)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from native_log.messages.cluster_metadata import RECORDS
from native_log.messages.reading import Buffer, MessageError, read_frame, read_message

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOPIC_RECORD, _CONFIG_RECORD, _REMOVE_TOPIC_RECORD = 2, 4, 9
_BEGIN_TRANSACTION, _END_TRANSACTION, _ABORT_TRANSACTION = 23, 24, 25
_READ = {_TOPIC_RECORD, _CONFIG_RECORD, _REMOVE_TOPIC_RECORD}

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
    _transaction: list[tuple[int, dict[str, Any]]] | None = None

    def apply(self, value: bytes) -> None:
        """Apply a record. Those of a transaction (KIP-868) take effect when it ends, if it is not aborted.

        Raises:
            MessageError: the record cannot be decoded, or its version is unknown.
        """
        buffer = Buffer(value)
        api_key, version = read_frame(buffer)
        if api_key == _BEGIN_TRANSACTION:
            self._transaction = []
        elif api_key == _ABORT_TRANSACTION:
            self._transaction = None
        elif api_key == _END_TRANSACTION:
            for record in self._transaction or ():
                self._replay(*record)
            self._transaction = None
        elif api_key in _READ:
            message = RECORDS[api_key]
            if version not in message.versions:
                raise MessageError(
                    f"expected version {message.versions.last} of {message.name}, found {version}"
                )
            data = read_message(message, version, buffer)
            if self._transaction is None:
                self._replay(api_key, data)
            else:
                self._transaction.append((api_key, data))

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
