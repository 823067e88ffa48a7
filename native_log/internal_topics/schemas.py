"""The columns of the tables."""

from __future__ import annotations

import pyarrow as pa

from native_log.records import RECORD_SCHEMA

TIMESTAMP: pa.DataType = RECORD_SCHEMA.field("timestamp").type

RECORD_COLUMNS = (
    pa.field("recordPartition", pa.int32()),
    pa.field("recordOffset", pa.int64()),
    pa.field("recordTimestamp", TIMESTAMP),
    pa.field("error", pa.string()),
    pa.field("recordKey", pa.binary()),
    pa.field("recordValue", pa.binary()),
)
"""The last columns of each table: where the record of the row is, and, if it cannot be decoded, the reason
and its bytes. They are null otherwise."""


def _list(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


_STRINGS = _list(pa.string())

CONSUMER_OFFSETS_SCHEMA = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("leaderEpoch", pa.int32()),
        ("metadata", pa.string()),
        ("commitTimestamp", TIMESTAMP),
        ("expireTimestamp", TIMESTAMP),
        ("state", pa.string()),
        ("topicId", pa.string()),
        *RECORD_COLUMNS,
    ]
)
"""One row for each committed offset. `leaderEpoch`, `expireTimestamp` and `topicId` are null where the record
has none. `state` is

- "committed";
- "expired": the offset is the latest one of its group and partition, and a broker would delete it now;
- with `history` also "tombstone" (the offset was deleted), "aborted" and "open" (a commit in a transaction
  that was aborted, or has not ended);
- null: the record cannot be decoded.

`recordPartition`, `recordOffset` and `recordTimestamp` are those of the record in __consumer_offsets. `error`
says why a record cannot be decoded; `recordKey` and `recordValue` are its bytes."""

_STATE = CONSUMER_OFFSETS_SCHEMA.get_field_index("state")

LAG_SCHEMA = pa.schema(
    [
        *list(CONSUMER_OFFSETS_SCHEMA)[:_STATE],
        pa.field("logEndOffset", pa.int64()),
        pa.field("lag", pa.int64()),
        *list(CONSUMER_OFFSETS_SCHEMA)[_STATE:],
    ]
)
"""The columns of CONSUMER_OFFSETS_SCHEMA, and

- `logEndOffset`: the high watermark of the partition, as kafka-consumer-groups shows it: the checkpointed
  one, at most the offset at which the log ends; the end of the log if no high watermark is checkpointed; null
  if the log directories do not contain the partition;
- `lag`: `logEndOffset` - `offset`. It is negative if the log was truncated or replaced since the commit, or
  if the broker has not yet checkpointed the high watermark."""

_ASSIGNMENT = _list(
    pa.struct(
        [
            ("topic", pa.string()),
            ("topicId", pa.string()),
            ("taskType", pa.string()),
            ("subtopologyId", pa.string()),
            ("partitions", _list(pa.int32())),
        ]
    )
)

_MEMBERS = _list(
    pa.struct(
        [
            ("memberId", pa.string()),
            ("groupInstanceId", pa.string()),
            ("clientId", pa.string()),
            ("clientHost", pa.string()),
            ("rackId", pa.string()),
            ("memberEpoch", pa.int32()),
            ("state", pa.string()),
            ("rebalanceTimeoutMs", pa.int32()),
            ("sessionTimeoutMs", pa.int32()),
            ("serverAssignor", pa.string()),
            ("subscribedTopics", _STRINGS),
            ("subscribedTopicRegex", pa.string()),
            ("processId", pa.string()),
            ("assignment", _ASSIGNMENT),
            ("pendingRevocation", _ASSIGNMENT),
            ("targetAssignment", _ASSIGNMENT),
            ("subscriptionBytes", pa.binary()),
            ("assignmentBytes", pa.binary()),
        ]
    )
)

_SUBTOPOLOGIES = _list(
    pa.struct(
        [
            ("subtopologyId", pa.string()),
            ("sourceTopics", _STRINGS),
            ("sourceTopicRegex", _STRINGS),
            ("repartitionSourceTopics", _STRINGS),
            ("repartitionSinkTopics", _STRINGS),
            ("stateChangelogTopics", _STRINGS),
        ]
    )
)

GROUPS_SCHEMA = pa.schema(
    [
        ("group", pa.string()),
        ("type", pa.string()),
        ("state", pa.string()),
        ("protocolType", pa.string()),
        ("protocol", pa.string()),
        ("leader", pa.string()),
        ("epoch", pa.int32()),
        ("targetAssignmentEpoch", pa.int32()),
        ("stateTimestamp", TIMESTAMP),
        ("members", _MEMBERS),
        ("subtopologies", _SUBTOPOLOGIES),
        *RECORD_COLUMNS,
    ]
)
"""One row for each group in __consumer_offsets, also if it only has committed offsets.

- `type`: classic, consumer (KIP-848), share (KIP-932) or streams (KIP-1071).
- `state`: the state in which a coordinator has the group after loading the log. What is not in the log is not
  known: a rebalance of a classic group, and members that have failed since. A streams group of Kafka 4.1 is
  NotReady, because its records do not say whether its topics exist.
- `protocolType`, `protocol`, `leader`, `stateTimestamp`: of classic groups.
- `epoch`: the epoch of the group; the generation of a classic group.
- `members`: a list of structs. The members of classic groups have neither `memberEpoch`, `state` nor
  `targetAssignment`. `assignment`, `pendingRevocation` and `targetAssignment` are lists of topics with their
  partitions. `topic` is null if the log directories do not say which topic has the id. Members of streams
  groups have tasks there, with `taskType` (active, standby, warmup) and `subtopologyId` instead of a topic.
  `subscriptionBytes` and `assignmentBytes` are those of classic members that are not Kafka's consumers.
- `subtopologies`: of streams groups.

The last columns are those of CONSUMER_OFFSETS_SCHEMA, for the newest record of the group."""

TRANSACTION_STATE_SCHEMA = pa.schema(
    [
        ("transactionalId", pa.string()),
        ("producerId", pa.int64()),
        ("producerEpoch", pa.int32()),
        ("state", pa.string()),
        (
            "partitions",
            _list(pa.struct([("topic", pa.string()), ("partitions", _list(pa.int32()))])),
        ),
        ("transactionTimeoutMs", pa.int32()),
        ("startTimestamp", TIMESTAMP),
        ("lastUpdateTimestamp", TIMESTAMP),
        ("previousProducerId", pa.int64()),
        ("nextProducerId", pa.int64()),
        ("nextProducerEpoch", pa.int32()),
        ("clientTransactionVersion", pa.int32()),
        *RECORD_COLUMNS,
    ]
)
"""One row for each transactional id in __transaction_state. `state` is that of Kafka's TransactionState:
Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead or PrepareEpochFence; with
`history` also "tombstone". `partitions` are those of the transaction. What the record does not have is null.

The last columns are those of CONSUMER_OFFSETS_SCHEMA."""

SHARE_GROUPS_SCHEMA = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("topicId", pa.string()),
        ("startOffset", pa.int64()),
        ("logEndOffset", pa.int64()),
        ("lag", pa.int64()),
        ("snapshotEpoch", pa.int32()),
        ("stateEpoch", pa.int32()),
        ("leaderEpoch", pa.int32()),
        (
            "stateBatches",
            _list(
                pa.struct(
                    [
                        ("firstOffset", pa.int64()),
                        ("lastOffset", pa.int64()),
                        ("deliveryState", pa.string()),
                        ("deliveryCount", pa.int32()),
                    ]
                )
            ),
        ),
        ("createTimestamp", TIMESTAMP),
        ("writeTimestamp", TIMESTAMP),
        *RECORD_COLUMNS,
    ]
)
"""One row for each share group and partition in __share_group_state: the last snapshot with the updates after
it. Records before `startOffset` are finished; `stateBatches` are the states of those after it, both offsets
inclusive. `topic` is null if the log directories do not say which topic has the id. The members of share
groups are in GROUPS_SCHEMA.

- `logEndOffset`: the high watermark of the partition; null if the log directories do not contain it;
- `lag`: the number of offsets from `startOffset` to `logEndOffset` that are not finished, as
  kafka-share-groups shows it since Kafka 4.2 (KIP-1226). It is null if `startOffset` is.

The last columns are those of CONSUMER_OFFSETS_SCHEMA, for the newest record of the row."""

_INTEGERS = _list(pa.int32())

CLUSTER_METADATA_SCHEMA = pa.schema(
    [
        ("type", pa.string()),
        ("topic", pa.string()),
        ("topicId", pa.string()),
        ("partition", pa.int32()),
        ("leader", pa.int32()),
        ("leaderEpoch", pa.int32()),
        ("partitionEpoch", pa.int32()),
        ("replicas", _INTEGERS),
        ("isr", _INTEGERS),
        ("addingReplicas", _INTEGERS),
        ("removingReplicas", _INTEGERS),
        ("eligibleLeaderReplicas", _INTEGERS),
        ("lastKnownElr", _INTEGERS),
        ("leaderRecoveryState", pa.string()),
        ("directories", _STRINGS),
        ("resourceType", pa.string()),
        ("resourceName", pa.string()),
        ("name", pa.string()),
        ("value", pa.string()),
        ("text", pa.string()),
        ("nodeId", pa.int32()),
        ("brokerEpoch", pa.int64()),
        ("incarnationId", pa.string()),
        ("rack", pa.string()),
        ("isFenced", pa.bool_()),
        ("inControlledShutdown", pa.bool_()),
        ("cordonedDirectories", _STRINGS),
        (
            "endPoints",
            _list(
                pa.struct(
                    [
                        ("name", pa.string()),
                        ("host", pa.string()),
                        ("port", pa.int32()),
                        ("securityProtocol", pa.string()),
                    ]
                )
            ),
        ),
        (
            "features",
            _list(pa.struct([("name", pa.string()), ("minVersion", pa.int32()), ("maxVersion", pa.int32())])),
        ),
        *RECORD_COLUMNS,
    ]
)
"""One row for each thing in __cluster_metadata. `type` says what it is and which columns it has:

- "topic": `topic`, `topicId`;
- "partition": these, and the columns up to `directories`, the ids of log directories by replica;
- "config": `resourceType`, `resourceName`, the `name` and `value` of the setting; for a topic also `topic`.
  The value is null if it is a secret of a broker, such as a password or a key;
- "acl": `resourceType`, `resourceName`, `name` (its id), and `text` as kafka-acls shows it;
- "feature": `name`, and the level as `value`;
- "broker" and "controller": the columns from `nodeId` on; of brokers, `directories` are the log directories,
  and `cordonedDirectories` those in which they put no new partitions;
- "quota": `name`, `value`, and the entity as `text`;
- "scramCredential": the user as `resourceName`, the mechanism as `name`, the iterations as `value`;
- "delegationToken": `name` (its id) and `text`;
- "producerIds": the next producer id as `value`;
- "zkMigration": the state as `value`;
- null: a record that cannot be decoded.

The last columns are those of CONSUMER_OFFSETS_SCHEMA, for the last record that changed the row. They are null
if that was before the snapshot that was read."""
