"""Groups and their members, from records of __consumer_offsets (Kafka: GroupMetadataManager)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.internal_topics.group import Group, collect_groups
from native_log.internal_topics.records import timestamp_us
from native_log.messages.groups import ASSIGNMENT, SUBSCRIPTION
from native_log.messages.reading import Buffer, MessageError, read_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from native_log.internal_topics.group import Values
    from native_log.internal_topics.records import Record
    from native_log.messages.schema import Message

Row = dict[str, Any]

_TASKS = ("active", "standby", "warmup")


def group_rows(records: Iterable[Record], partition: int, topic_names: Mapping[str, str]) -> Iterator[Row]:
    """Yield a row of GROUPS_SCHEMA for each group. All groups of the partition are in memory.

    Args:
        records: the newest record of each key of a partition of __consumer_offsets, in the order of offsets.
        partition: its number.
        topic_names: names of topics by id, for groups that store ids.
    """
    undecodable: list[Row] = []

    def report(record: Record, name: str | None, error: MessageError) -> None:
        undecodable.append({"group": name, **record.undecodable(partition, error)})

    for group in collect_groups(records, report).values():
        assert group.newest is not None
        try:
            yield {**_group_row(group, topic_names), **group.newest.location(partition)}
        except MessageError as error:
            yield {"group": group.name, **group.newest.undecodable(partition, error)}
    yield from undecodable


def _group_row(group: Group, topic_names: Mapping[str, str]) -> Row:
    row: Row = {
        "group": group.name,
        "type": group.type,
        "state": group.state,
        "epoch": group.epoch,
        "targetAssignmentEpoch": group.target_assignment_epoch,
        "members": [],
    }
    if group.type == "classic":
        return row if group.classic is None else {**row, **_classic_values(group.classic)}
    partition_metadata = group.values.get("ConsumerGroupPartitionMetadata", {}).get("topics", ())
    names = {**topic_names, **{topic["topicId"]: topic["topicName"] for topic in partition_metadata}}
    members = (_member(group, member_id, values, names) for member_id, values in group.members().items())
    row |= {"members": list(members)}
    if group.type == "streams":
        row["subtopologies"] = _subtopologies(group.values.get("StreamsGroupTopology", {}))
    return row


def _classic_values(classic: Values) -> Row:
    return {
        "protocolType": classic["protocolType"],
        "protocol": classic["protocol"],
        "leader": classic["leader"],
        "stateTimestamp": timestamp_us("currentStateTimestamp", classic.get("currentStateTimestamp", -1)),
        "members": [_classic_member(member, classic["protocolType"]) for member in classic["members"]],
    }


def _classic_member(member: Values, protocol_type: str) -> Row:
    row = {
        "memberId": member["memberId"],
        "groupInstanceId": member.get("groupInstanceId"),
        "clientId": member["clientId"],
        "clientHost": member["clientHost"],
        "rebalanceTimeoutMs": member.get("rebalanceTimeout"),
        "sessionTimeoutMs": member["sessionTimeout"],
    }
    subscription = _embedded(SUBSCRIPTION, member["subscription"], protocol_type)
    if subscription is None:
        row["subscriptionBytes"] = member["subscription"]
    else:
        row |= {"rackId": subscription.get("rackId"), "subscribedTopics": subscription["topics"]}
    assignment = _embedded(ASSIGNMENT, member["assignment"], protocol_type)
    if assignment is None:
        row["assignmentBytes"] = member["assignment"]
    else:
        row["assignment"] = assignment["assignedPartitions"]
    return row


def _embedded(message: Message, data: bytes, protocol_type: str) -> Values | None:
    """Return the message in a classic member's bytes. None: it is not one of Kafka's consumers.

    A version that is too new is read as the newest known one (Kafka: ConsumerProtocol).
    """
    if protocol_type != "consumer":
        return None
    try:
        buffer = Buffer(data)
        version = buffer.number("int16")
        assert message.versions.last is not None
        return read_message(message, min(version, message.versions.last), buffer) if version >= 0 else None
    except MessageError:
        return None


def _member(group: Group, member_id: str, values: Values, names: Mapping[str, str]) -> Row:
    current = group.members("CurrentMemberAssignment").get(member_id, {})
    target = group.members("TargetAssignmentMember").get(member_id, {})
    classic = values.get("classicMemberMetadata")
    return {
        "memberId": member_id,
        "groupInstanceId": values.get("instanceId"),
        "clientId": values["clientId"],
        "clientHost": values["clientHost"],
        "rackId": values["rackId"],
        "memberEpoch": current.get("memberEpoch"),
        "state": group.member_state(member_id),
        "rebalanceTimeoutMs": values.get("rebalanceTimeoutMs"),
        "sessionTimeoutMs": None if classic is None else classic["sessionTimeoutMs"],
        "serverAssignor": values.get("serverAssignor"),
        "subscribedTopics": values.get("subscribedTopicNames"),
        "subscribedTopicRegex": values.get("subscribedTopicRegex"),
        "processId": values.get("processId"),
        "assignment": _partitions(current, "assignedPartitions", "", names),
        "pendingRevocation": _partitions(
            current, "partitionsPendingRevocation", "TasksPendingRevocation", names
        ),
        "targetAssignment": _partitions(target, "topicPartitions", "", names),
    }


def _partitions(values: Values, field: str, tasks_suffix: str, names: Mapping[str, str]) -> list[Row] | None:
    """Return the assigned partitions of a member, or the tasks of a member of a streams group."""
    if not values:
        return None
    if field in values:
        return [{"topic": names.get(entry["topicId"]), **entry} for entry in values[field]]
    return [
        {"taskType": task_type, **task}
        for task_type in _TASKS
        for task in values.get(f"{task_type}{tasks_suffix or 'Tasks'}", ())
    ]


def _subtopologies(topology: Values) -> list[Row] | None:
    if not topology:
        return None
    return [
        {
            "subtopologyId": part["subtopologyId"],
            "sourceTopics": part["sourceTopics"],
            "sourceTopicRegex": part["sourceTopicRegex"],
            "repartitionSourceTopics": [topic["name"] for topic in part["repartitionSourceTopics"]],
            "repartitionSinkTopics": part["repartitionSinkTopics"],
            "stateChangelogTopics": [topic["name"] for topic in part["stateChangelogTopics"]],
        }
        for part in topology["subtopologies"]
    ]
