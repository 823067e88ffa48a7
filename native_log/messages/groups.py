"""Records of __consumer_offsets, up to Kafka 4.4 (Kafka: GroupCoordinatorRecordSerde)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from native_log.messages.coordinators import coordinator_records, decode_record
from native_log.messages.reading import Buffer, MessageError, read_versioned
from native_log.messages.schema import Notation

RECORDS = coordinator_records("""
    0 LegacyOffsetCommit {group string, topic string, partition int32}
        0 {offset int64, metadata string, commitTimestamp int64}
    1 OffsetCommit {group string, topic string, partition int32}
        0-4 flexible 4+ {offset int64, leaderEpoch int32 3+, metadata string, commitTimestamp int64,
            expireTimestamp int64 1, topicId uuid 4+ tag 0}
    2 GroupMetadata {group string}
        0-4 flexible 4+ {protocolType string, generation int32, protocol string?, leader string?,
            currentStateTimestamp int64 2+, members []{memberId string, groupInstanceId string? 3+,
            clientId string, clientHost string, rebalanceTimeout int32 1+, sessionTimeout int32,
            subscription bytes, assignment bytes}}
    3 ConsumerGroupMetadata {groupId string}
        0 flexible 0+ {epoch int32, metadataHash int64 tag 0}
    4 ConsumerGroupPartitionMetadata {groupId string}
        0 flexible 0+ {topics []{topicId uuid, topicName string, numPartitions int32,
            partitionMetadata []{partition int32, racks []string}}}
    5 ConsumerGroupMemberMetadata {groupId string, memberId string}
        0 flexible 0+ {instanceId string?, rackId string?, clientId string, clientHost string,
            subscribedTopicNames []string, subscribedTopicRegex string?, rebalanceTimeoutMs int32,
            serverAssignor string?, classicMemberMetadata {sessionTimeoutMs int32,
            supportedProtocols []{name string, metadata bytes}}? tag 0}
    6 ConsumerGroupTargetAssignmentMetadata {groupId string}
        0 flexible 0+ {assignmentEpoch int32, assignmentTimestamp int64 tag 0}
    7 ConsumerGroupTargetAssignmentMember {groupId string, memberId string}
        0 flexible 0+ {topicPartitions []{topicId uuid, partitions []int32}}
    8 ConsumerGroupCurrentMemberAssignment {groupId string, memberId string}
        0 flexible 0+ {memberEpoch int32, previousMemberEpoch int32, state int8,
            assignedPartitions []{topicId uuid, partitions []int32,
            assignmentEpochs []int32? tag 0},
            partitionsPendingRevocation []{topicId uuid, partitions []int32,
            assignmentEpochs []int32? tag 0}}
    10 ShareGroupMemberMetadata {groupId string, memberId string}
        0 flexible 0+ {rackId string?, clientId string, clientHost string, subscribedTopicNames []string}
    11 ShareGroupMetadata {groupId string}
        0 flexible 0+ {epoch int32, metadataHash int64}
    12 ShareGroupTargetAssignmentMetadata {groupId string}
        0 flexible 0+ {assignmentEpoch int32, assignmentTimestamp int64 tag 0}
    13 ShareGroupTargetAssignmentMember {groupId string, memberId string}
        0 flexible 0+ {topicPartitions []{topicId uuid, partitions []int32}}
    14 ShareGroupCurrentMemberAssignment {groupId string, memberId string}
        0 flexible 0+ {memberEpoch int32, previousMemberEpoch int32, state int8,
            assignedPartitions []{topicId uuid, partitions []int32}}
    15 ShareGroupStatePartitionMetadata {groupId string}
        0 flexible 0+ {initializingTopics []{topicId uuid, topicName string, partitions []int32},
            initializedTopics []{topicId uuid, topicName string, partitions []int32},
            deletingTopics []{topicId uuid, topicName string}}
    16 ConsumerGroupRegularExpression {groupId string, regularExpression string}
        0 flexible 0+ {topics []string, version int64, timestamp int64}
    17 StreamsGroupMetadata {groupId string}
        0 flexible 0+ {epoch int32, metadataHash int64, validatedTopologyEpoch int32 tag 0 default -1,
            lastAssignmentConfigs []{key string, value string}? tag 1,
            storedDescriptionTopologyEpoch int32 tag 2 default -1,
            failedDescriptionTopologyEpoch int32 tag 3 default -1}
    19 StreamsGroupMemberMetadata {groupId string, memberId string}
        0 flexible 0+ {instanceId string?, rackId string?, clientId string, clientHost string,
            rebalanceTimeoutMs int32, topologyEpoch int32, processId string, userEndpoint {host string,
            port uint16}?, clientTags []{key string, value string}}
    20 StreamsGroupTargetAssignmentMetadata {groupId string}
        0 flexible 0+ {assignmentEpoch int32, assignmentTimestamp int64 tag 0}
    21 StreamsGroupTargetAssignmentMember {groupId string, memberId string}
        0 flexible 0+ {activeTasks []{subtopologyId string, partitions []int32},
            standbyTasks []{subtopologyId string, partitions []int32}, warmupTasks []{subtopologyId string,
            partitions []int32}}
    22 StreamsGroupCurrentMemberAssignment {groupId string, memberId string}
        0 flexible 0+ {memberEpoch int32, previousMemberEpoch int32, state int8,
            activeTasks []{subtopologyId string, partitions []int32,
                assignmentEpochs []int32? tag 0},
            standbyTasks []{subtopologyId string, partitions []int32,
                assignmentEpochs []int32? tag 0},
            warmupTasks []{subtopologyId string, partitions []int32,
                assignmentEpochs []int32? tag 0},
            activeTasksPendingRevocation []{subtopologyId string, partitions []int32,
                assignmentEpochs []int32? tag 0},
            standbyTasksPendingRevocation []{subtopologyId string, partitions []int32,
                assignmentEpochs []int32? tag 0},
            warmupTasksPendingRevocation []{subtopologyId string, partitions []int32,
                assignmentEpochs []int32? tag 0}}
    23 StreamsGroupTopology {groupId string}
        0 flexible 0+ {epoch int32, subtopologies []{subtopologyId string, sourceTopics []string,
            sourceTopicRegex []string, stateChangelogTopics []{name string, partitions int32,
            replicationFactor int16, topicConfigs []{key string, value string}},
            repartitionSinkTopics []string, repartitionSourceTopics []{name string, partitions int32,
            replicationFactor int16, topicConfigs []{key string, value string}},
            copartitionGroups []{sourceTopics []int16, sourceTopicRegex []int16,
            repartitionSourceTopics []int16}}}
""")

LEGACY_OFFSET = 0
"""The type of records about committed offsets that clients up to 0.8.2 wrote."""
OFFSET_TYPES = (LEGACY_OFFSET, 1)
"""The types of records about committed offsets. The others are about groups."""

SUBSCRIPTION = Notation("""
    0-3 {topics []string, userData bytes?, ownedPartitions []{topic string, partitions []int32} 1+,
        generationId int32 2+, rackId string? 3+}
""").message("ConsumerProtocolSubscription")

ASSIGNMENT = Notation("""
    0-3 {assignedPartitions []{topic string, partitions []int32}, userData bytes?}
""").message("ConsumerProtocolAssignment")


def decode_group_record(offset: int, key: bytes | None, value: bytes | None) -> tuple[str, str | None]:
    """Format key and payload as kafka-dump-log --offsets-decoder does."""
    return decode_record(RECORDS, offset, key, value, expand_members)


def expand_members(value: dict[str, Any]) -> None:
    """Replace the subscriptions and assignments of consumers in a classic group, which are messages.

    Those of other clients stay bytes, and so do those that cannot be decoded.
    """
    if value.get("protocolType") == "consumer":
        for member in value["members"]:
            for name, message in (("subscription", SUBSCRIPTION), ("assignment", ASSIGNMENT)):
                with suppress(MessageError):
                    member[name] = read_versioned(message, Buffer(member[name]))[1]
