"""What the records of __consumer_offsets say about one group (Kafka: GroupMetadataManager, ClassicGroup,
ConsumerGroup, ShareGroup, StreamsGroup)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from native_log.messages.coordinators import read_key, read_value
from native_log.messages.groups import LEGACY_OFFSET, OFFSET_TYPES, RECORDS, SUBSCRIPTION
from native_log.messages.reading import Buffer, MessageError, read_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from native_log.internal_topics.records import Record

MEMBER_STATES = {
    "consumer": {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"},
    "share": {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"},
    "streams": {1: "STABLE", 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS"},
}
"""The states of members by type of group and number (Kafka: modern.MemberState, streams.MemberState)."""
_STABLE = "STABLE"
"""The state of a member that has all of its target assignment."""
_CONSUMER = "consumer"

Values = dict[str, Any]


@dataclass(slots=True)
class Group:
    """The newest records of a group.

    Attributes:
        values: values by the name of the record, such as ConsumerGroupMetadata, for records of the group.
        member_values: values by the name of the record and the member id, for records of members.
        regexes: the topics that match a regular expression to which members are subscribed.
        newest: the newest record about the group, or about an offset that it committed.
    """

    name: str
    values: dict[str, Values] = field(default_factory=dict)
    member_values: dict[str, dict[str, Values]] = field(default_factory=dict)
    regexes: dict[str, list[str]] = field(default_factory=dict)
    newest: Record | None = None

    def apply(self, record: Record, kind: int, key: Mapping[str, Any], value: Values) -> None:
        """Apply the newest record of a key. Tombstones need not be applied."""
        name = RECORDS[kind].value.name.removesuffix("Value")
        if "memberId" in key:
            self.member_values.setdefault(name, {})[key["memberId"]] = value
        elif "regularExpression" in key:
            self.regexes[key["regularExpression"]] = value["topics"]
        else:
            self.values[name] = value
        self.newest = record

    @property
    def type(self) -> str:
        """Return classic, consumer (KIP-848), share (KIP-932) or streams (KIP-1071)."""
        for kind in ("streams", "share", _CONSUMER):
            if any(
                name.startswith(f"{kind.capitalize()}Group") for name in (*self.values, *self.member_values)
            ):
                return kind
        return "classic"

    @property
    def classic(self) -> Values | None:
        """Return the metadata of a classic group. None: there are none, as for a group without members."""
        return self.values.get("GroupMetadata")

    @property
    def epoch(self) -> int | None:
        """Return the epoch of the group, or the generation of a classic group."""
        if self.type == "classic":
            return None if self.classic is None else self.classic["generation"]
        return self._value("Metadata").get("epoch")

    @property
    def target_assignment_epoch(self) -> int | None:
        return self._value("TargetAssignmentMetadata").get("assignmentEpoch")

    def members(self, record: str = "MemberMetadata") -> dict[str, Values]:
        """Return what one type of record says about members, by member id. Not for classic groups."""
        return self.member_values.get(f"{self.type.capitalize()}Group{record}", {})

    def member_state(self, member_id: str) -> str | None:
        """Return the state of a member. None: the records do not say."""
        current = self.members("CurrentMemberAssignment").get(member_id)
        return None if current is None else MEMBER_STATES[self.type].get(current["state"], "UNKNOWN")

    @property
    def state(self) -> str:
        """Return the state in which a coordinator has the group after loading these records."""
        if self.type == "classic":
            return "Stable" if self.classic is not None and self.classic["members"] else "Empty"
        members = self.members()
        if not members:
            return "Empty"
        if self.type == "share":
            return "Stable"
        if self.type == "streams" and not self._has_validated_topology():
            return "NotReady"
        target_epoch = self.target_assignment_epoch or 0
        if (self.epoch or 0) > target_epoch:
            return "Assigning"
        current = self.members("CurrentMemberAssignment")
        is_reconciled = all(
            (member := current.get(name)) is not None
            and self.member_state(name) == _STABLE
            and member["memberEpoch"] == target_epoch
            for name in members
        )
        return "Stable" if is_reconciled else "Reconciling"

    def _has_validated_topology(self) -> bool:
        """Return whether the records say that the topics of the topology exist.

        Kafka 4.1 does not store this. A group that it loads is NotReady until a member sends a heartbeat.
        """
        topology = self.values.get("StreamsGroupTopology")
        validated_epoch: int = self._value("Metadata").get("validatedTopologyEpoch", -1)
        return topology is not None and topology["epoch"] == validated_epoch

    def subscribed_topics(self) -> set[str] | None:
        """Return the topics to which the members are subscribed. None: the records do not say."""
        if self.type == "classic":
            return self._classic_subscription()
        if self.type == "streams":
            if not self.members():  # the topology outlives them
                return set()
            subtopologies = self.values.get("StreamsGroupTopology", {}).get("subtopologies", [])
            sources = {topic for part in subtopologies for topic in part["sourceTopics"]}
            return sources | {
                topic["name"] for part in subtopologies for topic in part["repartitionSourceTopics"]
            }
        topics = set()
        for member in self.members().values():
            topics.update(member["subscribedTopicNames"])
            topics.update(self.regexes.get(member.get("subscribedTopicRegex") or "", ()))
        return topics

    def _classic_subscription(self) -> set[str] | None:
        if self.classic is None or self.classic["protocolType"] != _CONSUMER:
            return None
        topics: set[str] = set()
        for member in self.classic["members"]:
            try:
                topics.update(subscribed_topics(member["subscription"]))
            except MessageError:
                return None
        return topics

    def _value(self, record: str) -> Values:
        return self.values.get(f"{self.type.capitalize()}Group{record}", {})


def subscribed_topics(subscription: bytes) -> list[str]:
    """Return the topics of a consumer's subscription. All versions begin like version 0.

    Raises:
        MessageError: the bytes are invalid.
    """
    buffer = Buffer(subscription)
    buffer.number("int16")
    topics: list[str] = read_message(SUBSCRIPTION, 0, buffer)["topics"]
    return topics


def collect_groups(
    records: Iterable[Record], on_error: Callable[[Record, str | None, MessageError], None]
) -> dict[str, Group]:
    """Return the groups by name.

    Args:
        records: the newest record of each key of a partition of __consumer_offsets, in the order of offsets.
        on_error: called for each record about a group that cannot be decoded, with the name of the group if
            that can be decoded.
    """
    groups: dict[str, Group] = {}
    # Commits by clients up to 0.8.2. A later record of the newer type replaces that of its partition.
    legacy: dict[bytes, tuple[str, Record]] = {}
    for record in records:
        offset_key = (record.key or b"")[2:]
        legacy.pop(offset_key, None)
        if record.value is None:
            continue
        name = None
        try:
            kind, key = read_key(RECORDS, record.key)
            name = key["group"] if "group" in key else key["groupId"]
            if kind == LEGACY_OFFSET:
                legacy[offset_key] = name, record
            elif kind in OFFSET_TYPES:
                groups.setdefault(name, Group(name)).newest = record
            else:
                value = read_value(RECORDS, kind, record.value)[1]
                groups.setdefault(name, Group(name)).apply(record, kind, key, value)
        except MessageError as error:
            on_error(record, name, error)
    for name, record in legacy.values():
        group = groups.setdefault(name, Group(name))
        if group.newest is None or group.newest.offset < record.offset:
            group.newest = record
    return groups
