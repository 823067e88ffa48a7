"""The metadata of a cluster, built from records (Kafka: MetadataImage, MetadataDelta)."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from native_log.messages.reading import MessageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Data = dict[str, Any]
Row = dict[str, Any]

_UNCHANGED_LEADER, _UNCHANGED_RECOVERY = -2, -1
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_ALL_TOPICS = ""

_SECURITY_PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
_RECOVERY_STATES = {0: "RECOVERED", 1: "RECOVERING"}
_CONFIG_RESOURCES = {2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
_ACL_RESOURCES = (
    *("UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN"),
    "USER",
)
_PATTERN_TYPES = ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")
_OPERATIONS = (
    *("UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION"),
    *("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS"),
    "TWO_PHASE_COMMIT",
)
_PERMISSIONS = ("UNKNOWN", "ANY", "DENY", "ALLOW")
_SCRAM_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_SECRETS = re.compile(r"(?i)passw|passphrase|secret|jaas|certificate|connection[._-]string|token$|[._-]key$")
"""Names of settings with secrets: all that have the type PASSWORD in Kafka, and the usual ones of plugins."""


class ClusterImage:
    """The metadata of a cluster, as rows of CLUSTER_METADATA_SCHEMA. Apply the records in order."""

    def __init__(self) -> None:
        self._topics: dict[str, Row] = {}
        self._partitions: dict[str, dict[int, Row]] = {}
        self._configs: dict[tuple[int, str], dict[str, Row]] = {}
        self._others: dict[tuple[object, ...], Row] = {}
        """Rows of all other types, by type and key."""

    def apply(self, api_key: int, data: Data, location: Row) -> None:
        """Apply a record.

        Args:
            api_key: its type.
            data: its fields.
            location: the values of RECORD_COLUMNS for rows that the record changes.

        Raises:
            MessageError: the record changes what is not there.
        """
        _REPLAY[api_key](self, data, location)

    def rows(self) -> Iterator[Row]:
        """Yield the rows: each topic with its partitions, then configurations, then all others."""
        for topic_id, topic in self._topics.items():
            yield topic
            for _, partition in sorted(self._partitions.get(topic_id, {}).items()):
                yield partition
        for configs in self._configs.values():
            yield from configs.values()
        yield from self._others.values()

    def _put(self, kind: str, key: object, values: Row, location: Row) -> None:
        self._others[kind, key] = {"type": kind, **values, **location}

    def _topic(self, data: Data, location: Row) -> None:
        row = {"type": "topic", "topic": data["name"], "topicId": data["topicId"]}
        self._topics[data["topicId"]] = {**row, **location}

    def _remove_topic(self, data: Data, _: Row) -> None:
        topic = self._topics.pop(data["topicId"], None)
        self._partitions.pop(data["topicId"], None)
        if topic is None:
            raise MessageError(f"expected a topic with id {data['topicId']}, found none")
        self._configs.pop((_TOPIC_RESOURCE, topic["topic"]), None)

    def _partition(self, data: Data, location: Row) -> None:
        partitions = self._partitions.setdefault(data["topicId"], {})
        names = ("replicas", "isr", "removingReplicas", "addingReplicas", "leader", "leaderEpoch")
        partitions[data["partitionId"]] = {
            "type": "partition",
            "topic": self._topics.get(data["topicId"], {}).get("topic"),
            "topicId": data["topicId"],
            "partition": data["partitionId"],
            **{name: data[name] for name in (*names, "partitionEpoch")},
            "leaderRecoveryState": _RECOVERY_STATES.get(data.get("leaderRecoveryState", 0)),
            "directories": data.get("directories"),
            "eligibleLeaderReplicas": data.get("eligibleLeaderReplicas") or [],
            "lastKnownElr": data.get("lastKnownElr") or [],
            **location,
        }

    def _change_partition(self, data: Data, location: Row) -> None:
        """Change what the record says (Kafka: PartitionRegistration.merge)."""
        row = self._partitions.get(data["topicId"], {}).get(data["partitionId"])
        if row is None:
            raise MessageError(
                f"expected partition {data['partitionId']} of the topic with id {data['topicId']}, found none"
            )
        names = ("replicas", "isr", "removingReplicas", "addingReplicas", "directories")
        for name in (*names, "eligibleLeaderReplicas", "lastKnownElr"):
            if data.get(name) is not None:
                row[name] = data[name]
        leader = data.get("leader", _UNCHANGED_LEADER)
        if leader != _UNCHANGED_LEADER:
            row["leader"] = leader
            row["leaderEpoch"] += 1
        recovery = data.get("leaderRecoveryState", _UNCHANGED_RECOVERY)
        if recovery != _UNCHANGED_RECOVERY:
            row["leaderRecoveryState"] = _RECOVERY_STATES.get(recovery)
        row["partitionEpoch"] += 1
        row |= location

    def _clear_elr(self, data: Data, location: Row) -> None:
        for topic_id, topic in self._topics.items():
            if data["topicName"] in (_ALL_TOPICS, topic["topic"]):
                for row in self._partitions.get(topic_id, {}).values():
                    if row["eligibleLeaderReplicas"] or row["lastKnownElr"]:
                        row |= {"eligibleLeaderReplicas": [], "lastKnownElr": [], **location}

    def _config(self, data: Data, location: Row) -> None:
        """Hide secrets, as a broker does when it describes its settings: in the log, they are plain text."""
        key = data["resourceType"], data["resourceName"]
        configs = self._configs.setdefault(key, {})
        if data["value"] is None:
            configs.pop(data["name"], None)
            return
        is_secret = data["resourceType"] == _BROKER_RESOURCE and _SECRETS.search(data["name"])
        configs[data["name"]] = {
            "type": "config",
            "topic": data["resourceName"] if data["resourceType"] == _TOPIC_RESOURCE else None,
            "resourceType": _CONFIG_RESOURCES.get(data["resourceType"], str(data["resourceType"])),
            "resourceName": data["resourceName"],
            "name": data["name"],
            "value": None if is_secret else data["value"],
            **location,
        }

    def _broker(self, data: Data, location: Row) -> None:
        values = {
            **_node_values(data, data["brokerId"]),
            "brokerEpoch": data["brokerEpoch"],
            "rack": data["rack"],
            "isFenced": data["fenced"],
            "inControlledShutdown": data.get("inControlledShutdown", False),
            "directories": data.get("logDirs", []),
            "cordonedDirectories": data.get("cordonedLogDirs") or [],
        }
        self._put("broker", data["brokerId"], values, location)

    def _unregister_broker(self, data: Data, _: Row) -> None:
        self._registered(data["brokerId"])
        del self._others["broker", data["brokerId"]]

    def _registered(self, broker_id: int) -> Row:
        row = self._others.get(("broker", broker_id))
        if row is None:
            raise MessageError(f"expected a registered broker {broker_id}, found none")
        return row

    def _fence(self, data: Data, location: Row) -> None:
        self._registered(data["id"]).update(isFenced=True, **location)

    def _unfence(self, data: Data, location: Row) -> None:
        self._registered(data["id"]).update(isFenced=False, **location)

    def _change_broker(self, data: Data, location: Row) -> None:
        """Apply a change, where 0, empty `logDirs` and null mean none (Kafka: ClusterDelta)."""
        row = self._registered(data["brokerId"])
        if data.get("fenced"):
            row["isFenced"] = data["fenced"] > 0
        if data.get("inControlledShutdown"):
            row["inControlledShutdown"] = data["inControlledShutdown"] > 0
        if data.get("logDirs"):
            row["directories"] = data["logDirs"]
        if data.get("cordonedLogDirs") is not None:
            row["cordonedDirectories"] = data["cordonedLogDirs"]
        row |= location

    def _controller(self, data: Data, location: Row) -> None:
        values = _node_values(data, data["controllerId"])
        self._put("controller", data["controllerId"], values, location)

    def _unregister_controller(self, data: Data, _: Row) -> None:
        self._others.pop(("controller", data["controllerId"]), None)

    def _feature(self, data: Data, location: Row) -> None:
        if data["featureLevel"] == 0:
            self._others.pop(("feature", data["name"]), None)
        else:
            values = {"name": data["name"], "value": str(data["featureLevel"])}
            self._put("feature", data["name"], values, location)

    def _acl(self, data: Data, location: Row) -> None:
        resource = _ACL_RESOURCES[_code(data, "resourceType", _ACL_RESOURCES)]
        values = {
            "name": data["id"],
            "resourceType": resource,
            "resourceName": data["resourceName"],
            "text": _acl_text(data, resource),
        }
        self._put("acl", data["id"], values, location)

    def _remove_acl(self, data: Data, _: Row) -> None:
        self._others.pop(("acl", data["id"]), None)

    def _quota(self, data: Data, location: Row) -> None:
        entity = [(part["entityType"], part["entityName"]) for part in data["entity"]]
        text = ", ".join(f"{kind}={'<default>' if name is None else name}" for kind, name in entity)
        key = frozenset(entity), data["key"]
        if data["remove"]:
            self._others.pop(("quota", key), None)
        else:
            values = {"name": data["key"], "value": str(data["value"]), "text": text}
            self._put("quota", key, values, location)

    def _scram_credential(self, data: Data, location: Row) -> None:
        """Show that there is a credential, but nothing that helps to guess the password."""
        mechanism = _SCRAM_MECHANISMS.get(data["mechanism"], str(data["mechanism"]))
        values = {"resourceType": "USER", "resourceName": data["name"], "name": mechanism}
        key = data["name"], data["mechanism"]
        self._put("scramCredential", key, values | {"value": str(data["iterations"])}, location)

    def _remove_scram_credential(self, data: Data, _: Row) -> None:
        self._others.pop(("scramCredential", (data["name"], data["mechanism"])), None)

    def _delegation_token(self, data: Data, location: Row) -> None:
        names = ("owner", "requester", "renewers", "issueTimestamp", "maxTimestamp", "expirationTimestamp")
        text = ", ".join(f"{name}={data[name]}" for name in names)
        self._put("delegationToken", data["tokenId"], {"name": data["tokenId"], "text": text}, location)

    def _remove_delegation_token(self, data: Data, _: Row) -> None:
        self._others.pop(("delegationToken", data["tokenId"]), None)

    def _producer_ids(self, data: Data, location: Row) -> None:
        values = {"name": "nextProducerId", "value": str(data["nextProducerId"])}
        self._put("producerIds", None, values, location)

    def _zk_migration(self, data: Data, location: Row) -> None:
        values = {"name": "zkMigrationState", "value": str(data["zkMigrationState"])}
        self._put("zkMigration", None, values, location)

    def _nothing(self, data: Data, location: Row) -> None:
        """Ignore a record without content."""


_REPLAY: dict[int, Callable[[ClusterImage, Data, Row], None]] = {
    0: ClusterImage._broker,
    1: ClusterImage._unregister_broker,
    2: ClusterImage._topic,
    3: ClusterImage._partition,
    4: ClusterImage._config,
    5: ClusterImage._change_partition,
    7: ClusterImage._fence,
    8: ClusterImage._unfence,
    9: ClusterImage._remove_topic,
    10: ClusterImage._delegation_token,
    11: ClusterImage._scram_credential,
    12: ClusterImage._feature,
    14: ClusterImage._quota,
    15: ClusterImage._producer_ids,
    17: ClusterImage._change_broker,
    18: ClusterImage._acl,
    19: ClusterImage._remove_acl,
    20: ClusterImage._nothing,
    21: ClusterImage._zk_migration,
    22: ClusterImage._remove_scram_credential,
    26: ClusterImage._remove_delegation_token,
    27: ClusterImage._controller,
    28: ClusterImage._clear_elr,
    29: ClusterImage._unregister_controller,
}
"""What to do with a record, by API key (native_log.messages.cluster_metadata.RECORDS)."""


def _node_values(data: Data, node_id: int) -> Row:
    return {
        "nodeId": node_id,
        "incarnationId": data["incarnationId"],
        "endPoints": [
            {
                "name": end["name"],
                "host": end["host"],
                "port": end["port"],
                "securityProtocol": _SECURITY_PROTOCOLS.get(
                    end["securityProtocol"], str(end["securityProtocol"])
                ),
            }
            for end in data["endPoints"]
        ],
        "features": [
            {
                "name": feature["name"],
                "minVersion": feature["minSupportedVersion"],
                "maxVersion": feature["maxSupportedVersion"],
            }
            for feature in sorted(data["features"], key=itemgetter("name"))
        ],
    }


def _acl_text(data: Data, resource: str) -> str:
    """Return an ACL as Kafka's AclBinding.toString does."""
    pattern = _PATTERN_TYPES[_code(data, "patternType", _PATTERN_TYPES)]
    operation = _OPERATIONS[_code(data, "operation", _OPERATIONS)]
    permission = _PERMISSIONS[_code(data, "permissionType", _PERMISSIONS)]
    return (
        f"(pattern=ResourcePattern(resourceType={resource}, name={data['resourceName']}, "
        f"patternType={pattern}), entry=(principal={data['principal']}, host={data['host']}, "
        f"operation={operation}, permissionType={permission}))"
    )


def _code(data: Data, field: str, names: tuple[str, ...]) -> int:
    """Return the number in a field as an index into `names`. Unknown numbers are UNKNOWN, as in Kafka."""
    code: int = data[field]
    return code if 0 <= code < len(names) else 0
