"""Records of __cluster_metadata, of its snapshots and of bootstrap.checkpoint, up to Kafka 4.4 (Kafka:
MetadataRecordSerde)."""

from __future__ import annotations

import re

from native_log.messages.java_text import json_text
from native_log.messages.reading import Buffer, MessageError, read_frame, read_message
from native_log.messages.schema import Message, Notation

_TEXT = """
    0 RegisterBrokerRecord 0-4 flexible 0+ {brokerId int32, isMigratingZkBroker bool 2+, incarnationId uuid,
        brokerEpoch int64, endPoints []{name string, host string, port uint16, securityProtocol int16},
        features []{name string, minSupportedVersion int16, maxSupportedVersion int16}, rack string?,
        fenced bool, inControlledShutdown bool 1+, logDirs []uuid 3+ tag 0,
        cordonedLogDirs []uuid? 4+ tag 1 default null}
    1 UnregisterBrokerRecord 0 flexible 0+ {brokerId int32, brokerEpoch int64}
    2 TopicRecord 0 flexible 0+ {name string, topicId uuid}
    3 PartitionRecord 0-2 flexible 0+ {partitionId int32, topicId uuid, replicas []int32, isr []int32,
        removingReplicas []int32, addingReplicas []int32, leader int32, leaderRecoveryState int8 tag 0,
        leaderEpoch int32, partitionEpoch int32, directories []uuid 1+,
        eligibleLeaderReplicas []int32? 2+ tag 1 default null, lastKnownElr []int32? 2+ tag 2 default null}
    4 ConfigRecord 0 flexible 0+ {resourceType int8, resourceName string, name string, value string?}
    5 PartitionChangeRecord 0-2 flexible 0+ {partitionId int32, topicId uuid,
        isr []int32? tag 0 default null, leader int32 tag 1 default -2,
        replicas []int32? tag 2 default null, removingReplicas []int32? tag 3 default null,
        addingReplicas []int32? tag 4 default null, leaderRecoveryState int8 tag 5 default -1,
        directories []uuid? 1+ tag 8 default null, eligibleLeaderReplicas []int32? 2+ tag 6 default null,
        lastKnownElr []int32? 2+ tag 7 default null}
    7 FenceBrokerRecord 0 flexible 0+ {id int32, epoch int64}
    8 UnfenceBrokerRecord 0 flexible 0+ {id int32, epoch int64}
    9 RemoveTopicRecord 0 flexible 0+ {topicId uuid}
    10 DelegationTokenRecord 0 flexible 0+ {owner string, requester string, renewers []string,
        issueTimestamp int64, maxTimestamp int64, expirationTimestamp int64, tokenId string}
    11 UserScramCredentialRecord 0 flexible 0+ {name string, mechanism int8, salt bytes, storedKey bytes,
        serverKey bytes, iterations int32}
    12 FeatureLevelRecord 0 flexible 0+ {name string, featureLevel int16}
    14 ClientQuotaRecord 0 flexible 0+ {entity []{entityType string, entityName string?}, key string,
        value float64, remove bool}
    15 ProducerIdsRecord 0 flexible 0+ {brokerId int32, brokerEpoch int64, nextProducerId int64}
    17 BrokerRegistrationChangeRecord 0-3 flexible 0+ {brokerId int32, brokerEpoch int64, fenced int8 tag 0,
        inControlledShutdown int8 1+ tag 1, logDirs []uuid 2+ tag 2,
        cordonedLogDirs []uuid? 3+ tag 3 default null}
    18 AccessControlEntryRecord 0 flexible 0+ {id uuid, resourceType int8, resourceName string,
        patternType int8, principal string, host string, operation int8, permissionType int8}
    19 RemoveAccessControlEntryRecord 0 flexible 0+ {id uuid}
    20 NoOpRecord 0 flexible 0+ {}
    21 ZkMigrationStateRecord 0 flexible 0+ {zkMigrationState int8}
    22 RemoveUserScramCredentialRecord 0 flexible 0+ {name string, mechanism int8}
    23 BeginTransactionRecord 0 flexible 0+ {name string? tag 0 default null}
    24 EndTransactionRecord 0 flexible 0+ {}
    25 AbortTransactionRecord 0 flexible 0+ {reason string? tag 0 default null}
    26 RemoveDelegationTokenRecord 0 flexible 0+ {tokenId string}
    27 RegisterControllerRecord 0 flexible 0+ {controllerId int32, incarnationId uuid,
        zkMigrationReady bool, endPoints []{name string, host string, port uint16, securityProtocol int16},
        features []{name string, minSupportedVersion int16, maxSupportedVersion int16}}
    28 ClearElrRecord 0 flexible 0+ {topicName string}
    29 UnregisterControllerRecord 0 flexible 0+ {controllerId int32}
"""


def _parse_schemas() -> dict[int, Message]:
    notation, records = Notation(_TEXT), {}
    while notation:
        api_key = int(notation.next())
        records[api_key] = notation.message(notation.next())
    return records


RECORDS = _parse_schemas()
"""The schemas of records by API key."""


def decode_metadata_record(offset: int, key: bytes | None, value: bytes | None) -> tuple[None, str]:  # noqa: ARG001
    """Format the payload as kafka-dump-log --cluster-metadata-decoder does. There are no keys."""
    try:
        return None, _format_value(Buffer(value or b""))
    except MessageError as error:
        return None, f"Error at {offset}, skipping. {error}"


def _format_value(buffer: Buffer) -> str:
    api_key, version = read_frame(buffer)
    message = RECORDS.get(api_key)
    if message is None:
        raise MessageError(f"unknown metadata record with id {api_key}")
    data = read_message(message, version, buffer)
    if buffer.left:
        raise MessageError(f"expected the end of a {_type_name(message)}, found {buffer.left} more bytes")
    return json_text({"type": _type_name(message), "version": version, "data": data})


def _type_name(message: Message) -> str:
    """Return, for example, `TOPIC_RECORD` for TopicRecord (Kafka: MetadataRecordType)."""
    return re.sub("(?<!^)(?=[A-Z])", "_", message.name).upper()
